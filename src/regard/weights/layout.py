"""A layout: how Hugging Face writes one `model_type`. Its tables (layouts/*.toml) are read in both directions."""

import re
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.config import build, read_toml, require
from regard.errors import UserError, pick
from regard.models.base import ModelConfig
from regard.models.registry import FAMILIES, Family
from regard.weights.keymap import EDITS, Edit, KeyMap, pattern_of
from regard.weights.special import CODECS, SPECIAL, Special

MAX_LABELS = 100_000


@dataclass(frozen=True)
class Key:
    """One key of config.json: our field, the value that its absence means, and by how much theirs is larger."""

    ours: str
    default: Any = None
    offset: int = 0

    def read(self, theirs: Any) -> Any:
        read, _ = CODECS.get(self.ours, (None, None))
        return read(theirs) if read else theirs - self.offset if self.offset else theirs

    def write(self, ours: Any) -> Any:
        _, write = CODECS.get(self.ours, (None, None))
        return write(ours) if write else ours + self.offset if self.offset else ours


@dataclass(frozen=True)
class Rule:
    """One row of the tensor table: ours, how theirs is stored, and for which settings the row holds."""

    ours: tuple[str, ...]
    stored: str = "plain"
    when: dict[str, Any] | None = None

    def holds(self, config: ModelConfig) -> bool:
        return all(getattr(config, name) in values for name, values in (self.when or {}).items())

    @property
    def edit(self) -> Edit:
        return EDITS[self.stored](*self.ours)


@dataclass(frozen=True)
class Architecture:
    """One of their classes: the settings it stands for and the tensors that only it has."""

    settings: dict[str, Any]
    tensors: dict[str, Rule]
    bare: bool = False
    "Whether it is written without the family's prefix."
    labelled: bool = False
    "Whether it has classes; two nameless ones where config.json names none."

    @property
    def head(self) -> str:
        """The one thing that it is for."""
        heads = self.settings.get("heads", [self.settings.get("head", "")])
        return heads[0] if len(heads) == 1 else ""

    def fits(self, config: ModelConfig) -> bool:
        return all(_as_toml(getattr(config, name)) == value for name, value in self.settings.items())


