"""A terminal as tmux has it: what its screen shows, whatever was written to get there."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.process import BOUND, ROOT
from tests.programs import needed

# A server of its own does not see what this process was told, but whoever begins one may have asked for no colours.
_INHERITED = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "NO_COLOR": ""}


class Window:
    """One window, with a shell in it."""

    def __init__(self, tmux: str, socket: Path) -> None:
        self._program = tmux
        self._socket = socket

    def _tmux(self, *arguments: str) -> str:
        command = [self._program, "-S", str(self._socket), "-f", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def open(self, width: int, height: int, environment: Mapping[str, str]) -> None:
        """Begin it."""
        settings = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        size = ("-x", str(width), "-y", str(height))
        self._tmux("new-session", "-d", *size, *settings, "env", "PS1=$ ", "sh")

    def close(self) -> None:
        """End all of it."""
        self._tmux("kill-server")

    def type(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self._tmux("send-keys", *keys)

    def run(self, command: str) -> None:
        """Type a command."""
        self._tmux("send-keys", "-l", command)
        self.type("Enter")

    def resize(self, width: int, height: int) -> None:
        """Of its window."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, styled: bool = False) -> list[str]:
        """What it shows, line by line."""
        return self._tmux("capture-pane", "-p", *(["-e"] if styled else [])).split("\n")[:-1]

    def state(self, name: str) -> str:
        """What tmux says of it, such as whether a program has its other screen."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def pid(self) -> int:
        """The process in the foreground of its shell: the newest child of that."""
        shell = self.state("pane_pid")
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[-1])

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """The screen, once it looks so."""
        late = time.monotonic() + BOUND
        while not seen(screen := self.screen()):
            assert time.monotonic() < late, "\n".join(screen)
            time.sleep(0.05)
        return screen

    def prompts(self) -> list[str]:
        """The screen, once its shell waits for a command: what is typed sooner may be taken by a program that ends."""
        return self.until(lambda screen: [line for line in screen if line][-1:] == ["$"])

    def shows(self, *words: str) -> list[str]:
        """The screen, once all of these stand on it."""
        return self.until(lambda screen: all(word in "\n".join(screen) for word in words))


@contextmanager
def window(folder: Path, environment: Mapping[str, str], *, width: int = 80, height: int = 24) -> Iterator[Window]:
    """A window, and what runs in it, for as long as a test."""
    opened = Window(needed("tmux"), folder / "tmux.sock")
    opened.open(width, height, {"LC_ALL": "C.UTF-8", **_INHERITED, **environment})
    try:
        yield opened
    finally:
        opened.close()
