"""The key ``http``: where the status page, /metrics and health are, over what they go, and who may read them.

It knows its words. It must never open an address.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from governor.address import TcpAddress
from governor.config.accepts import Context, context_of
from governor.config.declared import Declared, given, optional
from governor.config.nodes import MappingNode
from governor.config.values import TCP, TCP_OR_OFF, TRUE_OR_FALSE

DEFAULT_HTTP: Final = TcpAddress("127.0.0.1", 7412)


@dataclass(slots=True, frozen=True)
class Http:
    """Where the pages are. ``clients``: whether they are for those alone; ``insecure``: as that of the whole file."""

    address: TcpAddress
    clients: bool = False
    insecure: bool = False

    def __str__(self) -> str:
        told = (str(self.address), "clients" if self.clients else "", "insecure" if self.insecure else "")
        return " ".join([word for word in told if word])


class HttpSection(Declared):
    """Where the pages are, and who may read them."""

    shape: ClassVar[str] = TCP_OR_OFF.what

    address: Annotated[
        TcpAddress,
        TCP,
        Field(
            description="Where the status page, /metrics and health are served.",
            examples=["127.0.0.1:7412", "tls://0.0.0.0:7412"],
        ),
    ]
    clients: Annotated[
        bool,
        TRUE_OR_FALSE,
        optional(
            "Whether whoever reads there must be one of the clients, with the verb read; all but "
            "/-/healthy and /-/ready. Such a one sends its token as a bearer's or as a password, or has a certificate.",
            default=False,
            examples=[True],
        ),
    ] = False
    insecure: Annotated[
        bool,
        TRUE_OR_FALSE,
        optional(
            "Whether other machines may reach it although nothing is encrypted there: something else must "
            "keep it from strangers then.",
            default=False,
            examples=[True],
        ),
    ] = False


class HttpAt:
    """An address, ``off``, or the mapping of more."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(node: object, _: object, info: ValidationInfo) -> Http | None:
            if not isinstance(node, MappingNode):
                address = TCP_OR_OFF.read(node, context_of(info))
                return None if address is None else Http(address)
            section = HttpSection.model_validate(node, context=info.context)
            return Http(section.address, section.clients, section.insecure)

        # The union is for the JSON Schema; pydantic would answer a mistake with the complaints of both.
        union = core_schema.union_schema(
            [
                handler.generate_schema(Annotated[TcpAddress | None, TCP_OR_OFF]),
                handler.generate_schema(HttpSection),
            ]
        )
        return core_schema.with_info_wrap_validator_function(read, union)


def address(node: MappingNode, context: Context) -> TcpAddress | None:
    """Where they are, as a file says or leaves out; None for nowhere, or what is refused, which is told elsewhere."""
    if "http" not in node:
        return DEFAULT_HTTP
    said = node["http"]
    return (
        given(TCP, said, "address", context)
        if isinstance(said, MappingNode)
        else given(TCP_OR_OFF, node, "http", context)
    )


def says(node: MappingNode, key: str, context: Context) -> bool:
    """Whether it says yes to that."""
    said = node.get("http")
    return isinstance(said, MappingNode) and given(TRUE_OR_FALSE, said, key, context) is True