def _as_toml(value: Any) -> Any:
    return "none" if value is None else list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Layout:
    model_type: str
    family: Family
    prefix: str
    "What a bare model leaves out of its tensor names."
    keys: dict[str, Key]
    "config.json: their key -> ours."
    fixed: dict[str, Any]
    "Settings of ours that this layout always has."
    supported: dict[str, list[Any]]
    "Keys of config.json that must have one of these values, because we do not have what others mean."
    tensors: dict[str, Rule]
    ignored: list[str]
    "Tensors in old files that are no weights."
    copies: list[tuple[str, str]]
    "Tensors that may stand in a file beside the one they are tied to, or in its place."
    architectures: dict[str, Architecture]
    "By their class name; the first that fits is written."

    @property
    def special(self) -> Special:
        return SPECIAL.get(self.model_type, Special())

    def read(self, theirs: Mapping[str, Any], names: Collection[str] = ()) -> ModelConfig:
        """Their config.json as our configuration, every value checked; `names` are the tensors in the file."""
        theirs = self._flat(theirs)
        for key, allowed in self.supported.items():
            found = f"{key} = {reprlib.repr(theirs.get(key))} is not supported for '{self.model_type}'"
            require(theirs.get(key) in (None, *allowed), f"config.json: {found}", f"supported: {str(allowed)[1:-1]}")
        values: dict[str, Any] = {"layout": self.model_type, **self.fixed}
        values |= {entry.ours: self._value(key, entry, theirs) for key, entry in self.keys.items()}
        architecture = self.architectures[self.architecture_of(theirs)]
        values["labels"] = read_labels(theirs, 2 if architecture.labelled else 0)
        values["problem"] = theirs.get("problem_type")
        ends = theirs.get("eos_token_id")
        values["eos_ids"] = ends if isinstance(ends, list) else [] if ends is None else [ends]
        try:
            build(self.family.config, values)  # what is special computes with checked values
            return build(self.family.config, values | self.special.read(theirs, names) | architecture.settings)
        except UserError as error:
            words = set(re.findall(r"\w+", error.message))
            called = [f"{e.ours} is {key} in config.json" for key, e in self.keys.items() if e.ours in words - {key}]
            raise UserError(error.message, "; ".join(filter(None, [error.hint, *called]))) from error

    def _flat(self, theirs: Mapping[str, Any]) -> Mapping[str, Any]:
        """`encoder.x` for the x in the table `encoder`, where this layout has such tables."""
        tables = {key.partition(".")[0] for key in self.keys if "." in key}
        for name in tables:
            table = theirs.get(name)
            require(isinstance(table, dict), f"config.json: {name} is {reprlib.repr(table)}", "expected a table")
            theirs = {**theirs, **{f"{name}.{key}": value for key, value in (table or {}).items()}}
        return theirs

    def _value(self, key: str, entry: Key, theirs: Mapping[str, Any]) -> Any:
        value = theirs.get(key, entry.default)  # null is a value too: no such token, no such limit
        try:
            return value if value is None or key not in theirs else entry.read(value)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise UserError(f"config.json: {key} = {str(value)[:60]!r} is not understood ({error})") from error

    def architecture_of(self, theirs: Mapping[str, Any]) -> str:
        named = theirs.get("architectures") or [next(iter(self.architectures))]
        known = isinstance(named, list) and isinstance(named[0], str) and named[0] in self.architectures
        found = f"config.json: architectures = {str(named)[:80]} is not one that regard opens"
        require(known, found, f"for '{self.model_type}' it opens {', '.join(self.architectures)}")
        return str(named[0])

    def with_known_tokens(self, config: ModelConfig) -> ModelConfig:
        """Special tokens that the vocabulary has not are refused, unless they do no harm, as in transformers.

        Padding of -1 means none; bos, or eos where nothing is answered, may be left from a vocabulary made smaller.
        """
        size = config.filled().get("target_vocab_size", config.vocab_size)
        ends = tuple(id for id in config.eos_ids if id < size or config.start_id is not None)
        begin = None if (config.bos_id or 0) >= size else config.bos_id
        config = replace(config, pad_id=None if config.pad_id == -1 else config.pad_id, bos_id=begin, eos_ids=ends)
        tokens = {"pad": [config.pad_id], "bos": [begin], "decoder_start": [config.start_id], "eos": ends}
        for name, id in ((name, id) for name, ids in tokens.items() for id in ids if id is not None):
            limit = min(size, config.vocab_size) if name == "pad" else size
            found = f"config.json: {name}_token_id is {reprlib.repr(id)}"
            require(0 <= id < limit, found, f"expected a token of the vocabulary: 0 to {limit - 1:,}")
        return config

    def write(self, config: ModelConfig) -> dict[str, Any]:
        """Our configuration as their config.json."""
        values = config.filled()
        theirs: dict[str, Any] = {"model_type": self.model_type, "architectures": [self.architecture_for(config)]}
        theirs |= {key: entry.write(values[entry.ours]) for key, entry in self.keys.items()}
        theirs |= self.special.write(config)
        if config.labels:
            theirs["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
            theirs["label2id"] = {label: i for i, label in enumerate(config.labels)}
        if config.problem:
            theirs["problem_type"] = config.problem
        ends = config.eos_ids
        theirs |= {"eos_token_id": list(ends) if len(ends) > 1 else ends[0] if ends else None}
        for key in [key for key in theirs if "." in key]:
            table, _, name = key.partition(".")
            theirs.setdefault(table, {})[name] = theirs.pop(key)
        return theirs

    def architecture_for(self, config: ModelConfig) -> str:
        fitting = [name for name, architecture in self.architectures.items() if architecture.fits(config)]
        require(bool(fitting), f"a model with these heads has no class in Hugging Face's '{self.model_type}'")
        return fitting[0]

    def has_head(self, name: str) -> bool:
        return name in self.special.heads or any(each.head == name for each in self.architectures.values())

    def with_head(self, config: ModelConfig, head: str, labels: tuple[str, ...] = ()) -> ModelConfig:
        """The same stack for another purpose, in the form that one of their classes has."""
        named = {each.head: each.settings for each in reversed(self.architectures.values()) if each.head}
        settings = pick(head, {**named, **self.special.heads}, f"head for the layout '{self.model_type}':")
        return build(self.family.config, {**vars(config), **settings, "labels": labels, "problem": None})

    def keymap(self, config: ModelConfig) -> KeyMap:
        """The names of all tensors of one model."""
        rules = self.tensors | self.architectures[self.architecture_for(config)].tensors
        return KeyMap({name: rule.edit for name, rule in rules.items() if rule.holds(config)}, prefix=self.prefix)

    def is_bare(self, config: ModelConfig) -> bool:
        return self.architectures[self.architecture_for(config)].bare

    def spare(self, config: ModelConfig) -> re.Pattern[str]:
        """Tensors that a file may hold beside those of this model: of other heads, of other settings, no weights."""
        templates = [*self.ignored, *(name for a in self.architectures.values() for name in a.tensors)]
        templates += [copy for copy, _ in self.copies] + [
            n for n, rule in self.tensors.items() if not rule.holds(config)
        ]
        templates += [template.removeprefix(f"{self.prefix}.") for template in templates]  # as a bare model is written
        return re.compile("|".join(pattern_of(template).pattern for template in templates) or "$")

    def tied(self, names: Collection[str]) -> dict[str, str]:
        """Tensors that a file with these need not hold: what they are copies of."""
        return {copy: original for copy, original in self.copies if copy not in names and original in names}

    def check(self, config: ModelConfig, names: Collection[str]) -> None:
        """Refuse a configuration that this layout cannot express: what it reads back must be what was written."""
        back = self.read(self.write(config), names).filled()
        for name, value in config.filled().items():
            found = f"the layout '{self.model_type}' cannot express {name} = {value!r}"
            require(back[name] == value, found, f"it would be read back as {back[name]!r}")


def read_labels(theirs: Mapping[str, Any], unnamed: int) -> tuple[str, ...]:
    """Names of the classes in order of their numbers; so many nameless ones where config.json says nothing."""
    table = theirs.get("id2label")
    count = len(table) if table and isinstance(table, dict) else theirs.get("num_labels", unnamed)
    allowed = isinstance(count, int) and 0 <= count <= MAX_LABELS
    require(allowed, f"config.json: num_labels is {reprlib.repr(count)}", f"expected 0 to {MAX_LABELS:,}")
    if not table:
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        numbered = {int(number): str(label) for number, label in table.items()}
        return tuple(numbered[i] for i in range(len(numbered)))
    except (AttributeError, ValueError, KeyError) as error:
        raise UserError("config.json: id2label does not number its labels 0, 1, 2 ...") from error


def read_layouts() -> dict[str, Layout]:
    """All layouts by `model_type`; `like` names one of the same file whose tables are taken over."""
    layouts: dict[str, Layout] = {}
    for path in sorted((Path(__file__).parent / "layouts").glob("*.toml")):
        tables = read_toml(path)
        for name, table in tables.items():
            base = tables.get(table.get("like", ""), {})
            merged = {part: base.get(part, {}) | table.get(part, {}) for part in ("config", "supported", "tensors")}
            layouts[name] = _layout(name, {"fixed": base.get("fixed", {})} | base | table | merged)
    return layouts


def _layout(name: str, table: Mapping[str, Any]) -> Layout:
    prefix = table.get("prefix", "")

    def rules(tensors: Mapping[str, Any]) -> dict[str, Rule]:
        full = {theirs: {"ours": [rule]} if isinstance(rule, str) else rule for theirs, rule in tensors.items()}
        return {theirs.replace("@", prefix): build(Rule, rule, f"{name}.tensors") for theirs, rule in full.items()}

    architectures = {}
    for cls, settings in table["architectures"].items():
        rest = dict(settings)
        own, flags = rules(rest.pop("tensors", {})), {k: rest.pop(k, False) for k in ("bare", "labelled")}
        architectures[cls] = Architecture(rest, own, **flags)
    return Layout(
        model_type=name,
        family=FAMILIES[table["family"]],
        prefix=prefix,
        keys={theirs: Key(*key) for theirs, key in table["config"].items()},
        fixed=table.get("fixed", {}),
        supported=table["supported"],
        tensors=rules(table["tensors"]),
        ignored=[template.replace("@", prefix) for template in table.get("ignored", [])],
        copies=[(copy, original.replace("@", prefix)) for copy, original in table.get("copies", [])],
        architectures=architectures,
    )


LAYOUTS = read_layouts()
