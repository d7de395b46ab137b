"""The daemon inside a test: in this process, with a clock that the test moves by hand.

It knows how to start and steer one. It must never be imported by anything else of governor, nor need pytest: the
fixture ``governor_daemon`` is in `governor.testing.plugin`, which pytest finds by itself.

It runs the real daemon but for what a test does not want: there is no state folder, no HTTP page, no signal handler,
and time stands still. Importing `Daemon` needs what the daemon needs: ``pip install 'governord[daemon]'``.

Example:
    >>> from governor.testing import Daemon
    >>> with Daemon({"semaphores": {"thumbnails": {"permits": 1}}}) as daemon:
    ...     daemon.resource("thumbnails").available
    1
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from governor.testing.daemon import Daemon, StartDaemon

__all__ = ["Daemon", "StartDaemon"]


def __getattr__(name: str) -> object:
    """Imports the daemon when it is asked for: pytest imports this package in every run, for its plugin."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from governor.testing import daemon  # noqa: PLC0415 - when somebody wants it
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("governor."):
            raise
        raise ImportError(
            f"the package {error.name} is missing, which a daemon in a test needs: pip install 'governord[daemon]'",
            name=error.name,
        ) from error
    return getattr(daemon, name)
