"""How a text is split, step by step, from the tables of the tokenizer itself.

The library tells which tokens a text has, not how it found them. Here its algorithms are played again, word by word:
byte pair encoding (Sennrich et al. 2016), WordPiece (Wu et al. 2016), Unigram (Kudo 2018). A word is what the
tokenizer's first cut leaves whole. A replay that does not end at the library's own tokens is an error.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import tokenizers
from tokenizers import models

from regard.errors import UserError
from regard.text.guard import guarded
from regard.text.tokenizer import Tokenizer

MAX_WORD = 2000
"Longest word explained: what there is to show of it grows with the square."
_UNKNOWN_PENALTY = 10.0  # the library's: an unknown letter scores this much below the worst piece


class Step(NamedTuple):
    """BPE joins, of all neighbours, the pair learnt first; WordPiece takes the longest piece that begins the rest."""

    parts: list[str]
    "What is joined; for WordPiece what is taken."
    symbols: list[str]
    "The word after this step."
    rank: int
    "Place of the merge in the list of merges; for WordPiece how many longer pieces were tried in vain."


class Split(NamedTuple):
    """Unigram takes, of all ways to cut a word, the one with the largest sum of log-probabilities."""

    pieces: list[str]
    scores: list[float]
    total: float


class Word(NamedTuple):
    text: str
    "As the model reads it: normalised, with its sign for spaces."
    offsets: tuple[int, int]
    tokens: list[str]
    symbols: Sequence[str] = ()
    "Where the steps begin; nothing for a token that was found whole."
    steps: Sequence[Step] = ()
    splits: Sequence[Split] = ()
    "Unigram: the best and the second best."


class Explanation(NamedTuple):
    text: str
    algorithm: str
    "BPE, WordPiece, Unigram or WordLevel."
    ids: list[int]
    "With the tokens that belong around a text; the words are without."
    tokens: list[str]
    words: list[Word]

    def to_dict(self) -> dict[str, Any]:
        return _plain(self)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items() if item != ()}
    return value


class _Tables(NamedTuple):
    model: dict[str, Any]
    vocabulary: dict[str, float]
    "Token to id; of a unigram model to score."
    ranks: dict[tuple[str, str], int]
    cutter: tokenizers.Tokenizer
    worst: float
    longest: int


def explain(tokenizer: Tokenizer, text: str) -> Explanation:
    encoding, inner, tables = tokenizer.encode(text), tokenizer.encode(text, special=False), _tables(tokenizer)
    with guarded("explaining the text"):
        whole = tables.cutter.encode(text, add_special_tokens=False)
        numbers = tokenizer._core.encode(text, add_special_tokens=False).word_ids
    tokens = defaultdict(list)
    for token, number in zip(inner.tokens, numbers, strict=True):
        tokens[number].append(token)
    words = []
    for number, id, text_, span in zip(whole.word_ids, whole.ids, whole.tokens, whole.offsets, strict=True):
        word = Word(text_, span, tokens[number])
        if not (id > 0 or (word.tokens == [text_] and text_ in tokenizer.special.values())):  # an added token
            word = _replay(word, tables)
        known = [token if tokenizer.id_of(token) is not None else tokenizer.special["unk"] for token in word.tokens]
        if known != tokens[number]:
            raise UserError(f"{text_!r} is split into {tokens[number]}, not into {known} as its tables say: at random?")
        words.append(word._replace(tokens=known))
    return Explanation(text, tables.model["type"], encoding.ids, encoding.tokens, words)


@lru_cache(maxsize=4)
def definition(tokenizer: Tokenizer) -> dict[str, Any]:
    """What its tokenizer.json says; shared, so not to be changed."""
    return dict(json.loads(tokenizer._core.to_str()))


@lru_cache(maxsize=4)
def _tables(tokenizer: Tokenizer) -> _Tables:
    model = definition(tokenizer)["model"]
    # With a model to which all is unknown, the library shows what its first cut leaves whole.
    cutter = tokenizers.Tokenizer.from_str(tokenizer._core.to_str())
    cutter.model = models.Unigram([("", 0.0)], 0, False)
    ranks = {(left, right): rank for rank, (left, right) in enumerate(model.get("merges", []))}
    vocabulary = dict(model["vocab"])
    worst = min(vocabulary.values(), default=0.0) - _UNKNOWN_PENALTY
    return _Tables(model, vocabulary, ranks, cutter, worst, max(map(len, vocabulary), default=0))


# ---- the algorithms


def _replay(word: Word, tables: _Tables) -> Word:
    if len(word.text) > MAX_WORD:
        raise UserError(f"a word of {len(word.text):,} letters; at most {MAX_WORD:,} are explained", "cut the text")
    match tables.model["type"]:
        case "BPE":
            return _merge(word, tables)
        case "WordPiece":
            return _take_longest(word, tables)
        case "Unigram":
            return _search(word, tables)
    return word._replace(tokens=[word.text if word.text in tables.vocabulary else tables.model["unk_token"]])


def _merge(word: Word, tables: _Tables) -> Word:
    whole = tables.model.get("ignore_merges") and word.text in tables.vocabulary
    first = [word.text] if whole else _letters(word.text, tables)
    prefix = len(tables.model["continuing_subword_prefix"] or "")
    symbols, steps = first, []
    while ranked := [(tables.ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in tables.ranks]:
        rank, at = min(ranked)
        left, right = symbols[at : at + 2]
        symbols = [*symbols[:at], left + right[prefix:], *symbols[at + 2 :]]
        steps.append(Step([left, right], symbols, rank))
    return word._replace(tokens=symbols, symbols=first, steps=steps)


def _letters(text: str, tables: _Tables) -> list[str]:
    """What merging begins with: letters; those outside the vocabulary as bytes or as unknown."""
    model, symbols, unknown = tables.model, [], False
    for at, letter in enumerate(text):
        prefix = (model["continuing_subword_prefix"] or "") if at else ""
        symbol = prefix + letter + ((model["end_of_word_suffix"] or "") if at == len(text) - 1 else "")
        found = [symbol] if symbol in tables.vocabulary else _bytes(letter, tables)
        if not found and model["unk_token"] is not None and not (unknown and model["fuse_unk"]):
            symbols.append(model["unk_token"])
        symbols += found
        unknown = not found
    return symbols


def _bytes(text: str, tables: _Tables) -> list[str]:
    """The tokens that spell the bytes of a text, or none."""
    names = [f"<0x{byte:02X}>" for byte in text.encode("utf-8")]
    return names if tables.model.get("byte_fallback") and all(name in tables.vocabulary for name in names) else []


def _take_longest(word: Word, tables: _Tables) -> Word:
    tokens: list[str] = []
    rest, steps = word.text, []
    while rest and len(word.text) <= tables.model["max_input_chars_per_word"]:
        prefix = tables.model["continuing_subword_prefix"] if tokens else ""
        cuts = [cut for cut in range(len(rest), 0, -1) if prefix + rest[:cut] in tables.vocabulary]
        if not cuts:
            break
        tokens, rest, longer = [*tokens, prefix + rest[: cuts[0]]], rest[cuts[0] :], len(rest) - cuts[0]
        steps.append(Step([tokens[-1]], [*tokens, rest] if rest else tokens, longer))
    tokens = [tables.model["unk_token"]] if rest else tokens
    return word._replace(tokens=tokens, symbols=[word.text], steps=steps)


def _search(word: Word, tables: _Tables) -> Word:
    """Viterbi's search that keeps the two best ways to each place; of equal ones the first, as the library does."""
    text, scores, model = word.text, tables.vocabulary, tables.model
    ways: list[list[Split]] = [[Split([], [], 0.0)], *([] for _ in text)]
    for start in range(len(text)):
        ends = range(start + 1, min(start + tables.longest, len(text)) + 1)
        found = {end: scores[text[start:end]] for end in ends if text[start:end] in scores}
        for end, score in ({start + 1: tables.worst} | found).items():
            ways[end] += [
                Split([*way.pieces, text[start:end]], [*way.scores, score], way.total + score) for way in ways[start]
            ]
        ways[start + 1] = sorted(ways[start + 1], key=lambda way: -way.total)[:2]
    tokens: list[str] = []
    for known, run in groupby(ways[-1][0].pieces, key=scores.__contains__):
        pieces = list(run)
        tokens += pieces if known else _bytes("".join(pieces), tables) or [model["vocab"][model["unk_id"]][0]]
    return word._replace(tokens=tokens, symbols=[text], splits=ways[-1])
