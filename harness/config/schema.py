"""The JSON Schema of configuration files, for editors: what the models accept as it is written in YAML."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gravbench.config import settings
from gravbench.config.numbers import WRITTEN
from gravbench.config.search import STRATEGIES

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
Validated = (
    core_schema.BeforeValidatorFunctionSchema
)  # the only kind of function that stands before a value of a configuration


class _AsWritten(GenerateJsonSchema):
    """Adds what is accepted before it is made what the models hold: a scalar for a list, a text for a number."""

    def function_before_schema(self, schema: Validated) -> JsonSchemaValue:
        """Say what the function before a value accepts beside what it returns."""
        inner = super().function_before_schema(schema)
        match getattr(schema["function"]["function"], "__name__", ""):
            case "listed":
                return {"anyOf": [inner["items"], inner]}
            case "_as_written":
                return {"anyOf": [inner, {"type": "string", "pattern": f"^(?:{WRITTEN.pattern})$"}]}
            case "_for_all":
                return {"anyOf": [inner["additionalProperties"], inner]}
            case "_strategy_alone":
                return {"anyOf": [{"enum": list(STRATEGIES)}, inner]}
            case "_name_alone":
                return {"anyOf": [{"type": "string"}, inner]}
        return inner


def config_schema() -> dict[str, Any]:
    """Return the schema of a whole configuration file; what sets of values may stand together it does not say."""
    made = _bounded(settings.Config.model_json_schema(schema_generator=_AsWritten))
    return {"$schema": ADDRESS, **made, "title": "A sweep of gravbench"}


def _bounded(schema: Any) -> Any:
    """Write the bounds as JSON Schema does: pydantic leaves its own words where numbers may be written as texts."""
    if isinstance(schema, dict):
        return {BOUNDS.get(name, name): _bounded(value) for name, value in schema.items()}
    return [_bounded(member) for member in schema] if isinstance(schema, list) else schema
