"""One answer, whatever it says.

It knows its parts. It must never know how it travels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

TEXT: Final = "text/plain; charset=utf-8"


class Stream(Protocol):
    """An answer that goes on for as long as its client is there."""

    async def more(self) -> Iterator[bytes] | None:
        """The next chunks, when there are any, all of which must be taken; None at the end."""
        ...

    def close(self) -> None:
        """End it, from either side; safe twice."""
        ...


@dataclass(slots=True, frozen=True)
class Reply:
    """One answer; a long body comes in chunks that are made as they are sent, and a `Stream` must be closed."""

    status: HTTPStatus
    body: bytes | Iterator[bytes] | Stream
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)


def say(status: HTTPStatus, text: str, **headers: str) -> Reply:
    """A line of text."""
    return Reply(status, text.encode(), headers=headers)
