"""The JSON Schema of the config file, for editors that complete and check YAML.

It knows what pydantic makes of the models, and leaves out what tells an editor nothing. It refuses less than `load`
does: it cannot compare two values, and a variable may stand for anything.
"""

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from governor.config.declared import Declared
from governor.config.models import File


class _Schema(GenerateJsonSchema):
    """Titles that repeat a key, and defaults that say "not written", are left out."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        default = schema.get("default")
        if not default or isinstance(default, Declared):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, object]:
    """A schema of draft 2020-12."""
    schema = File.model_json_schema(schema_generator=_Schema)
    return {"$schema": _Schema.schema_dialect, **schema, "title": "governor config"}
