"""The service Admin as the commands call it: who says so, and where it is if it is not where the daemon is asked.

It knows how admin calls are addressed. It must never know what they are about. In one sentence: an order reaches the
daemon that was named, or none.
"""

import getpass
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from governor.address import AddressError, UnixAddress, parse
from governor.cli.connection import UNKNOWN, Connection, Metadata, connect
from governor.cli.dying import interrupted_at_once
from governor.cli.exits import CommandError
from governor.cli.options import Where
from governor.v1.admin_pb2 import GetInfoRequest
from governor.v1.admin_pb2_grpc import AdminStub
from governor.v1.governor_pb2 import ListResourcesRequest, ListResourcesResponse
from governor.v1.governor_pb2_grpc import GovernorStub

if TYPE_CHECKING:
    import grpc

Request = TypeVar("Request")
Response = TypeVar("Response")

# A list may be of a great many.
LIST_SECONDS: Final = 60
ELSEWHERE: Final = "ADMIN_ELSEWHERE"
_MAX_ACTOR: Final = 256


class Admin:
    """The service of one daemon. Each of its calls raises CommandError."""

    def __init__(self, daemon: Connection, ends: ExitStack) -> None:
        # Where the daemon was reached, for what everybody may ask.
        self.daemon = daemon
        self._connection = daemon
        self._ends = ends
        self._metadata: Metadata = (("governor-actor", actor()),)

    def ask(
        self,
        method: "Callable[[AdminStub], grpc.UnaryUnaryMultiCallable[Request, Response]]",
        request: Request,
        *,
        seconds: float | None = None,
        patient: bool = False,
    ) -> Response:
        """The daemon's answer, as `Connection.ask` has it."""
        return self._wherever(
            lambda there, stub: there.ask(
                method(stub), request, seconds=seconds, patient=patient, metadata=self._metadata
            )
        )

    def send(
        self,
        method: "Callable[[AdminStub], grpc.StreamUnaryMultiCallable[Request, Response]]",
        parts: Sequence[Request],
    ) -> Response:
        """The daemon's answer to a request in parts."""
        return self._wherever(lambda there, stub: there.send(method(stub), parts, metadata=self._metadata))

    def _wherever(self, ask: Callable[[Connection, AdminStub], Response]) -> Response:
        def once() -> Response:
            return ask(self._connection, AdminStub(self._connection.channel))

        try:
            return once()
        except CommandError as error:
            self._follow(error)
        return once()

    def resources(self, *, seconds: float | None = None) -> ListResourcesResponse:
        """All of them, of the daemon that was named; its operators' socket asks nobody who he is, where it is here."""
        try:
            return self._resources(self.daemon, seconds)
        except CommandError as error:
            if error.reason != UNKNOWN or self.daemon.credentials:
                raise
            try:
                self.ask(lambda stub: stub.GetInfo, GetInfoRequest(), seconds=seconds)
            except CommandError:
                raise _unknown(error) from None
            return self._resources(self._connection, seconds)

    def _resources(self, there: Connection, seconds: float | None) -> ListResourcesResponse:
        return there.ask(GovernorStub(there.channel).ListResources, ListResourcesRequest(), seconds=seconds)

    def listed(
        self,
        method: "Callable[[AdminStub], grpc.UnaryStreamMultiCallable[Request, Response]]",
        request: Request,
        *,
        seconds: float | None = LIST_SECONDS,
        opened: "Callable[[Callable[[], None]], None]" = lambda _stop: None,
    ) -> Iterator[Response]:
        """All its answers, as they come. ``opened`` is told how to end them from another thread."""
        while True:
            stub = AdminStub(self._connection.channel)
            with self._connection.listen(method(stub), request, seconds=seconds, metadata=self._metadata) as hearing:
                opened(hearing.stop)
                try:
                    yield from hearing
                except CommandError as error:
                    # It is the first answer, if any, that says so.
                    self._follow(error)
                else:
                    return

    def _follow(self, error: CommandError) -> None:
        """Go on where the daemon says that its Admin is, or raise what it said."""
        if error.reason == UNKNOWN:
            raise _unknown(error) from None
        if error.reason != ELSEWHERE or self._connection is not self.daemon:
            raise error
        said = error.facts.get("admin", "")
        try:
            address = parse(said)
        except AddressError:
            raise error from None
        how = f"name that address there: --address {said}"
        if not isinstance(address, UnixAddress):
            raise error.but(f"{self.daemon.where.address}: admin calls are answered at {said}; {how}") from None
        if not _is_socket(address):
            here = f"{self.daemon.where.address}: admin calls are answered at {said} of the daemon's machine"
            raise error.but(f"{here}, which is not here; run this there, with --address {said}") from None
        nearer = self._ends.enter_context(connect(Where(address, "what the daemon said")))
        # The path may be another daemon's here: the port may be forwarded, or of another machine.
        info = nearer.ask(AdminStub(nearer.channel).GetInfo, GetInfoRequest(), metadata=self._metadata)
        if info.start != error.facts.get("start"):
            here = f"{self.daemon.where.address}: admin calls are answered at {said} of the daemon's machine"
            raise error.but(f"{here}; here another daemon has that socket. Run this there, with --address {said}")
        self._connection = nearer


@contextmanager
def reached(where: Where) -> Iterator[Admin]:
    """The service of the daemon there. Raises CommandError."""
    with interrupted_at_once(), ExitStack() as ends:
        yield Admin(ends.enter_context(connect(where)), ends)


def actor() -> str:
    """Who gives the order, for the daemon's records: ``root@db7 (sudo by alice)``. Nothing proves it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = f"uid {os.getuid()}"
    who = f"{user}@{socket.gethostname()}"
    if (by := os.environ.get("SUDO_USER")) and by != user:
        who += f" (sudo by {by})"
    # Metadata is ASCII.
    return "".join(c if " " <= c <= "~" else "?" for c in who)[:_MAX_ACTOR]


def _unknown(error: CommandError) -> CommandError:
    return error.but(f"{error.sentence}; a socket that the config names under admin asks nobody (--address unix:PATH)")


def _is_socket(address: UnixAddress) -> bool:
    try:
        return address.path.is_socket()
    except OSError:
        return False
