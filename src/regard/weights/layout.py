"""A layout: how Hugging Face writes one `model_type`, as data that is read in both directions."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from regard.config import build
from regard.errors import UserError
from regard.models.base import Model, ModelConfig
from regard.weights.keymap import Edit, KeyMap, pattern_of

MAX_LABELS = 1_000_000


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Key:
    """One key of config.json: our field, the value that its absence means, and how to read and write it."""

    ours: str
    default: Any = None
    read: Callable[[Any], Any] = same
    write: Callable[[Any], Any] = same


@dataclass(frozen=True)
class Architecture:
    """One of their classes: the settings it stands for and the tensors that only it has."""

    settings: Mapping[str, Any]
    table: Mapping[str, str | Edit] = field(default_factory=dict)
    bare: bool = False
    "Whether it is written without the family's prefix."
    labelled: bool = False
    "Whether it has classes; two nameless ones where config.json names none."


@dataclass(frozen=True)
class Layout:
    model_type: str
    config_class: type[ModelConfig]
    build: Callable[[Any], Model]
    keys: Mapping[str, Key]
    "config.json: their key -> ours."
    table: Mapping[str, str | Edit]
    "Tensor names of the body: theirs -> ours."
    architectures: Mapping[str, Architecture]
    "By their class name; the first that fits is written."
    prefix: str = ""
    "What a bare model leaves out of its tensor names."
    ignored: tuple[str, ...] = ()
    "Tensors in old files that are no weights, and second copies of tied ones."
    fixed: Mapping[str, Any] = field(default_factory=dict)
    "Settings of ours that this layout always has."
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    "Keys of config.json that must have one of these values, because we do not have what others mean."
    read_more: Callable[[Mapping[str, Any], Collection[str]], dict[str, Any]] = lambda theirs, names: {}
    write_more: Callable[[Any], dict[str, Any]] = lambda config: {}
    "What is not key by key. Some of it shows only in the names of the tensors."
    more_tensors: Callable[[Any], Mapping[str, str | Edit]] = lambda config: {}
    "Tensor names that depend on the configuration."
    constants: Callable[[Any], dict[str, Tensor]] = lambda config: {}
    "Tensors that follow from the configuration and are written because transformers expects them."

    def read(self, theirs: Mapping[str, Any], names: Collection[str] = ()) -> ModelConfig:
        """Their config.json as our configuration, every value checked; `names` are the tensors in the file."""
        for key, allowed in self.refused.items():
            if key in theirs and theirs[key] not in allowed:
                raise UserError(
                    f"config.json: {key} = {theirs[key]!r} is not supported for '{self.model_type}'",
                    f"supported: {', '.join(map(repr, allowed))}",
                )
        values: dict[str, Any] = {"layout": self.model_type, **self.fixed}
        for key, entry in self.keys.items():
            values[entry.ours] = self._value(key, entry, theirs)
        values |= self.read_more(theirs, names)
        architecture = self.architectures[self.architecture_of(theirs)]
        values["labels"] = read_labels(theirs, 2 if architecture.labelled else 0)
        values["eos_ids"] = read_ids(theirs.get("eos_token_id"))
        values |= architecture.settings
        try:
            return build(self.config_class, values)
        except UserError as error:
            words = set(re.findall(r"\w+", error.message))
            called = [f"{e.ours} is {key} in config.json" for key, e in self.keys.items() if e.ours in words - {key}]
            raise UserError(error.message, "; ".join(filter(None, [error.hint, *called]))) from error

    def _value(self, key: str, entry: Key, theirs: Mapping[str, Any]) -> Any:
        value = theirs.get(key, entry.default)  # null is a value too: no such token, no such limit
        try:
            return value if value is None or key not in theirs else entry.read(value)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise UserError(f"config.json: {key} = {str(value)[:60]!r} is not understood ({error})") from error

    def architecture_of(self, theirs: Mapping[str, Any]) -> str:
        named = theirs.get("architectures") or [next(iter(self.architectures))]
        if not isinstance(named, list) or not isinstance(named[0], str) or named[0] not in self.architectures:
            raise UserError(
                f"config.json: architectures = {str(named)[:80]} is not one that regard opens",
                f"for '{self.model_type}' it opens {', '.join(self.architectures)}",
            )
        return named[0]

    def write(self, config: ModelConfig) -> dict[str, Any]:
        """Our configuration as their config.json."""
        theirs: dict[str, Any] = {"model_type": self.model_type}
        values = config.filled()
        for key, entry in self.keys.items():
            theirs[key] = entry.write(values[entry.ours])
        theirs |= self.write_more(config)
        theirs["architectures"] = [self.architecture_for(config)]
        if config.labels:
            theirs["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
            theirs["label2id"] = {label: i for i, label in enumerate(config.labels)}
        theirs["eos_token_id"] = _one_or_many(config.eos_ids)
        return theirs

    def architecture_for(self, config: ModelConfig) -> str:
        for name, architecture in self.architectures.items():
            if all(getattr(config, key) == value for key, value in architecture.settings.items()):
                return name
        raise UserError(f"a model with these heads has no class in Hugging Face's '{self.model_type}'")

    def tensors(self, config: ModelConfig) -> KeyMap:
        """The names of all tensors of one model."""
        architecture = self.architectures[self.architecture_for(config)]
        table = {**self.table, **self.more_tensors(config), **architecture.table}
        return KeyMap(table, prefix=self.prefix)

    def is_bare(self, config: ModelConfig) -> bool:
        return self.architectures[self.architecture_for(config)].bare

    def knows(self, theirs: str) -> bool:
        """Whether a tensor belongs to the family, though perhaps to another head; or is no weight at all."""
        return any(self._known.fullmatch(name) for name in (theirs, f"{self.prefix}.{theirs}"))

    @cached_property
    def _known(self) -> re.Pattern[str]:
        tables = [self.table, *(architecture.table for architecture in self.architectures.values())]
        templates = [*self.ignored, *(name for table in tables for name in table)]
        return re.compile("|".join(pattern_of(template).pattern for template in templates))

    def check(self, config: ModelConfig, names: Collection[str]) -> None:
        """Refuse a configuration that this layout cannot express: what it reads back must be what was written."""
        back = self.read(self.write(config), names).filled()
        for name, value in config.filled().items():
            if back[name] != value:
                raise UserError(
                    f"the layout '{self.model_type}' cannot express {name} = {value!r}",
                    f"it would be read back as {back[name]!r}",
                )


def read_ids(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _one_or_many(ids: tuple[int, ...]) -> int | list[int] | None:
    if not ids:
        return None
    return ids[0] if len(ids) == 1 else list(ids)


def read_labels(theirs: Mapping[str, Any], unnamed: int) -> tuple[str, ...]:
    """Names of the classes in order of their numbers; so many nameless ones where config.json says nothing."""
    table = theirs.get("id2label")
    if not table:
        count = theirs.get("num_labels", unnamed)
        if not isinstance(count, int) or not 0 <= count <= MAX_LABELS:
            raise UserError(f"config.json: num_labels is {str(count)[:40]}", "expected a positive number")
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        numbered = {int(number): str(label) for number, label in table.items()}
        return tuple(numbered[i] for i in range(len(numbered)))
    except (AttributeError, ValueError, KeyError) as error:
        raise UserError("config.json: id2label does not number its labels 0, 1, 2 ...") from error


_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def read_activation(name: str) -> str:
    if name not in _ACTIVATIONS:
        raise UserError(f"config.json: unknown activation '{name}'", f"known: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def write_activation(name: str) -> str:
    return next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == name)


def activation(ours: str, default: str) -> Key:
    return Key(ours, default, read_activation, write_activation)
