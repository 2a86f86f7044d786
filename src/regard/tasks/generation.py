"""generation_config.json: the model's own word on how texts are written with it, and what of it counts here.

Read: `eos_token_id`, `decoder_start_token_id`, `forced_bos_token_id`, `suppress_tokens`, and `bad_words_ids` of one
token each. What the file says goes before config.json; what it does not say config.json does (transformers would then
write on without an end). Where there is no such file, config.json may hold the same keys, as before 2023.

Left to the caller, who has a parameter for it or calls another search: beams (`num_beams`, `length_penalty`,
`early_stopping`, ...), sampling (`do_sample`, `temperature`, `top_k`, `top_p`, ...) and limits (`max_length`,
`max_new_tokens`, and `forced_eos_token_id`, which puts the end in place of the last token at such a limit).

Not supported though it changes what greedy search writes: `UNHEEDED`, of which a warning tells.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UserError, notify
from regard.files import read_json_object
from regard.models.base import ModelConfig

C = TypeVar("C", bound=ModelConfig)

FILE = "generation_config.json"
UNHEEDED: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "begin_suppress_tokens": ([],),
    "exponential_decay_length_penalty": (),
    "sequence_bias": ({}, []),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "stop_strings": ([], ""),
    "watermarking_config": (),
}
"Keys, and beside null the values that change nothing."


@dataclass(frozen=True)
class Writing:
    """What the files of a model say about texts that are written with it."""

    eos_ids: tuple[int, ...] | None = None
    "None leaves what config.json says; so does it below."
    start_id: int | None = None
    first_id: int | None = None
    "What every text begins with: the language, for models that write several."
    silent_ids: tuple[int, ...] = ()
    "Never written."

    def config(self, config: C) -> C:
        """The model's own configuration with these tokens."""
        ends = config.eos_ids if self.eos_ids is None else self.eos_ids
        start = config.start_id if self.start_id is None else self.start_id
        return replace(config, eos_ids=ends, start_id=start)


AS_CONFIGURED = Writing()


def read_writing(directory: Path, config: ModelConfig) -> Writing:
    """Of the model with this `config`; warns of what would be written otherwise than the files ask."""
    path = directory / FILE
    own = path.exists()
    path = path if own else directory / "config.json"
    theirs = read_json_object(path, finite=False)
    if unheeded := [key for key, plain in UNHEEDED.items() if theirs.get(key) not in (None, *plain)]:
        found = ", ".join(f"{key} = {reprlib.repr(theirs[key])}" for key in unheeded)
        notify(f"{path}: {found} not supported; the text may differ from transformers'", stacklevel=3)
    size = config.filled().get("target_vocab_size", config.vocab_size)
    starts = config.start_id is not None  # a language model begins with its prompt
    ends = _ids(theirs, "eos_token_id", path) if own else ()
    return Writing(
        tuple(id for id in ends if id < size) or None,
        _id(theirs, "decoder_start_token_id", path, size) if own and starts else None,
        _id(theirs, "forced_bos_token_id", path, size),
        tuple(sorted({id for id in _silent(theirs, path) if id < size} - set(ends or config.eos_ids))),
    )


def _silent(theirs: Mapping[str, Any], path: Path) -> list[int]:
    rows = theirs.get("bad_words_ids") or []
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise _refusal(theirs, "bad_words_ids", path, "expected a list of lists of ids")
    if any(len(row) > 1 for row in rows):
        notify(f"{path}: bad_words_ids of several tokens are not supported and may be written", stacklevel=4)
    words = {"bad_words_ids": [row[0] for row in rows if len(row) == 1]}
    return [*_ids(words, "bad_words_ids", path), *_ids(theirs, "suppress_tokens", path)]


def _ids(theirs: Mapping[str, Any], key: str, path: Path) -> tuple[int, ...]:
    found = theirs.get(key)
    ids = found if isinstance(found, list) else [] if found is None else [found]
    if not all(type(id) is int and id >= 0 for id in ids):
        raise _refusal(theirs, key, path, "expected an id, counted from 0, or a list of them")
    return tuple(ids)


def _id(theirs: Mapping[str, Any], key: str, path: Path, size: int) -> int | None:
    ids = _ids(theirs, key, path)
    if len(ids) > 1 or any(id >= size for id in ids):
        raise _refusal(theirs, key, path, f"expected one token of the vocabulary: 0 to {size - 1:,}")
    return ids[0] if ids else None


def _refusal(theirs: Mapping[str, Any], key: str, path: Path, expected: str) -> UserError:
    return UserError(f"{path}: {key} is {reprlib.repr(theirs.get(key))}", expected)
