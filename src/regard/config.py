"""Configuration: frozen dataclasses, filled strictly.

A configuration comes from a TOML file, a JSON file or `--set a.b=value`. Whatever its source it is
checked here, once: unknown keys are errors that name the nearest key, values have the declared type,
numbers are finite. Errors name the path (`model.n_heads`).
"""

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard.errors import UserError

C = TypeVar("C")

MAX_JSON_BYTES = 64 * 2**20
"Larger files are not configurations; tokenizers read theirs elsewhere."


def build(cls: type[C], data: Mapping[str, Any], where: str = "") -> C:
    """Make a `cls` (a frozen dataclass) out of plain data; `where` is the path shown in errors."""
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(typing.cast(Any, cls)) if field.init}
    values = {}
    for key, value in data.items():
        path = f"{where}.{key}" if where else key
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(sorted(known))}"
            raise UserError(f"unknown key '{path}'", hint)
        values[key] = _convert(hints[key], value, path)
    try:
        return cls(**values)
    except TypeError as error:  # a field without a default is absent
        raise UserError(f"{where or cls.__name__}: {error}", "every key without a default must be given") from error


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(args, value, path)
    if origin is Literal:
        return _expect(value in args, value, path, "one of " + ", ".join(map(repr, args)))
    if origin in (tuple, list):
        _expect(isinstance(value, list | tuple), value, path, "a list")
        return origin(_convert(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        _expect(isinstance(value, Mapping), value, path, "a table")
        return {str(key): _convert(args[1], item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        if isinstance(value, hint):  # already built
            return value
        _expect(isinstance(value, Mapping), value, path, "a table")
        return build(hint, value, path)
    if hint is Any:
        return value
    return _convert_scalar(hint, value, path)


def _convert_union(args: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in args:
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
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."


def require(good: bool, message: str, hint: str = "") -> None:
    """A condition between several keys (`d_model` divisible by `n_heads`), as a `UserError`."""
    if not good:
        raise UserError(message, hint)


def set_values(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`data` with every `a.b=value` of the command line laid over it; values are read as TOML, else as text."""
    result = json.loads(json.dumps(data))
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        if not equals or not all(dotted.strip().split(".")):
            raise UserError(f"--set {assignment!r} is not an assignment", "write --set section.key=value")
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
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: {error}", "expected a readable TOML file in UTF-8") from error


def read_json(path: Path, *, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file that may be hostile: size bounded, no duplicate key, no deep nesting."""
    data = read_json_value(path, limit=limit)
    if not isinstance(data, dict):
        raise UserError(f"{path} holds a {type(data).__name__}", "expected a JSON object")
    return data


def read_json_value(path: Path, *, limit: int = MAX_JSON_BYTES) -> Any:
    try:
        size = path.stat().st_size
        if size > limit:
            raise UserError(f"{path} has {size:,} bytes", f"a file of this kind has at most {limit:,}")
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_no_duplicates)
    except UserError as error:
        raise UserError(f"{path}: {error.message}", error.hint) from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}", "expected a readable JSON file in UTF-8") from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UserError(f"the key '{twice}' stands twice", "keep one of them")
    return result


def to_dict(config: Any) -> dict[str, Any]:
    """Plain data that `build` turns back into an equal configuration."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))
