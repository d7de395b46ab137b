"""The section ``tracing``: where spans of asks and holds are sent, and of how many.

It knows its keys. It must never know how they are carried out.
"""

import re
from typing import Annotated, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from governor.config.accepts import Accepts, Context, HintError, refusal
from governor.config.declared import Declared
from governor.config.nodes import MappingNode, Scalar
from governor.config.values import LENGTH
from governor.core.types import Nanos
from governor.tracing import Tracing

_MAX_URL: Final = 1024
_MAX_SERVICE: Final = 255


def _url(scalar: Scalar, _: Context) -> str:
    text = scalar.text
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise HintError from None
    if url.username or url.password:
        raise HintError("a password belongs into OTEL_EXPORTER_OTLP_HEADERS")
    if url.scheme not in {"http", "https"}:
        raise HintError("it begins with http:// or https://")
    if not url.hostname or not text.isascii() or not text.isprintable() or " " in text or len(text) > _MAX_URL:
        raise HintError
    if url.path not in {"", "/"} or url.query or url.fragment:
        raise HintError("for gRPC there is nothing behind the port")
    return text if port else f"{text.rstrip('/')}:4317"


def _ratio(scalar: Scalar, _: Context) -> float:
    if not re.fullmatch(r"[01]|0?\.[0-9]{1,9}|1\.0", scalar.text):
        raise HintError
    if not scalar.plain:
        raise HintError("take the quotes off")
    return float(scalar.text)


def _service(scalar: Scalar, _: Context) -> str:
    text = scalar.text
    if not text.strip() or not text.isprintable() or len(text.encode()) > _MAX_SERVICE:
        raise HintError
    return text


_URL: Final = Accepts(
    "the URL of a collector, such as http://127.0.0.1:4317",
    _url,
    {"type": "string", "pattern": r"^https?://[^/?#@\s]+/?$"},
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
