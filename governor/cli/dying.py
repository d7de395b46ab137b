"""The end of a process: by a signal, as its shell is to see it, or while threads go on.

It knows how one ends. It must never know why.
"""

import atexit
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


def die_of(number: int) -> int:
    """End this process by this signal, as the shells do after a command that did, so that whoever waits sees it.

    Returns 128 + ``number`` where the kernel does not let it: the first process of a container.
    """
    _flush()
    # The command has left a core file, if anybody has.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def leave(code: int) -> NoReturn:
    """End this process, whatever its threads are at, once all has been done that was to be done at the end.

    By itself Python would take itself apart meanwhile, and end each thread of its own where that next needs the
    interpreter: in the midst of code of Rust or C++, such as pydantic's or gRPC's, that is an abort.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - nothing else has them run
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):  # without one of them it is None
        with suppress(OSError):  # whoever read it is gone as well
            stream.flush()


@contextmanager
def interrupted_at_once() -> Iterator[None]:
    """While entered, Ctrl-C ends the process by itself, for commands that hold nothing and have nothing to put back.

    The exception that Python makes of it comes up wherever the interpreter is just then. Inside a finalizer, such as
    that of a gRPC stream that has ended, it is printed and forgotten, and the command goes on.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # somebody has other plans, such as nohup, or a screen that must be restored
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
