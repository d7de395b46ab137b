"""What each single value may be: its words, its meaning, its JSON Schema, side by side.

It knows one scalar at a time, never its neighbours.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import AfterValidator, JsonValue

from governor.address import Address, TcpAddress, UnixAddress, parse, parse_tcp
from governor.config.accepts import Accepts, Context, HintError, fault
from governor.config.nodes import Scalar
from governor.config.problems import spoken
from governor.core.kinds.pool import Order
from governor.core.types import MAX_PERMITS, MILLISECOND, MIN_LEASE, Nanos
from governor.units import MAX_DURATION, Rate, format_duration, parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

Word = TypeVar("Word", bound=StrEnum)

MAX_NAME: Final = 200
MAX_TEXT: Final = 4096
UNLIMITED: Final = "unlimited"
# The largest number of a user or a group; the one after it means nobody in particular.
MAX_ACCOUNT: Final = 2**32 - 2
_ACCOUNT: Final = r"[^-\s:/][^\s:/]{0,63}"
# What the daemon itself must be allowed to do with its socket.
OWNER: Final = 0o600

# --- numbers ------------------------------------------------------------------------------------------------


def whole(low: int, high: int) -> Accepts[int]:
    """A whole number between two bounds, both included."""

    def meaning(scalar: Scalar, _: Context) -> int:
        return _whole(scalar, low, high)

    return Accepts(
        f"a whole number from {low} to {high}", meaning, {"type": "integer", "minimum": low, "maximum": high}
    )


def whole_or_unlimited(low: int, high: int) -> Accepts[int | None]:
    """The same, or ``unlimited``, which is None."""
    number = whole(low, high)

    def meaning(scalar: Scalar, context: Context) -> int | None:
        return None if scalar.text == UNLIMITED else number.meaning(scalar, context)

    what, words = f"{number.what}, or unlimited", (UNLIMITED,)
    return Accepts(what, meaning, {"anyOf": [number.schema, {"const": UNLIMITED}]}, words)


def _whole(scalar: Scalar, low: int, high: int) -> int:
    text = scalar.text
    if not re.fullmatch(r"[0-9]+", text):
        raise HintError("write it in digits alone" if re.fullmatch(r"[0-9][0-9_,' ]*", text) else "")
    if not scalar.plain:
        raise HintError("take the quotes off")
    if text.startswith("0") and text != "0":
        raise HintError("write it without a 0 in front")
    if len(text) > len(str(high)) or not low <= int(text) <= high:
        raise HintError
    return int(text)


# --- time ---------------------------------------------------------------------------------------------------

_DURATION: Final = r"([0-9]+(\.[0-9]+)?(d|h|m|s|ms))+"


def duration(low: Nanos = 0) -> Accepts[Nanos]:
    """A length of time from ``low`` to ten years, in nanoseconds; a plain 0 needs no unit."""
    most = format_duration(MAX_DURATION)
    if low:
        what = f"a duration from {format_duration(low)} to {most}, such as 30s"
        schema: JsonSchemaValue = {"type": "string", "pattern": f"^{_DURATION}$"}
    else:
        what = f"0 or a duration up to {most}, such as 30s"
        schema = {"anyOf": [{"const": 0}, {"type": "string", "pattern": f"^(0|{_DURATION})$"}]}

    def meaning(scalar: Scalar, _: Context) -> Nanos:
        length = parse_duration(scalar.text)
        if not low <= length <= MAX_DURATION:
            raise HintError
        return length

    return Accepts(what, meaning, schema)


def _rate(scalar: Scalar, _: Context) -> Rate:
    rate = parse_rate(scalar.text)
    if rate.permits > MAX_PERMITS or rate.period > MAX_DURATION:
        raise HintError(f"at most {MAX_PERMITS} permits, in at most {format_duration(MAX_DURATION)}")
    return rate


def _rate_or_unlimited(scalar: Scalar, context: Context) -> Rate | None:
    return None if scalar.text == UNLIMITED else _rate(scalar, context)


# How long a lease outlives the session that held it: not at all, until its deadline, or so long at most.
RELEASE: Final = "release"
KEEP: Final = "keep"
_GRACE: Final = duration(MILLISECOND)


def _on_disconnect(scalar: Scalar, context: Context) -> Nanos | None:
    if scalar.text in {RELEASE, KEEP}:
        return 0 if scalar.text == RELEASE else None
    if parse_duration(scalar.text) == 0:
        raise HintError(f"write {RELEASE}")
    return _GRACE.meaning(scalar, context)


ON_DISCONNECT: Final = Accepts(
    f"{RELEASE}, {KEEP} or {_GRACE.what}",
    _on_disconnect,
    {"anyOf": [{"enum": [RELEASE, KEEP]}, _GRACE.schema]},
    (RELEASE, KEEP),
)
LEASE: Final = duration(MIN_LEASE)
LENGTH: Final = duration(MILLISECOND)
LENGTH_OR_ZERO: Final = duration()
_RATES: Final = "a rate such as 100/s, 1000/h or 10/30s"
RATE: Final = Accepts(_RATES, _rate, {"type": "string", "pattern": rf"^[0-9]+/(d|h|m|s|ms|{_DURATION})$"})
RATE_OR_UNLIMITED: Final = Accepts(
    f"{_RATES}, or unlimited",
    _rate_or_unlimited,
    {"anyOf": [RATE.schema, {"const": UNLIMITED}]},
    (UNLIMITED,),
)

# --- sizes --------------------------------------------------------------------------------------------------

_MIN_SIZE: Final = 2**16
_MAX_SIZE: Final = 2**40


def _size_or_unlimited(scalar: Scalar, _: Context) -> int | None:
    if scalar.text == UNLIMITED:
        return None
    size = parse_size(scalar.text)
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise HintError
    return size


SIZE_OR_UNLIMITED: Final = Accepts(
    "a size from 64KiB to 1TiB, such as 100MiB, or unlimited",
    _size_or_unlimited,
    {"anyOf": [{"type": "string", "pattern": "^[0-9]+(KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)$"}, {"const": UNLIMITED}]},
    (UNLIMITED,),
)

# --- words --------------------------------------------------------------------------------------------------


def _text(scalar: Scalar, _: Context) -> str:
    try:
        size = len(scalar.text.encode())
    except UnicodeEncodeError:
        raise HintError("it has half a character") from None
    if size > MAX_TEXT:
        raise HintError(f"it has {size} bytes")
    return scalar.text


def _account(scalar: Scalar, _: Context) -> str | int:
    text = scalar.text
    if re.fullmatch(r"[0-9]{1,10}", text) and int(text) <= MAX_ACCOUNT:
        return int(text)
    if scalar.typed or text.isdecimal() or not text.isprintable() or not re.fullmatch(_ACCOUNT, text):
        raise HintError
    return text


def _mode(scalar: Scalar, _: Context) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", scalar.text):
        raise HintError
    mode = int(scalar.text, 8)
    if mode & OWNER != OWNER:
        raise HintError("its owner must be able to read and write, as with 0600")
    return mode


def one_of(words: type[Word]) -> Accepts[Word]:
    """One word of a closed set."""

    def meaning(scalar: Scalar, _: Context) -> Word:
        if scalar.text not in list(words):
            raise HintError
        return words(scalar.text)

    return Accepts(spoken(list(words)), meaning, {"enum": list(words)}, tuple(words))


ORDER: Final = one_of(Order)
TEXT: Final = Accepts(
    f"text of at most {MAX_TEXT} bytes",
    _text,
    {"type": ["string", "number", "boolean"], "maxLength": MAX_TEXT},
)
ACCOUNT: Final = Accepts(
    "a name or a number as in /etc/passwd or /etc/group",
    _account,
    {
        "anyOf": [
            {"type": "string", "pattern": f"^{_ACCOUNT}$"},
            {"type": "integer", "minimum": 0, "maximum": MAX_ACCOUNT},
        ]
    },
)
# YAML 1.2 calls 0660 the number 660, so an editor may see either.
MODE: Final = Accepts(
    "a file mode such as 0660",
    _mode,
    {
        "anyOf": [
            {"type": "string", "pattern": "^0?[67][0-7]{2}$"},
            {"type": "integer", "minimum": 600, "maximum": 777},
        ]
    },
)


def why_no_name(text: str) -> str | None:
    """Why nothing can be called so, if nothing can."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_NAME:
        return f"a name has 1 to {MAX_NAME} bytes; this one has {size}"
    if not text.isprintable():
        return "a name has printable characters only"
    if text != text.strip():
        return "a name does not start or end with a space"
    return None


