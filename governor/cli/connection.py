"""One conversation with the daemon, and how each way that it can fail reads to a person.

It knows gRPC and the statuses of the wire contract. It must never retry by itself: each ask is made once.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar, assert_never

# The C core would log on its own what is reported here in words; it reads this when grpc is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from governor import tls, token
from governor.address import USUAL_TCP, Address, TcpAddress, UnixAddress
from governor.cli.exits import BY_REASON, BY_STATUS, CommandError, Exit
from governor.cli.options import Where
from governor.cli.reach import reach
from governor.cli.unheard import why
from governor.wording import printable, span

Request = TypeVar("Request")
Response = TypeVar("Response")

# That somebody listens is seen by then, which takes the kernel no time. A daemon on a machine that has much else to do
# takes some until it says anything; the library gives it as long.
GREETING_SECONDS: Final = 5
ANSWER_SECONDS: Final = 10
UNKNOWN: Final = "UNAUTHENTICATED"
# What each call tells beside its request.
Metadata = tuple[tuple[str, str | bytes], ...]

OPTIONS: Final = (
    # A proxy stands between this machine and the outside; the daemon is on the inside.
    ("grpc.enable_http_proxy", 0),
    # Also how long one attempt to connect may take: what listens without a word is no daemon.
    ("grpc.min_reconnect_backoff_ms", GREETING_SECONDS * 1000),
    # A daemon may declare a great many resources.
    ("grpc.max_receive_message_length", 64 << 20),
    # An acquire may stand in line for hours without a byte; pings notice in some 15 s that the daemon hangs.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
)


@dataclass(slots=True, frozen=True)
class Connection:
    """A channel to where somebody listens."""

    where: Where
    channel: grpc.Channel
    # What each call says besides: never shown.
    credentials: Metadata = ()

    def ask(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float | None = None,
        patient: bool = False,
        metadata: Metadata = (),
    ) -> Response:
        """The daemon's answer, within ``seconds`` (its usual time, if None), or if ``patient`` however long it takes.

        Raises:
            CommandError: with the words and the exit code for whatever went wrong.
        """
        bound = None if patient else seconds or ANSWER_SECONDS
        return self._answer(method.future(request, timeout=bound, metadata=self._also(metadata)), bound)

    def send(
        self,
        method: "grpc.StreamUnaryMultiCallable[Request, Response]",
        parts: Sequence[Request],
        *,
        metadata: Metadata = (),
    ) -> Response:
        """The same for a request in parts."""
        call = method.future(iter(parts), timeout=ANSWER_SECONDS, metadata=self._also(metadata))
        return self._answer(call, ANSWER_SECONDS)

    def _also(self, metadata: Metadata) -> Metadata:
        return (*metadata, *self.credentials)

    def _answer(self, call: "grpc._CallFuture[Response]", bound: float | None) -> Response:
        try:
            return call.result()
        except grpc.RpcError as error:
            raise _failure(call, self, bound) from error

    def refused(self, method: "grpc.StreamStreamMultiCallable[Request, Response]") -> CommandError | None:
        """Why the daemon takes no such stream of ours, if it takes none. It is told nothing but who we are."""
        call = method(iter(()), timeout=ANSWER_SECONDS, metadata=self.credentials)
        try:
            for _ in call:
                pass
        except grpc.RpcError:
            return _failure(call, self, ANSWER_SECONDS)
        return None

    @contextmanager
    def listen(
        self,
        method: "grpc.UnaryStreamMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float | None = None,
        metadata: Metadata = (),
    ) -> "Iterator[Hearing[Response]]":
        """All that the daemon answers, one after the other, for as long as it is listened to; at most ``seconds``."""
        call = method(request, timeout=seconds, metadata=self._also(metadata))
        try:
            yield Hearing(call, self, seconds)
        finally:
            call.cancel()


class Hearing(Generic[Response]):
    """The answers of one call, which raise CommandError where it ends badly."""

    def __init__(self, call: "grpc._CallIterator[Response]", daemon: Connection, seconds: float | None) -> None:
        self._call = call
        self._daemon = daemon
        self._seconds = seconds

    def __iter__(self) -> Iterator[Response]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise _failure(self._call, self._daemon, self._seconds) from error

    def stop(self) -> None:
        """End it, from any thread: whoever iterates is told CANCELLED."""
        self._call.cancel()


@contextmanager
def connect(where: Where) -> Iterator[Connection]:
    """A channel to a daemon that just took a plain connection; the first call finds out whether it speaks.

    Raises:
        CommandError: nobody answers there, in words that say what to look at.
    """
    # grpc would say it in a paragraph, and a blackhole only after twenty seconds.
    reach(where)
    with channel(where) as daemon:
        yield daemon


@contextmanager
def channel(where: Where) -> Iterator[Connection]:
    """The same, if somebody was there just now or will be."""
    credentials, target = _credentials(where.address), _target(where.address)
    if isinstance(where.address, TcpAddress) and where.address.tls:
        made = grpc.secure_channel(target, _trust(), options=OPTIONS)
    else:
        made = grpc.insecure_channel(target, options=OPTIONS)
    with made as opened:
        yield Connection(where, opened, credentials)


def _credentials(address: Address) -> Metadata:
    """What each call says of who makes it. Raises CommandError: the token cannot be had, or others could read it."""
    try:
        said = token.of_environment(os.environ)
    except token.TokenError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if not said:
        return ()
    if isinstance(address, TcpAddress) and not (address.tls or address.is_loopback):
        clear = f"the token of {token.VARIABLE} is not sent in the clear to {address}"
        raise CommandError(Exit.USAGE, f"{clear}: name a unix socket, an address of loopback, or tls://{address}")
    return (token.header(said),)


def _trust() -> grpc.ChannelCredentials:
    """Who may say which daemon it is, and what is shown to it. Raises CommandError."""
    named = os.environ.get(tls.CA_VARIABLE)
    ca = named or ssl.get_default_verify_paths().cafile
    try:
        cert, key = tls.own(os.environ) or (None, None)
        trusted = _read(ca, tls.CA_VARIABLE if named else "TLS")
        own_key, own_cert = (
            _read(key, tls.KEY_VARIABLE if key != cert else tls.CERT_VARIABLE),
            _read(cert, tls.CERT_VARIABLE),
        )
        # gRPC says nothing of files that it cannot use, or ends the process.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if cert and key:
            _checked(tls.unfit(cert, key), context.load_cert_chain, cert, key)
        if ca:
            _checked(f"{ca}: {tls.NOBODY}", context.load_verify_locations, ca)
    except tls.TlsError as error:
        raise CommandError(Exit.USAGE, f"TLS: {error}") from None
    return grpc.ssl_channel_credentials(trusted, own_key, own_cert)


def _read(path: str | None, named: str) -> bytes | None:
    """What is in it, if there is one. Raises CommandError."""
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{named}: {path}: {error.strerror}") from None


def _checked(wrong: str, load: Callable[..., None], *files: str | None) -> None:
    """Load them. Raises OSError, or TlsError with what is ``wrong``."""
    more = {"password": _no_password} if len(files) > 1 else {}
    try:
        load(*files, **more)
    except ssl.SSLError as error:
        raise tls.TlsError(f"{wrong}{tls.reason_of(error.reason)}") from None


def _no_password() -> str:
    """Else OpenSSL would ask for it at the terminal."""
    raise tls.TlsError("the key has a password: write it without one")


def _target(address: Address) -> str:
    match address:
        case UnixAddress():
            return f"unix:{address.path}"
        case TcpAddress():
            return address.bare
        case _:
            assert_never(address)


def _failure(error: grpc.Call, daemon: Connection, seconds: float | None) -> CommandError:
    """The words and the exit code for a call that ended badly."""
    address = daemon.where.address
    code = error.code()
    # The daemon begins with its name what is about no resource; here every line of the kind does.
    sentence = printable(error.details() or code.name).removeprefix("governor: ")
    reason, facts, retry = _details(error)
    if reason:
        if retry is not None and "try again in" not in sentence:
            sentence += f"; try again in {span(retry)}"
        if reason == UNKNOWN and daemon.credentials:
            sentence = _unknown()
        ending = BY_REASON.get(reason, BY_STATUS[code.name])
        return CommandError(ending, sentence, reason=reason, facts=facts, retry=retry)
    # Without the daemon's own reason, what ended the call stands between it and us.
    match code:
        case grpc.StatusCode.UNAVAILABLE if "http1.x" in sentence:
            # gRPC's own guess, from the first bytes of the answer.
            other = f"what answers at {address} speaks HTTP/1 and not gRPC: is that the http port, of metrics?"
            return CommandError(Exit.CANNOT_REACH, f"{other} Name an address of listen, such as {USUAL_TCP}.")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return CommandError(Exit.CANNOT_REACH, f"no answer from the daemon at {address}: {why(address, sentence)}")
        case grpc.StatusCode.DEADLINE_EXCEEDED if seconds is not None:
            late = f"no answer from the daemon at {address} within {seconds:g} s: it hangs"
            return CommandError(Exit.CANNOT_REACH, late)
        case grpc.StatusCode.UNIMPLEMENTED:
            other = f"what answers at {address} is not this governor, or an older one: {sentence}"
            return CommandError(Exit.CANNOT_REACH, other)
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            # A message above the size that grpc allows: no later time will do.
            return CommandError(Exit.USAGE, f"refused by gRPC: {sentence}")
        case _:
            return CommandError(BY_STATUS[code.name], f"{code.name}: {sentence}")


def _unknown() -> str:
    """That nobody is known by the token that was sent, and which that is."""
    file = printable(os.environ[token.VARIABLE])
    digest = f"`governor token hash {file}`"
    return (
        f"the daemon knows no client by the token in {file} ({token.VARIABLE}); take another, or have what {digest} "
        "prints among the tokens of a client in its config"
    )


def _details(error: grpc.Call) -> tuple[str, dict[str, str], int | None]:
    """The daemon's reason ("" if it gave none) and facts, and in how many nanoseconds to try again."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        # Details that contradict the status are no details.
        status = None
    reason, facts, retry = "", dict[str, str](), None
    info, again = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in status.details if status is not None else ():
        if detail.Unpack(info) and info.domain == "governor":
            reason, facts = info.reason, dict(info.metadata)
        elif detail.Unpack(again):
            retry = again.retry_delay.ToNanoseconds()
    return reason, facts, retry
