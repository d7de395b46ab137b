"""The end of a process by a signal, as its shell is to see it.

It knows how one dies of a signal. It must never know why.
"""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def die_of(number: int) -> int:
    """End this process by this signal, as the shells do after a command that did, so that whoever waits sees it.

    Returns 128 + ``number`` where the kernel does not let it: the first process of a container.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read it is gone as well
            stream.flush()
    # The command has left a core file, if anybody has.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


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