def _name(text: str) -> str:
    if why := why_no_name(text):
        raise fault(why)
    return text


Name = Annotated[str, AfterValidator(_name)]
NAMES: Final[dict[str, JsonValue]] = {
    "propertyNames": {"minLength": 1, "maxLength": MAX_NAME, "not": {"pattern": r"^\s|\s$|\$\{"}}
}

# --- places -------------------------------------------------------------------------------------------------


def _located(path: Path, context: Context) -> Path:
    if not path.parts or not path.parts[0].startswith("~"):
        return context.folder / path
    if path.parts[0] != "~":
        raise HintError("of paths that start with ~ only ~/ is understood")
    if not context.home:
        raise HintError("HOME is not set, so ~ stands for nothing")
    return Path(context.home, *path.parts[1:])


def _path(scalar: Scalar, context: Context) -> Path:
    if scalar.typed:
        raise HintError("put it in quotes")
    if not scalar.text or not scalar.text.isprintable() or len(scalar.text.encode()) > MAX_TEXT:
        raise HintError
    return _located(Path(scalar.text), context)


def _address(scalar: Scalar, context: Context) -> Address:
    address = parse(scalar.text)
    if isinstance(address, TcpAddress):
        return address
    return UnixAddress(_located(address.path, context))


def _tcp(scalar: Scalar, _: Context) -> TcpAddress:
    return parse_tcp(scalar.text, example=7412)


