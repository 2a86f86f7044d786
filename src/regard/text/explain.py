"""How a text is split, step by step, from the tables of the tokenizer itself.

The library tells which tokens a text has, not how it found them. Here its algorithms are played again, word by word:
byte pair encoding (Sennrich et al. 2016), WordPiece (Wu et al. 2016), Unigram (Kudo 2018). A word is what the
tokenizer's first cut leaves whole. A replay that does not end at the library's own tokens is an error.
"""

import dataclasses
import json
from collections import defaultdict
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import tokenizers
from tokenizers import decoders, models

from regard.errors import UserError
from regard.text.guard import guarded
from regard.text.tokenizer import Tokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"Tokens that spell what has no token."
MAX_WORD = 2000
"Longest word explained: what there is to show of it grows with the square."
_PENALTY = 10.0  # the library's: an unknown letter scores this much below the worst piece
_LETTERS = decoders.ByteLevel()


@dataclasses.dataclass(frozen=True)
class Step:
    """BPE joins, of all neighbours, the pair learnt first; WordPiece takes the longest piece that begins the rest."""

    parts: list[str]
    rank: int
    "Place of the pair in the list of merges; for WordPiece, how many longer pieces were tried in vain."
    symbols: list[str]
    "The word after this step."


@dataclasses.dataclass(frozen=True)
class Split:
    """Unigram takes, of all ways to cut a word, the one with the largest sum of log-probabilities."""

    pieces: list[str]
    scores: list[float]
    total: float


@dataclasses.dataclass(frozen=True)
class Word:
    text: str
    "As the model reads it: normalised, with its sign for spaces."
    offsets: tuple[int, int]
    tokens: list[str]
    symbols: list[str]
    "Where the steps begin; none for an added token, which is found whole."
    steps: list[Step]
    splits: list[Split]
    "Unigram: the best and the second best."


@dataclasses.dataclass(frozen=True)
class Explanation:
    text: str
    algorithm: str
    ids: list[int]
    "With the tokens that belong around a text; the words are without."
    tokens: list[str]
    words: list[Word]

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class _Tables(NamedTuple):
    model: dict[str, Any]
    vocabulary: dict[str, float]  # token to id; of a unigram model to score
    longest: int
    worst: float
    ranks: dict[tuple[str, str], int]
    unknown: str
    cutter: tokenizers.Tokenizer


_Replay = tuple[list[str], list[str], list[Step], list[Split]]  # tokens, symbols, steps, splits


def explain(tokenizer: Tokenizer, text: str) -> Explanation:
    encoding, inner, tables = tokenizer.encode(text), tokenizer.encode(text, special=False), _tables(tokenizer)
    with guarded("explaining the text"):
        whole = tables.cutter.encode(text, add_special_tokens=False)
    tokens = defaultdict(list)
    for token, number in zip(inner.tokens, tokenizer.word_numbers(text), strict=True):
        tokens[number].append(token)
    words = []
    for number, id, word, span in zip(whole.word_ids, whole.ids, whole.tokens, whole.offsets, strict=True):
        is_added = id > 0 or (tokens[number] == [word] and word in tokenizer.special.values())
        found, symbols, steps, splits = (tokens[number], [], [], []) if is_added else _replay(word, tables)
        known = [token if tokenizer.id_of(token) is not None else tables.unknown for token in found]
        if known != tokens[number]:
            raise UserError(f"{word!r} is split into {tokens[number]}, not into {known} as its tables say: at random?")
        words.append(Word(word, span, known, symbols, steps, splits))
    return Explanation(text, tables.model["type"], encoding.ids, encoding.tokens, words)


def readable(tokenizer: Tokenizer, token: str) -> str:
    """On one line: bytes as the letters they spell, if they do, and spaces as ▁."""
    if tokenizer.is_byte_level:
        text = _LETTERS.decode([token])
        token = token if "\ufffd" in text else text.replace(" ", "▁")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in token)


