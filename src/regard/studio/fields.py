"""What a request may hold: each field checks its value and describes itself, so that checks and openapi.json are one.

Every number and every list has a largest value, looked at before anything is made of it.
"""

import base64
import binascii
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import QUOTED, UserError, cut
from regard.files import parse_json
from regard.studio.problem import Problem

MAX_TEXT = 20_000
"Characters of a text; the tokenizer's work and the model's come on top."
MAX_ID = (1 << 31) - 1


class _Needed:
    pass


NEEDED = _Needed()


@dataclass(frozen=True)
class Field:
    read: Callable[[Any, str], Any]
    "A value and its name to what is used; raises `Problem`."
    schema: dict[str, Any]
    default: Any = NEEDED

    @property
    def is_needed(self) -> bool:
        return self.default is NEEDED

    def described(self) -> dict[str, Any]:
        if self.is_needed:
            return self.schema
        nullable = {"anyOf": [self.schema, {"type": "null"}]}
        return nullable if self.default is None else nullable | {"default": self.default}


Fields = Mapping[str, Field]


def refuse(name: str, message: str, hint: str) -> Problem:
    return Problem(422, f"{name}: {message}", hint=hint, param=name, code="invalid_value")


def shown(value: Any) -> str:
    return cut(repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}", 60)


def text(most: int = MAX_TEXT, *, least: int = 0, default: Any = NEEDED) -> Field:
    def read(value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise refuse(name, f"{shown(value)} is no text", "give a string")
        if not least <= len(value) <= most:
            raise refuse(name, f"{len(value):,} characters", f"give {least:,} to {most:,}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise refuse(name, f"half a character at {error.start}", "give valid Unicode") from None
        return value

    return Field(read, {"type": "string", "minLength": least, "maxLength": most}, default)


def data(most: int) -> Field:
    """Bytes, sent as base64; too many are not decoded."""
    longest = (most + 2) // 3 * 4

    def read(value: Any, name: str) -> bytes:
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            what = f"{len(value):,} characters" if isinstance(value, str) else f"{shown(value)} is no text"
            raise refuse(name, what, f"give up to {most:,} bytes as base64")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise refuse(name, "it is no base64", f"give up to {most:,} bytes as base64") from None

    return Field(read, {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": longest})


def whole(low: int, high: int, *, default: Any = NEEDED) -> Field:
    def read(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refuse(name, f"{shown(value)} is no whole number", f"give one from {low} to {high}")
        if not low <= value <= high:
            raise refuse(name, f"{shown(value)} is out of bounds", f"give a number from {low} to {high}")
        return value

    return Field(read, {"type": "integer", "minimum": low, "maximum": high}, default)


def number(low: float, high: float, *, above: bool = False, default: Any = NEEDED) -> Field:
    """With `above` the lower bound itself is refused."""

    def read(value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refuse(name, f"{shown(value)} is no number", f"give one from {low:g} to {high:g}")
        if not low <= value <= high or (above and value == low):
            raise refuse(name, f"{shown(value)} is out of bounds", f"give a number from {low:g} to {high:g}")
        return float(value)

    bounds = {"exclusiveMinimum" if above else "minimum": low, "maximum": high}
    return Field(read, {"type": "number", **bounds}, default)


def flag(default: Any = False) -> Field:
    def read(value: Any, name: str) -> bool:
        if not isinstance(value, bool):
            raise refuse(name, f"{shown(value)} is neither true nor false", "give true or false")
        return value

    return Field(read, {"type": "boolean"}, default)


def choice(*names: str, default: Any = NEEDED) -> Field:
    def read(value: Any, name: str) -> str:
        if not isinstance(value, str) or value not in names:
            raise refuse(name, f"{shown(value)} is not known", f"give one of {', '.join(names)}")
        return value

    return Field(read, {"type": "string", "enum": list(names)}, default)


def many(each: Field, most: int, *, least: int = 0, default: Any = NEEDED) -> Field:
    def read(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list):
            raise refuse(name, f"{shown(value)} is no list", "give a list")
        if not least <= len(value) <= most:
            raise refuse(name, f"a list of {len(value):,}", f"give {least:,} to {most:,}")
        return [each.read(item, f"{name}[{i}]") for i, item in enumerate(value)]

    return Field(read, {"type": "array", "items": each.schema, "minItems": least, "maxItems": most}, default)


def either(*fields: Field, default: Any = NEEDED) -> Field:
    """The first that takes the value; if none does, what the last says is wrong."""

    def read(value: Any, name: str) -> Any:
        for field in fields[:-1]:
            try:
                return field.read(value, name)
            except Problem:
                continue
        return fields[-1].read(value, name)

    return Field(read, {"anyOf": [field.schema for field in fields]}, default)


def record(fields: Fields, *, default: Any = NEEDED) -> Field:
    def read(value: Any, name: str) -> dict[str, Any]:
        return decoded(fields, value, name)

    return Field(read, schema_of(fields), default)


def optional(field: Field) -> Field:
    return replace(field, default=None)


def ids(most: int = 4096, *, default: Any = None) -> Field:
    return many(whole(0, MAX_ID), most, default=default)


def schema_of(fields: Fields) -> dict[str, Any]:
    needed = [name for name, field in fields.items() if field.is_needed]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: field.described() for name, field in fields.items()},
        "additionalProperties": False,
    }
    return found | ({"required": needed} if needed else {})


def decoded(fields: Fields, data: Any, where: str = "") -> dict[str, Any]:
    """All fields with their values; null, where a field need not be given, is as if it were not."""
    if not isinstance(data, dict):
        raise refuse(where or "the request", f"{shown(data)} is no object", "give a JSON object {...}")
    prefix = f"{where}." if where else ""
    for key in data:
        if key not in fields:
            near = difflib.get_close_matches(key[:QUOTED], fields, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(fields)}"
            raise refuse(prefix + cut(key, QUOTED), "is not known here", hint)
    found = {}
    for name, field in fields.items():
        value = data.get(name)
        if value is None and field.is_needed:
            raise refuse(prefix + name, "is missing", "it has no default")
        found[name] = field.default if value is None else field.read(value, prefix + name)
    return found


def parsed(body: bytes) -> Any:
    """The JSON of a request: strict, and never an error of ours."""
    try:
        return parse_json(body.decode("utf-8"), "the request")
    except UnicodeDecodeError as error:
        raise Problem(400, f"the request is not UTF-8: byte {error.start}", code="bad_json") from None
    except UserError as error:
        raise Problem(400, error.message, hint="send one JSON object", code="bad_json") from None


def from_query(fields: Fields, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """As `decoded`, of a query string; what looks like a whole number is one."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise refuse(key, "is given twice", "give it once")
        plain = value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20
        found[key] = int(value) if plain and fields.get(key, text()).schema.get("type") == "integer" else value
    return decoded(fields, found)
