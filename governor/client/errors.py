"""What can go wrong, as a small tree: whoever catches `GovernorError` has caught all of it.

It knows what a person needs to act. It must never know how a daemon is spoken to.
"""


class GovernorError(Exception):
    """Something that governor has to say went wrong."""

    def __reduce__(self) -> tuple[object, ...]:
        # A pool of processes or a task queue sends errors to where they are looked at.
        return _made_again, (type(self), self.args, vars(self))


class NotGranted(GovernorError):  # noqa: N818 - it says what happened, as TimeoutError does
    """The daemon said no: for good, or for now.

    Attributes:
        reason: Why, in lower case: ``none_free``, ``wait_over``, ``line_full``, ``hopeless``, ``draining``,
            ``unknown_resource``, ``above_capacity``, ``malformed``, ...
        resource: The resource that it is about; empty when none in particular.
        retry_after: Seconds after which it could be granted; None when that is not known, or never.
        never: Whether asking again in the same way is useless.

    Example:
        >>> raise NotGranted("no permit was free", reason="none_free", resource="orders-db", retry_after=None)
        Traceback (most recent call last):
        ...
        governor.client.errors.NotGranted: no permit was free
    """

    def __init__(
        self, message: str, *, reason: str, resource: str = "", retry_after: float | None = None, never: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.resource = resource
        self.retry_after = retry_after
        self.never = never


class LeaseLost(GovernorError):  # noqa: N818 - as above
    """A lease ended before it was released: what it lent may be lent to somebody else by now.

    Attributes:
        lease: The lease's id.
        reason: ``expired``, ``revoked``, ``disconnected``, ``released`` (by somebody else); ``unreachable``: the
            daemon could not be reached in time to keep it; ``unknown``: the daemon knows no such lease of this process,
            since its state was lost, or it was started on another state folder, or somebody else adopted the lease; or
            ``unclaimed``: this process held more than 10,000 when the connection broke, which is more than it can come
            back for.

    Example:
        >>> raise LeaseLost("lease 7 on orders-db is lost: revoked", lease=7, reason="revoked")
        Traceback (most recent call last):
        ...
        governor.client.errors.LeaseLost: lease 7 on orders-db is lost: revoked
    """

    def __init__(self, message: str, *, lease: int, reason: str) -> None:
        super().__init__(message)
        self.lease = lease
        self.reason = reason


class Unavailable(GovernorError):  # noqa: N818 - as above
    """The daemon cannot be reached, or does not answer in time. Nothing was granted.

    Attributes:
        address: Where it was looked for.

    Example:
        >>> raise Unavailable("no governor daemon at db1:7411: Connection refused", address="db1:7411")
        Traceback (most recent call last):
        ...
        governor.client.errors.Unavailable: no governor daemon at db1:7411: Connection refused
    """

    def __init__(self, message: str, *, address: str) -> None:
        super().__init__(message)
        self.address = address


class UsageError(GovernorError):
    """The program asked for something that makes no sense; it must be changed.

    Example:
        >>> from governor import Client
        >>> Client().acquire("orders-db", permits=0)
        Traceback (most recent call last):
        ...
        governor.client.errors.UsageError: orders-db: permits are a whole number from 1, not 0
    """


def _made_again(
    kind: type[GovernorError], arguments: tuple[object, ...], attributes: dict[str, object]
) -> GovernorError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error
