"""Texts and pairs of texts as a model reads them whole: ids and segments, cut to what it takes.

What is too long is cut as transformers' "longest_first" cuts it: a pair loses tokens of whichever text is longer, a
single text its end. What the vocabulary puts around them stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.errors import QUOTED, UserError, cut
from regard.files import read_json_object
from regard.text.tokenizer import Encoding, Tokenizer

Row = Sequence[str]
"A text, or a text and its pair."
N_TEXTS = "n_texts"
"A key of tokenizer_config.json that is ours alone."


@dataclass(frozen=True)
class InputSettings:
    """What a model's tokenizer_config.json says about its inputs."""

    max_len: int | None = None
    "Tokens that a text, or a pair, may have with all that stands around it."
    cut_left: bool = False
    "Whether the beginning of a text that is too long is cut off, and not its end."
    segments: bool = True
    "Whether the model is told which tokens are of the second text."
    n_texts: int | None = None
    "1 or 2 where the model has learnt from nothing else."


class Input(NamedTuple):
    ids: list[int]
    segments: list[int]
    n_cut: int
    "Tokens that had no room."


def second_text(segments: Sequence[int]) -> int:
    """Where the second text begins; behind the end where there is none."""
    return segments.index(1) if 1 in segments else len(segments)


def read_input_settings(directory: Path) -> InputSettings:
    path = directory / "tokenizer_config.json"
    config = read_json_object(path) if path.exists() else {}
    side, names = config.get("truncation_side") or "right", config.get("model_input_names")
    if side not in ("left", "right"):
        hint = "expected 'left' or 'right'"
        raise UserError(f"{path}: truncation_side is {cut(repr(side), QUOTED)}", hint)
    longest = config.get("model_max_length")  # 1e30 where the tokenizer knows none
    longest = int(longest) if isinstance(longest, int | float) and longest >= 1 else None
    told = not isinstance(names, list) or "token_type_ids" in names
    n_texts = config.get(N_TEXTS)
    if type(n_texts) not in (int, type(None)) or n_texts not in (1, 2, None):
        raise UserError(f"{path}: {N_TEXTS} is {cut(repr(n_texts), QUOTED)}", "expected 1, or 2 for pairs of texts")
    return InputSettings(longest, side == "left", told, n_texts)


def inputs_of(rows: Sequence[Row], tokenizer: Tokenizer, settings: InputSettings) -> list[Input]:
    """One for each row; all rows are texts, or all are pairs."""
    pairs = [row[1] for row in rows] if rows and len(rows[0]) == 2 else None
    encoded = tokenizer.encode_batch([row[0] for row in rows], pairs)
    return [_input(each, settings) for each in encoded]


def _input(found: Encoding, settings: InputSettings) -> Input:
    segments = found.segments if settings.segments else [0] * len(found)
    if settings.max_len is None or len(found) <= settings.max_len:
        return Input(found.ids, segments, 0)
    places = list(_kept(found.parts, settings.max_len, settings.cut_left))
    n_cut = len(found) - len(places)
    return Input([found.ids[i] for i in places], [segments[i] for i in places], n_cut)


def _kept(parts: Sequence[int | None], max_len: int, cut_left: bool) -> Iterator[int]:
    """The places of the tokens that stay."""
    counts = parts.count(0), parts.count(1)
    room = max_len - (len(parts) - sum(counts))
    if room < 0:
        around = len(parts) - sum(counts)
        raise UserError(
            f"texts of at most {max_len} tokens have no room for the {around} that stand around each",
            "raise data.max_len, or model_max_length in tokenizer_config.json",
        )
    shorter = min(*counts, room // 2)
    sizes = (shorter, room - shorter) if counts[0] <= counts[1] else (room - shorter, shorter)
    firsts = [count - size if cut_left else 0 for count, size in zip(counts, sizes, strict=True)]
    seen = [0, 0]
    for place, part in enumerate(parts):
        if part is None:
            yield place
        else:
            if firsts[part] <= seen[part] < firsts[part] + sizes[part]:
                yield place
            seen[part] += 1
