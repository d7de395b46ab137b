"""A sample load on the resources of sample.yaml: programs that behave, and some that do not.

    python -m deploy.monitoring.load 127.0.0.1:7411

It ends when its standard input does, or on SIGTERM and Ctrl-C.
"""

import asyncio
import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import governor
from governor import AsyncClient, Client

# How long a worker rests after a refusal that does not say when to try again.
_REST_S: Final = 0.1
# How often a connection breaks.
_BROKEN: Final = 1 / 200


def web(gov: Client) -> None:
    """Uses a connection for a moment; once in 200 times it was broken."""
    with gov.acquire("orders-db", wait=5) as lease:
        time.sleep(random.uniform(0.01, 0.06))
        if random.random() < _BROKEN:
            lease.release("broken")


def batch(gov: Client) -> None:
    """Wants more at a time than there is, and does not wait for long."""
    with gov.acquire("thumbnails", wait=0.2):
        time.sleep(random.uniform(0.05, 0.3))


def payments(gov: Client) -> None:
    """Asks half as often again as it may, and does not wait."""
    gov.try_acquire("payments-api")
    time.sleep(random.uniform(0.0, 0.13))


def leaky(gov: Client) -> None:
    """Takes what it does not give back."""
    gov.acquire("nightly-report", wait=5, lease=0.5).detach()
    time.sleep(random.uniform(0.5, 1.0))


async def impatient(gov: AsyncClient) -> None:
    """Gives up before it is served."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(random.uniform(0.02, 0.3)), gov.acquire("thumbnails", wait=5):
            await asyncio.sleep(0.05)


# Who runs how many of them at a time.
_CLIENTS: Final[tuple[tuple[Callable[[Client], None], int], ...]] = ((web, 6), (batch, 10), (payments, 1), (leaky, 1))


def run(address: str, stop: threading.Event) -> None:
    """All of them, until ``stop`` is set."""
    workers = [threading.Thread(target=_impatiently, args=(address, stop), daemon=True)]
    for turn, count in _CLIENTS:
        gov = Client(address, name=turn.__name__, unavailable="wait")
        workers += [
            threading.Thread(target=_again_and_again, args=(turn, gov, stop), daemon=True) for _ in range(count)
        ]
    for worker in workers:
        worker.start()
    stop.wait()
    for worker in workers:
        worker.join(timeout=1)


def _again_and_again(turn: Callable[[Client], None], gov: Client, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            turn(gov)
        except governor.GovernorError:
            stop.wait(_REST_S)


def _impatiently(address: str, stop: threading.Event) -> None:
    async def turns() -> None:
        async with AsyncClient(address, name=impatient.__name__, unavailable="wait") as gov:
            while not stop.is_set():
                try:
                    await impatient(gov)
                except governor.GovernorError:
                    await asyncio.sleep(_REST_S)
                await asyncio.sleep(0.1)

    asyncio.run(turns())


def main(address: str) -> int:
    """Until nobody wants it any more."""
    stop = threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        run(address, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
