"""The section ``audit``: the file that every act of an operator and all that befalls leases is written to.

It knows its keys. It must never know how they are carried out.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field

from governor.auditing import DEFAULT_KEEP, DEFAULT_MAX_SIZE, MIB, AuditEvents, Auditing, AuditPolicy
from governor.config.accepts import refusal
from governor.config.declared import Declared, optional
from governor.config.nodes import Scalar
from governor.config.values import PATH, SIZE_OR_UNLIMITED, one_of, whole

_MAX_KEEP: Final = 1000


class Audit(Declared):
    """Where the audit trail is written, and how."""

    shape: ClassVar[str] = "a path, a mapping such as {file: /var/log/governor/audit.jsonl}, or off"
    shorthand: ClassVar[str] = "file"

    file: Annotated[
        Path,
        PATH,
        Field(
            description="The file: one JSON object a line. A relative path starts from the folder of this config. A "
            "named pipe or a device, such as /dev/stdout, is written to and never begun anew.",
            examples=["/var/log/governor/audit.jsonl"],
        ),
    ]
    policy: Annotated[
        AuditPolicy,
        one_of(AuditPolicy),
        optional(
            "When the file cannot take lines as fast as they come: drop loses some and counts them; block "
            "has every answer wait until its line is written, and grants nothing while that is refused.",
            default=str(AuditPolicy.DROP),
            examples=list(AuditPolicy),
        ),
    ] = AuditPolicy.DROP
    events: Annotated[
        AuditEvents,
        one_of(AuditEvents),
        optional(
            "What is written: operators, what they and the daemon itself do; leases, also all that befalls "
            "a lease, and what a client may not do; all, also who waits, is refused or gives up.",
            default=str(AuditEvents.LEASES),
            examples=list(AuditEvents),
        ),
    ] = AuditEvents.LEASES
    max_size: Annotated[
        int | None,
        SIZE_OR_UNLIMITED,
        optional(
            "The size at which a new file is begun; unlimited leaves that to others, such as logrotate.",
            default=f"{DEFAULT_MAX_SIZE // MIB}MiB",
            examples=["100MiB", "unlimited"],
        ),
    ] = DEFAULT_MAX_SIZE
    keep: Annotated[
        int,
        whole(1, _MAX_KEEP),
        optional("How many former files are kept, as FILE.1, the newest, to FILE.5.", default=DEFAULT_KEEP),
    ] = DEFAULT_KEEP

    def auditing(self) -> Auditing:
        """What it asks for."""
        return Auditing(self.file, self.policy, self.events, self.max_size, self.keep)


def _off(node: object) -> object:
    """None where a word says that there is to be no such file; everything else as it stands."""
    if isinstance(node, Scalar) and not node.quoted:
        if node.text == "off":
            return None
        if node.text in {"false", "no", "none"}:
            raise refusal(Audit.shape, node, "write off")
    return node


AUDIT_OR_OFF: Final = BeforeValidator(_off)
