"""The guard: which client makes a call, and whether it may, where the config says who the clients are.

It knows where a caller's proof stands in a call, and asks `Client` and `Allowances`. It must never decide by itself,
nor keep a token: of one it knows the digest, for as long as the call lasts.

Without clients in the config ``policy`` is None, and nobody is asked: whoever serves calls looks at that first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grpc import aio

from governor import token
from governor.access import ANOTHERS_LEASE, UNKNOWN_CALLER, Client, Policy, Verb, digest_of
from governor.allowance import Allowances
from governor.core.effects import LeaseResult, LeaseState
from governor.core.types import Claim, Denial, LeaseId, Nanos, Reason
from governor.der import sans as sans_of
from governor.driver import Driver
from governor.wording import span

Context = aio.ServicerContext[bytes, bytes]
# Told of each refusal, once, when it is about to leave: what was asked for, if it was an ask, and whence somebody came
# whom nobody knows.
Refused = Callable[[Denial, Sequence[Claim], str], None]

# Where gRPC puts the certificate. What it has read in it itself ends at the first NUL of each name.
_CERTIFICATE: Final = "x509_pem_cert"
_SCHEME: Final = "bearer "
# Longer ones are nobody's, and need not be hashed.
_MAX_TOKEN: Final = 4096


@dataclass(slots=True, frozen=True)
class Caller:
    """A client that has proved who it is, and by what, so that this can be looked at again.

    ``digest`` of its token; without one, the ``sans`` of its certificate.
    """

    client: Client
    digest: bytes = b""
    sans: tuple[str, ...] = ()


class Guard:
    """Asked before every call. ``changed`` are called when the clients have changed; they must not raise."""

    def __init__(
        self, driver: Driver, clients: Sequence[Client] | None = None, refused: Refused = lambda *_: None
    ) -> None:
        self.policy: Policy | None = None
        self.changed: list[Callable[[], None]] = []
        self._refused = refused
        self._driver = driver
        self._allowances = Allowances(driver)
        self.declare(clients)

    def declare(self, clients: Sequence[Client] | None) -> None:
        """These are the clients from now on; None: nobody is asked."""
        before = None if self.policy is None else self.policy.clients
        if before == (None if clients is None else tuple(clients)):
            return
        self.policy = None if clients is None else Policy(clients)
        self._allowances.declare(clients or ())
        for tell in self.changed:
            tell()

    def close(self) -> None:
        """See nothing more of what happens; safe twice."""
        self._allowances.close()

    # --- who ------------------------------------------------------------------------------------------------

    def caller(self, context: Context) -> Caller | Denial:
        """Who makes this call; only where there is a policy."""
        return self._caller(context) or self.told(UNKNOWN_CALLER, origin=_origin(context.peer()))

    def sees_secrets(self, context: Context) -> bool:
        """Whether whoever was let in may see what its holder is lent: one who only reads has no use for it."""
        if self.policy is None or self.says_nothing(context):
            return True
        caller = self._caller(context)
        return caller is not None and (caller.client.may(Verb.ACQUIRE) or caller.client.may(Verb.ADMIN))

    def _caller(self, context: Context) -> Caller | None:
        # To ask gRPC for a certificate takes longer than all the rest; where there is a token nobody wants to know.
        said = _said(context)
        return self._known(said, () if said else _sans(context))

    def _known(self, said: Sequence[str | bytes], sans: tuple[str, ...]) -> Caller | None:
        """Who ``said`` that, over a connection whose certificate has these names."""
        assert self.policy is not None, "nobody is to be asked"
        if not said and sans and (client := self.policy.of_sans(sans)) is not None:
            return Caller(client, sans=sans)
        # A token that is wrong is not made good by a certificate.
        # Which of two would count is not for a proxy between us to decide.
        if len(said) == 1 and isinstance(said[0], str) and said[0][: len(_SCHEME)].lower() == _SCHEME:
            shown = said[0][len(_SCHEME) :].strip()
            if 0 < len(shown) <= _MAX_TOKEN:
                # Over HTTP it may hold bytes that are no text, which no token does.
                digest = digest_of(shown.encode(errors="surrogatepass"))
                if (client := self.policy.of_token(digest)) is not None:
                    return Caller(client, digest)
        return None

    def says_nothing(self, context: Context) -> bool:
        """Whether this call says nothing of who makes it."""
        return not _said(context) and not _sans(context)

    def name_of(self, context: Context) -> str:
        """As which client whoever makes this call is known; empty as none, which may be well where nobody is asked."""
        caller = None if self.policy is None else self._caller(context)
        return "" if caller is None else caller.client.name

    def caller_who_may(self, context: Context, verb: Verb) -> Caller | Denial:
        """Who makes this call, if he may do that to anything."""
        caller = self.caller(context)
        if isinstance(caller, Denial):
            return caller
        denial = self.refusal(caller, verb)
        return caller if denial is None else denial

    def again(self, caller: Caller | None, verb: Verb, resources: Iterable[str] = ()) -> Caller | Denial | None:
        """Who that is by now, if he may still do that; None is somebody who was not asked then."""
        if self.policy is None:
            return None
        if caller is None:
            return self.told(UNKNOWN_CALLER)
        policy = self.policy
        client = policy.of_token(caller.digest) if caller.digest else policy.of_sans(caller.sans)
        if client is None or client.name != caller.client.name:
            return self.told(replace(UNKNOWN_CALLER, client=caller.client.name))
        denial = client.refusal(verb, resources)
        return replace(caller, client=client) if denial is None else self.told(denial)

    # --- whether --------------------------------------------------------------------------------------------

    def refusal(
        self, caller: Caller, verb: Verb, resources: Iterable[str] = (), *, asked: bool = True
    ) -> Denial | None:
        """Why he may not do that to these, or not so often. If he ``asked`` it is once more, whatever comes of it."""
        denial = self.too_fast(caller, asked=asked) or caller.client.refusal(verb, resources)
        return None if denial is None else self.told(denial)

    def too_fast(self, caller: Caller, *, asked: bool) -> Denial | None:
        """Why he may not ask just now, if he does, which nobody is told of here."""
        return self._allowances.too_fast(caller.client) if asked else None

    def reader(self, said: Sequence[str], sans: tuple[str, ...], resource: str | None, origin: str) -> Client | Denial:
        """Who says that, if he may read of this resource, or of the daemon as a whole, over HTTP.

        Whoever is to be asked there is nobody where there are no clients: a reload that takes them away opens nothing.
        """
        caller = None if self.policy is None else self._known(said, sans)
        if caller is None:
            return self.told(UNKNOWN_CALLER, origin=origin)
        denial = self.too_fast(caller, asked=True)
        if denial is None and resource is None:
            denial = caller.client.refusal_of_all(Verb.READ)
        elif denial is None and resource is not None:
            denial = caller.client.refusal(Verb.READ, (resource,))
        return caller.client if denial is None else self.told(denial)

    def refusal_of_ask(
        self, caller: Caller, claims: Sequence[Claim], lease: Nanos | None, request_id: str
    ) -> Denial | None:
        """Why he may not ask for that. What he has asked for already under this request id he may, until it ends."""
        client = caller.client
        denial = self._allowances.too_fast(client)
        denial = denial or client.refusal(Verb.ACQUIRE, [claim.resource for claim in claims])
        if denial is None and not (request_id and self._driver.knows(client.name, request_id)):
            denial = _too_long(client, lease) or self._allowances.refusal(client, claims)
        return None if denial is None else self.told(denial, claims)

    def refusal_of_length(self, caller: Caller, length: Nanos | None) -> Denial | None:
        """Why nothing may be lent to him for so long."""
        denial = _too_long(caller.client, length)
        return None if denial is None else self.told(denial)

    def length(self, caller: Caller, claims: Sequence[Claim], lease: Nanos | None) -> Nanos | None:
        """How long to lend him that: what he said, or if he said nothing no longer than he may have it."""
        most = caller.client.max_lease
        if lease is not None or most is None:
            return lease
        usual = self._driver.usual_lease(claims)
        return most if usual is not None and usual > most else None

    def foreign(self, caller: Caller, leases: Sequence[LeaseId], *, renew: bool = False) -> dict[LeaseId, LeaseResult]:
        """Those of these that live and that he may not give back, or not ``renew``, with what he is told of them."""
        return {lease: result for lease in leases if (result := self._foreign(caller.client, lease, renew)) is not None}

    def _foreign(self, client: Client, lease: LeaseId, renew: bool) -> LeaseResult | None:  # noqa: FBT001
        owner = self._driver.client_of(lease)
        if owner is None or (owner == client.name and (not renew or client.may(Verb.ACQUIRE))):
            return None
        if client.may(Verb.ADMIN):
            held = self._driver.held(lease)
            if held is None or all(client.covers(grant.resource) for grant in held.grants):
                return None
        denial = self.told(replace(ANOTHERS_LEASE, client=client.name))
        return LeaseResult(lease, LeaseState.REFUSED, denial=denial)

    def told(self, denial: Denial, claims: Sequence[Claim] = (), *, origin: str = "") -> Denial:
        """This is what somebody is told."""
        self._refused(denial, claims, origin)
        return denial


def _said(context: Context) -> list[str | bytes]:
    return [value for key, value in context.invocation_metadata() or () if key == token.KEY]


def _sans(context: Context) -> tuple[str, ...]:
    """The names of hosts and the URIs in the certificate of whoever connected, if there is one that is in order."""
    shown = tuple(context.auth_context().get(_CERTIFICATE, ()))
    return sans_of(shown[0]) if len(shown) == 1 else ()


def _origin(peer: str) -> str:
    """Where that is, as gRPC names it: the machine, since each connection has a port of its own."""
    if peer.startswith("unix"):
        return "a unix socket"
    host = peer.partition(":")[2].rpartition(":")[0]
    return host.removeprefix("%5B").removesuffix("%5D")


def _too_long(client: Client, lease: Nanos | None) -> Denial | None:
    most = client.max_lease
    if lease is None or most is None or lease <= most:
        return None
    told = f"be lent anything for longer than {span(most, passed=True)}"
    return Denial(Reason.PERMISSION_DENIED, expected=told, client=client.name)
