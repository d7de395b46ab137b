"""Chromium, by the protocol that its own developer tools speak: nothing is needed but the browser and aiohttp."""

import asyncio
import json
import os
import shutil
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

# For everything that is waited for; what is right takes far less, also on a busy machine.
BOUND: Final = 120.0

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # it refuses to be root without, and is shown nothing but our own page
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_KEYS: Final = {
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "/": ("Slash", 191, "/"),
    " ": ("Space", 32, " "),
}

Json = dict[str, Any]


class Page:
    """One tab. ``requests``: every URL that it asked for. ``complaints``: what its console says beyond information."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser = browser
        self._session = session
        self.requests: list[str] = []
        self.complaints: list[str] = []

    async def call(self, method: str, **params: object) -> Json:
        """One command of the protocol."""
        return await self._browser.call(method, self._session, **params)

    async def run(self, script: str) -> Any:  # noqa: ANN401  (whatever the script says)
        """The value of an expression, or of the promise that it is."""
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    async def open(self, url: str) -> None:
        """Go there; returns when it has been loaded."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def until(self, condition: str) -> None:
        """Look again and again, for a bounded time, until it holds."""
        try:
            async with asyncio.timeout(BOUND):
                while not await self.run(f"Boolean({condition})"):  # noqa: ASYNC110  (nothing tells)
                    await asyncio.sleep(0.02)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"it never came to pass that {condition}; the page says:\n{text[:3000]}") from None

    async def press(self, *keys: str) -> None:
        """One key after the other; what is no name of a key is typed."""
        for key in keys:
            if key not in _KEYS:
                await self.call("Input.insertText", text=key)
                continue
            code, number, text = _KEYS[key]
            pressed = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def click(self, selector: str) -> None:
        """With a mouse, in the middle of it."""
        box = await self.run(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{ block: "center" }});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        at = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        await self.call("Input.dispatchMouseEvent", type="mousePressed", **at)
        await self.call("Input.dispatchMouseEvent", type="mouseReleased", **at)

    async def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """As large as this, in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self, path: Path) -> None:
        """What is to be seen, as PNG."""
        told = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, b64decode(told["data"]))

    async def tree(self) -> list[tuple[str, str]]:
        """Role and name of all that a screen reader is told of."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]

    def heard(self, method: str, params: Json) -> None:
        """The browser tells something of this tab."""
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] in {"warning", "error"}:
                self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled" if params["type"] in {"warning", "error", "assert"}:
                self.complaints.append(str(params["args"]))
            case _:
                pass


class Browser:
    """A Chromium of our own, without a window."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._pages: dict[str, Page] = {}

    async def call(self, method: str, session: str = "", **params: object) -> Json:
        """One command, to the browser or to one of its tabs."""
        number = next(self._ids)
        message: Json = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message)
        async with asyncio.timeout(BOUND):
            told = await answer
        if "error" in told:
            raise AssertionError(f"{method}: {told['error']}")
        result: Json = told["result"]
        return result

    async def page(self) -> Page:
        """A new tab, with nothing in it."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            await page.call(f"{domain}.enable")
        await page.resize(1280, 800)
        return page

    async def listen(self) -> None:
        """Hear what the browser says, until it says no more."""
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                break
            told: Json = json.loads(message.data)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif (page := self._pages.get(told.get("sessionId", ""))) is not None:
                page.heard(told["method"], told["params"])


def command() -> str:
    """Where Chromium is; a test that needs it fails without."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.fail("this needs Chromium; on Debian: apt-get install chromium, or set CHROMIUM to where it is")
    return found


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A browser, ended and cleaned up after."""
    with tempfile.TemporaryDirectory(prefix="governor-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            command(), *_FLAGS, f"--user-data-dir={folder}", "about:blank",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = Path(folder) / "DevToolsActivePort"
            address = await _written(port, lambda: process.returncode is None)
            async with (
                ClientSession() as session,
                session.ws_connect(f"ws://127.0.0.1:{address}", max_msg_size=0) as socket,
            ):
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                yield browser
                await socket.close()
                await listening
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _written(path: Path, lives: Callable[[], bool]) -> str:
    """What the browser writes as soon as it listens: a port, and a path there."""
    async with asyncio.timeout(BOUND):
        while True:
            assert lives(), "Chromium ended before it listened"
            text = path.read_text() if path.exists() else ""  # noqa: ASYNC240  (a few bytes)
            if text.count("\n"):
                return "".join(text.split("\n")[:2])
            await asyncio.sleep(0.02)
