"""Programs that are ended by a signal hear of it."""

import signal
import sys
import threading
import time

from tests.faults.waiting import join

BOUND = 60


def test_a_signal_that_another_thread_was_given_is_heard_while_all_are_waited_for() -> None:
    """As the kernel may have it; each that is waited for ends by it."""
    told = threading.Event()
    heard: list[bool] = []
    main = threading.get_ident()

    def waits() -> bool:
        code = sys._current_frames()[main].f_code
        return code.co_filename == threading.__file__ and code.co_name in {"join", "_wait_for_tstate_lock"}

    def work() -> None:
        late = time.monotonic() + BOUND
        while not waits():
            assert time.monotonic() < late
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        heard.append(told.wait(BOUND))

    before = signal.signal(signal.SIGUSR1, lambda *_: told.set())
    try:
        worker = threading.Thread(target=work)
        worker.start()
        join([worker])
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert heard == [True]
