"""Configuration: frozen dataclasses, filled strictly.

A configuration comes from a TOML file, a JSON file or `--set a.b=value`. Whatever its source it is
checked here, once: unknown keys are errors that name the nearest key, values have the declared type,
numbers are finite. Errors name the path (`model.n_heads`).
"""

import copy
import dataclasses
import difflib
import json
import math
import re
import reprlib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard.errors import USAGE, UserError

C = TypeVar("C")


def build(cls: type[C], data: Mapping[str, Any], where: str = "") -> C:
    """Make a `cls` (a frozen dataclass) out of plain data; `where` is the path shown in errors."""
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, cls)) if field.init}
    values = {}
    for key, value in data.items():
        path = f"{where}.{key}" if where else key
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(sorted(fields))}"
            raise UserError(f"unknown key '{path}'", hint)
        values[key] = _convert(hints[key], value, path)
    absent = [name for name, field in fields.items() if name not in values and _is_required(field)]
    if absent:
        raise UserError(f"{where or cls.__name__} has no {', '.join(absent)}", "these keys have no default")
    return cls(**values)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(args, value, path)
    if origin is Literal:
        return _expect(value in args, value, path, "one of " + ", ".join(map(repr, args)))
    if origin in (tuple, list):
        _expect(isinstance(value, list | tuple), value, path, "a list")
        if origin is tuple and args[-1] is not Ellipsis:
            _expect(len(value) == len(args), value, path, f"a list of {len(args)}")
        return origin(_convert(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        _expect(isinstance(value, Mapping), value, path, "a table")
        return {str(key): _convert(args[1], item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if isinstance(value, hint):  # already built
            return value
        _expect(isinstance(value, Mapping), value, path, "a table")
        return build(hint, value, path)
    if hint is Any:
        return value
    return _convert_scalar(hint, value, path)


def _convert_union(args: tuple[Any, ...], value: Any, path: str) -> Any:
    if value in (None, "none") and type(None) in args:  # TOML has no null, so the word stands for it
        return None
    failure: UserError | None = None
    for option in args:
        if option is not type(None):
            try:
                return _convert(option, value, path)
            except UserError as error:
                failure = failure or error
    assert failure is not None
    raise failure


def _convert_scalar(hint: Any, value: Any, path: str) -> Any:
    if hint is bool:
        return _expect(isinstance(value, bool), value, path, "true or false")
    if hint is int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(_expect(whole and not isinstance(value, bool), value, path, "a whole number"))
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
        return float(_expect(number, value, path, "a finite number"))
    if hint is str:
        return _expect(isinstance(value, str), value, path, "text")
    if hint is Path:
        return Path(_expect(isinstance(value, str | Path), value, path, "a path"))
    raise AssertionError(f"config field {path} has a type that build() does not know: {hint}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def _expect(good: bool, value: Any, path: str, expected: str) -> Any:
    if not good:
        raise UserError(f"{path} is {_shorten(value)}", f"expected {expected}")
    return value


def _shorten(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**30:  # Python itself refuses to print the longest ones
        return "a huge number"
    return reprlib.repr(value)  # bounded in length and in depth


def require(good: bool, message: str, hint: str = "") -> None:
    """A condition between several keys (`d_model` divisible by `n_heads`), as a `UserError`."""
    if not good:
        raise UserError(message, hint)


def set_values(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`data` with every `a.b=value` of the command line laid over it; values are read as TOML, else as text."""
    result = copy.deepcopy(dict(data))
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        if not equals or not all(dotted.strip().split(".")):
            hint = "write --set section.key=value"
            raise UserError(f"--set {assignment!r} is not an assignment", hint, exit_code=USAGE)
        *parents, last = dotted.strip().split(".")
        table = result
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise UserError(f"--set {assignment!r}: '{parent}' is a value, not a section")
        table[last] = _parse_value(text.strip())
    return result


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or a number or a nesting beyond all bounds
        return text


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}", "expected a readable TOML file in UTF-8") from error


def to_dict(config: Any) -> dict[str, Any]:
    """Plain data that `build` turns back into an equal configuration."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))


def to_toml(data: Mapping[str, Any], path: str = "") -> str:
    """Plain data as TOML; what is None is left out, so it reads back as its default."""
    values = {key: value for key, value in data.items() if value is not None and not isinstance(value, Mapping)}
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    lines = [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in values.items()]
    text = "\n".join(lines) + "\n" if lines else ""
    for key, table in tables.items():
        name = f"{path}.{_toml_key(key)}" if path else _toml_key(key)
        text += f"\n[{name}]\n{to_toml(table, name)}"
    return text


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # JSON has other names for what is not finite
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one that JSON leaves as it is
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError(f"{ascii(value)[:200]} is not UTF-8 text, so it cannot be written", "give it another name")
    return text


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml_value(key)
