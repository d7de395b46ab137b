"""The options that many commands share, and what their values mean before anything is connected.

It knows the shape of a valid value. It must never know whether the daemon will like it.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, cast

import click

from governor.address import (
    USUAL_SOCKET,
    USUAL_TCP,
    VARIABLE,
    AddressError,
    TcpAddress,
    UnixAddress,
    check_socket_path,
    parse,
    usual,
)
from governor.cli.exits import CommandError, Exit
from governor.wording import DAY, MILLISECOND, SECOND

Output = Literal["table", "json"]
Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(slots=True)
class Settings:
    """What was said before or after the name of the command; the later word wins."""

    address: str | None = None
    output: Output = "table"

    @property
    def json(self) -> bool:
        """Whether a program reads the output."""
        return self.output == "json"

    def where(self) -> "Where":
        """The daemon to speak to: as told, else the environment's, else the socket if there, else loopback.

        Raises:
            CommandError: that is no address.
        """
        if self.address is not None:
            return _where(self.address, "--address")
        if named := os.environ.get(VARIABLE):
            return _where(named, VARIABLE)
        return _where(usual(), "default")


@dataclass(slots=True, frozen=True)
class Where:
    """An address, and who named it: ``--address``, ``GOVERNOR_ADDRESS`` or ``default``."""

    address: TcpAddress | UnixAddress
    source: str


def _where(text: str, source: str) -> Where:
    try:
        address = parse(text)
        if isinstance(address, UnixAddress):
            check_socket_path(address.path)
    except AddressError as error:
        raise CommandError(Exit.USAGE, f"{source} {text!r} is no address: {error}") from error
    return Where(address, source)


with_settings = click.make_pass_decorator(Settings, ensure=True)


def address_option(command: Command) -> Command:
    """Adds ``--address``."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Settings).address = value

    return click.option(
        "--address",
        metavar="ADDRESS",
        expose_value=False,
        callback=keep,
        help=f"The daemon: HOST:PORT, tls://HOST:PORT or unix:PATH. Else ${VARIABLE}, else unix:{USUAL_SOCKET} "
        f"where that exists, else {USUAL_TCP}.",
    )(command)


def output_option(command: Command) -> Command:
    """Adds ``-o``."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Settings).output = cast("Output", value)

    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        expose_value=False,
        callback=keep,
        help="For people (table, the default) or for programs (json), who get errors as JSON, too, on stderr.",
    )(command)


def reason_option(command: Command) -> Command:
    """Adds ``--reason``."""
    return click.option(
        "--reason",
        type=_REASON,
        default="",
        metavar="TEXT",
        help="Why: for the log, the audit trail, and whoever looks while it holds.",
    )(command)


def verbatim(title: str, *lines: str) -> str:
    """A paragraph of a help page that click must not wrap."""
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])


def examples(*lines: str) -> str:
    """The end of a command's help page."""
    return verbatim("Examples:" if len(lines) > 1 else "Example:", *lines)


class Duration(click.ParamType[int]):
    """A length of time as the config writes it; its value is nanoseconds.

    One below ``least`` or above ``most`` is refused with ``why``.
    """

    name = "duration"

    def __init__(self, *, least: int = 0, most: int | None = None, why: str = "") -> None:
        self.least = least
        self.most = most
        self.why = why

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The nanoseconds, or a usage error that shows how durations are written."""
        if isinstance(value, int):
            return value
        from governor.units import MAX_DURATION, UnitError, parse_duration

        try:
            length = parse_duration(value)
        except UnitError as error:
            better = f"write {error.meant}" if error.meant else str(error)
            hint = better or "write a number and a unit, such as 250ms, 30s, 5m or 1h30m"
            self.fail(f"{value!r} is no duration: {hint}", param, ctx)
        if length > MAX_DURATION:
            self.fail(f"{value!r} is longer than ten years", param, ctx)
        if length < self.least:
            self.fail(f"{value!r} is too short: {self.why}", param, ctx)
        if self.most is not None and length > self.most:
            self.fail(f"{value!r} is too long: {self.why}", param, ctx)
        return length


class Text(click.ParamType[str]):
    """Any text that the wire can carry; bytes that are no UTF-8 are refused with the name of the option.

    One that is to ``name`` something is not empty: on the wire that would mean all, which nobody means who passes a
    variable that is not set. ``most``: in bytes.
    """

    name = "text"

    def __init__(self, *, name: bool = False, most: int | None = None) -> None:
        self._names = name
        self._most = most

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not valid UTF-8", param, ctx)
        if self._most is not None and size > self._most:
            self.fail(f"it is {size} bytes long; there is room for {self._most}", param, ctx)
        if self._names and not value:
            self.fail("it is empty, which names nothing", param, ctx)
        return value


class Label(click.ParamType[tuple[str, str]]):
    """A word and what it says, as ``K=V``; both are free text."""

    def __init__(self, name: str = "label", example: str = "K=V, such as job=nightly") -> None:
        self.name = name
        self.example = example

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The two parts, or a usage error that shows how they are written."""
        if isinstance(value, tuple):
            return value
        key, equals, word = TEXT.convert(value, param, ctx).partition("=")
        if not (key and equals):
            self.fail(f"{value!r} is no {self.name}: write {self.example}", param, ctx)
        return key, word


class Whole(click.ParamType[int]):
    """A whole number between two bounds, both included."""

    name = "number"

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or a usage error with the bounds."""
        if isinstance(value, int):
            return value
        # int() reads more than digits, and refuses thousands of them.
        if not re.fullmatch(r"[0-9]{1,20}", value) or not self.low <= int(value) <= self.high:
            self.fail(f"{value!r} is not a whole number from {self.low} to {self.high}", param, ctx)
        return int(value)


DURATION: Final = Duration()
# Of a lease.
LEASE: Final = Duration(least=MILLISECOND, why="a lease lasts at least 1ms; without --lease as long as is usual")
# Of what an operator orders for a while.
WHILE: Final = Duration(least=SECOND, most=30 * DAY, why="write one from 1s to 30d")
TEXT: Final = Text()
_REASON: Final = Text(most=256)
NAME: Final = Text(name=True)
LABEL: Final = Label()
