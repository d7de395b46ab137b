"""A program that forks while its threads acquire, as servers and task queues do.

It holds a lease all the while, says its id, forks again and again, by hand and by multiprocessing, and says how often
the children could work and that its own lease is still its own. A child hangs for good where a client is not made for
forks, so each has little time.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable

from governor import Client, Lease, UsageError

TIMES = 10
PATIENCE = 10.0


def main(address: str) -> None:
    """All of it."""
    gov = Client(address)
    stop = threading.Event()

    def toil() -> None:
        while not stop.is_set():
            with gov.acquire("crowd", wait=PATIENCE):
                pass

    threads = [threading.Thread(target=toil, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    with gov.acquire("parent", lease=2) as lease:
        _say(f"holds {lease.id}")
        worked = sum(_by_hand(lambda: child(gov, lease)) for _ in range(TIMES))
        worked += sum(_by_multiprocessing(gov, lease) for _ in range(TIMES))
        assert sys.stdin.readline() == "go on\n"
        assert not lease.lost
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    gov.close()
    _say(f"{worked} children worked")


def child(gov: Client, inherited: Lease) -> None:
    """In a child: what it inherited is nobody's, and what it asks for is its own."""
    assert inherited.ended
    assert not inherited.lost
    try:
        with inherited:
            sys.exit("it runs under what its parent holds")
    except UsageError:
        pass
    assert inherited.detach() == inherited.id
    for _ in range(3):
        with gov.acquire("crowd", wait=PATIENCE) as lease:
            assert lease.id > inherited.id
    assert not gov.try_acquire("parent")
    # Here nothing runs at exit, as in a child of multiprocessing: it hangs up by its death.
    held = gov.acquire("child", wait=PATIENCE)
    assert held.granted


def _by_hand(work: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - nothing of it may go on in a child
            sys.stderr.write(f"child: {error!r}\n")
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


def _by_multiprocessing(gov: Client, lease: Lease) -> bool:
    process = multiprocessing.get_context("fork").Process(target=child, args=(gov, lease))
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
    return process.exitcode == 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