def _tcp_or_off(scalar: Scalar, context: Context) -> TcpAddress | None:
    if scalar.text == "off":
        return None
    if scalar.text in {"false", "no", "none"}:
        raise HintError("write off")
    return _tcp(scalar, context)


def _true_or_false(scalar: Scalar, _: Context) -> bool:
    # What tools write that read YAML and write it again, whatever was there before.
    if scalar.text in {"true", "false"}:
        return scalar.text == "true"
    if scalar.text in {"on", "yes"}:
        raise HintError("write true")
    if scalar.text in {"off", "no"}:
        raise HintError("write false")
    raise HintError


_TCP_TEXT: Final = {"type": "string", "pattern": r"^\S+:[0-9]{1,5}$"}
PATH: Final = Accepts(f"a path of at most {MAX_TEXT} bytes", _path, {"type": "string", "minLength": 1})
SOCKET: Final = Accepts("the path of a unix socket, such as /run/governor/governor.sock", _path, PATH.schema)
ADDRESS: Final = Accepts(
    "an address such as 127.0.0.1:7411 or unix:/run/governor/governor.sock",
    _address,
    {"anyOf": [{"type": "string", "pattern": "^unix:.+$"}, _TCP_TEXT]},
)
TCP: Final = Accepts("an address such as 127.0.0.1:7412", _tcp, _TCP_TEXT)
TCP_OR_OFF: Final = Accepts(
    "an address such as 127.0.0.1:7412, or off", _tcp_or_off, {"anyOf": [_TCP_TEXT, {"const": "off"}]}
)
TRUE_OR_FALSE: Final = Accepts("true or false", _true_or_false, {"type": "boolean"}, words=("true", "false"))