@lru_cache(maxsize=4)
def _tables(tokenizer: Tokenizer) -> _Tables:
    definition = tokenizer.definition
    model = json.loads(definition)["model"]
    # With a model to which all is unknown, and 0, the library shows what its first cut leaves whole.
    cutter = tokenizers.Tokenizer.from_str(definition)
    cutter.model = models.Unigram([("", 0.0)], 0, False)
    ranks = {(left, right): rank for rank, (left, right) in enumerate(model.get("merges", []))}
    unknown = model["vocab"][model["unk_id"] or 0][0] if "unk_id" in model else model["unk_token"]
    vocabulary = dict(model["vocab"])
    longest, worst = max(map(len, vocabulary)), min(vocabulary.values()) - _PENALTY
    return _Tables(model, vocabulary, longest, worst, ranks, unknown, cutter)


def _replay(word: str, tables: _Tables) -> _Replay:
    if len(word) > MAX_WORD:
        raise UserError(f"a word of {len(word):,} letters; at most {MAX_WORD:,} are explained", "cut the text")
    match tables.model["type"]:
        case "BPE":
            return _merge(word, tables)
        case "WordPiece":
            return _take_longest(word, tables)
        case "Unigram":
            return _search(word, tables)
    return [word if word in tables.vocabulary else tables.unknown], [word], [], []


def _merge(word: str, tables: _Tables) -> _Replay:
    whole = tables.model.get("ignore_merges") and word in tables.vocabulary
    symbols = first = [word] if whole else _letters(word, tables)
    prefix, steps = len(tables.model["continuing_subword_prefix"] or ""), []
    while ranked := [(tables.ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in tables.ranks]:
        rank, at = min(ranked)
        left, right = symbols[at : at + 2]
        symbols = [*symbols[:at], left + right[prefix:], *symbols[at + 2 :]]
        steps.append(Step([left, right], rank, symbols))
    return symbols, first, steps, []


def _letters(word: str, tables: _Tables) -> list[str]:
    """What merging begins with: letters; those outside the vocabulary as bytes or as unknown."""
    model, symbols, unknown = tables.model, [], False
    for at, letter in enumerate(word):
        prefix = (model["continuing_subword_prefix"] or "") if at else ""
        symbol = prefix + letter + ((model["end_of_word_suffix"] or "") if at == len(word) - 1 else "")
        found = [symbol] if symbol in tables.vocabulary else _bytes(letter, tables)
        if not found and tables.unknown and not (unknown and model["fuse_unk"]):
            symbols.append(tables.unknown)
        symbols += found
        unknown = not found
    return symbols


def _bytes(text: str, tables: _Tables) -> list[str]:
    names = [BYTES[byte] for byte in text.encode("utf-8")]
    return names if tables.model.get("byte_fallback") and all(name in tables.vocabulary for name in names) else []


def _take_longest(word: str, tables: _Tables) -> _Replay:
    tokens: list[str] = []
    rest, steps = word, []
    while rest and len(word) <= tables.model["max_input_chars_per_word"]:
        prefix = tables.model["continuing_subword_prefix"] if tokens else ""
        cuts = [cut for cut in range(len(rest), 0, -1) if prefix + rest[:cut] in tables.vocabulary]
        if not cuts:
            break
        longer, tokens, rest = len(rest) - cuts[0], [*tokens, prefix + rest[: cuts[0]]], rest[cuts[0] :]
        steps.append(Step(tokens[-1:], longer, [*tokens, rest] if rest else tokens))
    return [tables.unknown] if rest else tokens, [word], steps, []


def _search(word: str, tables: _Tables) -> _Replay:
    """Viterbi's search that keeps the two best ways to each place; of equal ones the first, as the library does."""
    scores = tables.vocabulary
    ways: list[list[Split]] = [[Split([], [], 0.0)], *([] for _ in word)]
    for start in range(len(word)):
        ends = range(start + 1, min(start + tables.longest, len(word)) + 1)
        found = {end: scores[word[start:end]] for end in ends if word[start:end] in scores}
        for end, score in ({start + 1: tables.worst} | found).items():
            piece = word[start:end]
            ways[end] += [Split([*way.pieces, piece], [*way.scores, score], way.total + score) for way in ways[start]]
        ways[start + 1] = sorted(ways[start + 1], key=lambda way: -way.total)[:2]
    tokens: list[str] = []
    for known, run in groupby(ways[-1][0].pieces, key=scores.__contains__):
        pieces = list(run)
        tokens += pieces if known else _bytes("".join(pieces), tables) or ["".join(pieces)]
    return tokens, [word], [], ways[-1]
