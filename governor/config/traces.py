"""The section ``tracing``: where spans of asks and holds are sent, and of how many.

It knows its keys. It must never know how they are carried out.
"""

import ipaddress
import re
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from governor.address import MAX_PORT
from governor.config.accepts import Accepts, Context, HintError, refusal
from governor.config.declared import Declared
from governor.config.nodes import MappingNode, Scalar
from governor.config.values import LENGTH
from governor.core.types import Nanos
from governor.tracing import Tracing

_MAX_URL: Final = 1024
# Where collectors take OTLP over gRPC.
_PORT: Final = 4317
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
# Of a URL: the scheme, an IPv6 address or a name, and what is written for a port.
_PARTS: Final = re.compile(r"(https?)://(?:\[([^\[\]]+)\]|([\w.-]+))(?::([0-9]*))?/?", re.IGNORECASE | re.ASCII)
_BEHIND: Final = re.compile(r"//[^/?#]+[/?#]")
_MAX_SERVICE: Final = 255


def _url(scalar: Scalar, _: Context) -> str:
    """Made anew of its parts, so that what is sent to is what was understood."""
    text = scalar.text
    if "@" in text:
        raise HintError("a password belongs into OTEL_EXPORTER_OTLP_HEADERS")
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > _MAX_URL:
        raise HintError
    if not _SCHEME.match(text):
        raise HintError("it begins with http:// or https://")
    url = _PARTS.fullmatch(text)
    if url is None:
        if _BEHIND.search(text):
            raise HintError("for gRPC there is nothing behind the port")
        raise HintError
    scheme, number, name, port = url.groups()
    if number is not None and not _is_ipv6(number):
        raise HintError
    if port is not None and not 0 < int(port or 0) <= MAX_PORT:
        raise HintError(f"a port is a number from 1 to {MAX_PORT}; not written, it is {_PORT}")
    return f"{scheme.lower()}://{name or f'[{number}]'}:{int(port or _PORT)}"


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _ratio(scalar: Scalar, _: Context) -> float:
    if not re.fullmatch(r"[01]|0?\.[0-9]{1,9}|1\.0", scalar.text):
        raise HintError
    if not scalar.plain:
        raise HintError("take the quotes off")
    return float(scalar.text)


def _service(scalar: Scalar, _: Context) -> str:
    text = scalar.text
    if scalar.typed:
        raise HintError("put it in quotes")
    if not text.strip() or not text.isprintable() or len(text.encode()) > _MAX_SERVICE:
        raise HintError
    return text


_URL: Final = Accepts(
    "the URL of a collector, such as http://127.0.0.1:4317",
    _url,
    {"type": "string", "pattern": r"^https?://([\w.-]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\])(:0*[1-9][0-9]*)?/?$"},
)


class Traces(Declared):
    """Spans of asks and holds, sent to a collector of OpenTelemetry by OTLP over gRPC."""

    shape: ClassVar[str] = "the URL of a collector, a mapping such as {endpoint: http://127.0.0.1:4317}, on or off"
    shorthand: ClassVar[str] = "endpoint"

    endpoint: Annotated[
        str,
        _URL,
        Field(
            description="Where they are sent. Not written: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, else "
            "OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4317.",
            examples=["http://127.0.0.1:4317"],
        ),
    ] = ""
    ratio: Annotated[
        float | None,
        Accepts("a number from 0 to 1", _ratio, {"type": "number", "minimum": 0, "maximum": 1}),
        Field(
            description="Of the asks that come without a trace, how many begin one; whoever asks within a trace has "
            "decided. Not written: OTEL_TRACES_SAMPLER, else 1.",
            examples=[0.05, 1],
        ),
    ] = None
    service_name: Annotated[
        str,
        Accepts(
            f"a name of at most {_MAX_SERVICE} bytes",
            _service,
            {"type": "string", "minLength": 1, "maxLength": _MAX_SERVICE},
        ),
        Field(
            description="What the daemon is called in traces. Not written: OTEL_SERVICE_NAME, else governor.",
            examples=["governor"],
        ),
    ] = ""
    timeout: Annotated[
        Nanos | None,
        LENGTH,
        Field(
            description="How long one export may take, with all that is tried again. Not written: "
            "OTEL_EXPORTER_OTLP_TIMEOUT, else 10s.",
            examples=["10s"],
        ),
    ] = None

    def tracing(self) -> Tracing:
        """What it asks for."""
        return Tracing(self.endpoint, self.ratio, self.service_name, self.timeout)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = super().__get_pydantic_json_schema__(core, handler)
        handler.resolve_ref_schema(reference)["anyOf"].insert(0, {"enum": ["on", "off"]})
        return reference


def _word(node: object) -> object:
    """None where a word says that nothing is traced, and an empty mapping where one says no more than that it is."""
    if isinstance(node, Scalar) and not node.quoted:
        if node.text == "off":
            return None
        if node.text == "on":
            return MappingNode(node.line)
        if node.text in {"true", "yes", "false", "no", "none"}:
            raise refusal(Traces.shape, node, "write on" if node.text in {"true", "yes"} else "write off")
    return node


TRACES_OR_OFF: Final = BeforeValidator(_word)
