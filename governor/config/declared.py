"""What all mappings of a config file have in common: known keys, our own words, checks across keys.

It knows how pydantic reports, and turns each report around. It must never know any key.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError

from governor.config.accepts import OURS, REPORTED, Accepts, Context, context_of, fault, refusal, said
from governor.config.nodes import ListNode, MappingNode, Node, Scalar
from governor.config.problems import Trail, spoken

T = TypeVar("T")

MAX_ITEMS: Final = 16
SOME: Final[dict[str, JsonValue]] = {"minItems": 1, "maxItems": MAX_ITEMS}

# Where, from the mapping that complains, and why.
Conflict = tuple[Trail, str]


class Declared(BaseModel):
    """One mapping.

    ``shape`` says what is expected in place of anything else. ``or_nothing``: a key with nothing after it is an
    empty mapping. ``shorthand``: a scalar in place of the mapping is the value of this key. ``elsewhere``: keys that
    are looked for here, and where they belong.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: ClassVar[str]
    or_nothing: ClassVar[bool] = False
    shorthand: ClassVar[str] = ""
    elsewhere: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """What is wrong between the keys of ``node``; asked whatever is wrong with each of them."""
        del node, context
        return ()

    @classmethod
    def mistyped(cls, node: MappingNode, key: str) -> bool:
        """Whether ``key`` is there after all, in a form that is complained about anyhow."""
        return node.partial or key in node.meant.values()

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, value: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        context = context_of(info)
        node = cls._mapping(value)
        if cls.model_config["extra"] == "forbid":
            node.meant = {key: cls._meant(key, context) for key in node if key not in cls.model_fields}
        wrong = [_detail(trail, fault(message)) for trail, message in cls.conflicts(node, context)]
        try:
            model = handler(node)
        except ValidationError as error:
            reports = error.errors(include_url=False, include_input=False)
            wrong += [cls._reworded(report, node) for report in reports]
        else:
            if not wrong:
                return model
        raise ValidationError.from_exception_data(cls.__name__, wrong)

    @classmethod
    def _mapping(cls, value: object) -> MappingNode:
        if isinstance(value, MappingNode):
            return value
        if isinstance(value, Scalar) and (cls.or_nothing if value.null else cls.shorthand):
            node = MappingNode(value.line)
            if not value.null:
                node[cls.shorthand] = value
            return node
        raise refusal(cls.shape, value)

    @classmethod
    def _reworded(cls, report: ErrorDetails, node: MappingNode) -> InitErrorDetails:
        trail = report["loc"]
        match report["type"]:
            case "missing":
                key = str(trail[0])
                return _detail((), REPORTED if cls.mistyped(node, key) else fault(cls._missing(key)))
            case "extra_forbidden":
                return _detail(trail, fault(cls._unknown(str(trail[0]), node)))
            case "reported":
                return _detail(trail, REPORTED)
            case kind:
                assert kind == OURS, report
                return _detail(trail, fault(*said(report)))

    @classmethod
    def _meant(cls, key: str, context: Context) -> str | None:
        """The known key that an unknown one was meant to be."""
        if key in cls.elsewhere:
            return None
        start, _, _ = key.partition(":")
        return start if start in cls.model_fields else context.guesses.nearest(key, cls.model_fields)

    @classmethod
    def _missing(cls, key: str) -> str:
        what = next(item.what for item in cls.model_fields[key].metadata if isinstance(item, Accepts))
        return f"{key} is missing: expected {what}"

    @classmethod
    def _unknown(cls, key: str, node: MappingNode) -> str:
        if where := cls.elsewhere.get(key):
            return f"unknown key: {where}"
        if meant := node.meant[key]:
            glued = key.startswith(f"{meant}:")
            return f"a space is missing after {meant}:" if glued else f"unknown key: did you mean {meant}?"
        # A class has the keys that it inherits first; its own say more.
        keys = dict.fromkeys([*cls.__annotations__, *cls.model_fields])
        return f"unknown key: expected {spoken([name for name in keys if name in cls.model_fields])}"

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        if cls.or_nothing:
            schema["type"] = ["object", "null"]
        if cls.shorthand:
            mapping = schema.copy()
            schema.clear()
            schema |= {"anyOf": [mapping["properties"][cls.shorthand], mapping]}
        return reference


def optional(description: str, *, default: JsonValue, examples: Sequence[JsonValue] = ()) -> FieldInfo:
    """Of a key that may be left out. ``default``: what holds then, as it would be written; it is an example, too."""
    field: FieldInfo = Field(
        description=description, examples=[*examples] or [default], json_schema_extra={"default": default}
    )
    return field


def given(accepts: Accepts[T], node: MappingNode, key: str, context: Context) -> T | None:
    """What ``key`` of ``node`` means; None when it is not there or is refused, which is told elsewhere."""
    return quietly(accepts, node[key], context) if key in node else None


def quietly(accepts: Accepts[T], node: Node, context: Context) -> T | None:
    """What ``node`` means; None when it is refused, which is told elsewhere."""
    try:
        return accepts.read(node, context)
    except PydanticCustomError:
        return None


def complain(conflicts: Iterable[Conflict]) -> None:
    """Raises what is wrong, if anything is."""
    if wrong := [_detail(trail, fault(message)) for trail, message in conflicts]:
        raise ValidationError.from_exception_data("", wrong)


def mapping_of(example: str, *, or_nothing: bool = False) -> BeforeValidator:
    """Lets a mapping of names through and nothing else; with ``or_nothing`` a key with nothing after it is one."""

    def check(value: object) -> object:
        if isinstance(value, MappingNode):
            return value
        if or_nothing and isinstance(value, Scalar) and value.null:
            return MappingNode(value.line)
        raise refusal(f"a mapping of names, such as {example}", value)

    return BeforeValidator(check)


def list_of(example: str) -> BeforeValidator:
    """Lets a list through and nothing else, of a few items."""

    def check(value: object) -> object:
        if not isinstance(value, ListNode):
            raise refusal(f"a list, such as {example}", value)
        if not 1 <= len(value) <= MAX_ITEMS:
            raise fault(f"expected 1 to {MAX_ITEMS} items, such as {example}; found {len(value) or 'none'}")
        return value

    return BeforeValidator(check)


def _detail(trail: Trail, error: PydanticCustomError) -> InitErrorDetails:
    return InitErrorDetails(type=error, loc=trail, input=None)
