"""Learn a vocabulary: the `tokenizers` library finds the pieces, the ids are given here.

The same text makes the same tokenizer.json, byte for byte. Two of the library's trainers do not: WordPiece numbers
pieces by the order in a hash table, so they are found by byte pair encoding, which it is; the scores of
Unigram differ in the last digits, so they are rounded.
"""

import copy
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import UserError
from regard.text import template
from regard.text.explain import definition
from regard.text.guard import guarded
from regard.text.sentencepiece_core import SPACE, decoder
from regard.text.settings import Added
from regard.text.tokenizer import Tokenizer

Kind = Literal["bpe", "byte-bpe", "unigram", "wordpiece", "word", "char"]
Purpose = Literal["translation", "masked", "causal"]

SPECIAL: dict[Purpose, dict[str, str]] = {
    "translation": {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    "masked": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "causal": {"eos": "<|endoftext|>", "bos": "<|endoftext|>", "unk": "<|endoftext|>"},
}
"Special tokens in the order of their ids; but <pad>, with which a translation starts, is the last id of all."
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# Letters or digits or other signs, with the space before them: no piece mixes these, so none can be
# spelt like a special token or like the name of a byte.
_WORD = Regex(rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^{SPACE}\p{{L}}\p{{M}}\p{{N}}]+|{SPACE}")


@dataclass(frozen=True)
class TokenizerConfig:
    kind: Kind = "bpe"
    "bpe and unigram: parts of words, spaces as ▁; byte-bpe as GPT-2, wordpiece as BERT; word, char: no parts."
    vocab_size: int = 8000
    "All ids, special ones too; fewer where the text has no more to learn."
    lowercase: bool = False
    normalise: Literal["nfc", "nfkc", "none"] = "nfc"
    "Unicode's normal form: nfc joins letter and accent, nfkc also replaces look-alikes such as ﬁ and ２."
    min_frequency: int = 2
    "A pair, word or (for char) character seen less often gets no id; unigram has its own rule."
    byte_fallback: bool = True
    "bpe, unigram, char: what has no id is spelt in bytes, which take 256 ids; else it is unknown."
    dropout: float = 0.0
    "Share of merges left out at random while a model trains (`with_dropout`)."

    def __post_init__(self) -> None:
        for name, low, high in (("vocab_size", 1, 10_000_000), ("min_frequency", 1, 2**31), ("dropout", 0, 0.99)):
            if not low <= getattr(self, name) <= high:
                raise UserError(f"{name} is {getattr(self, name)}", f"expected {low} to {high}")


class _Learnt(NamedTuple):
    pieces: list[str]
    merges: list[tuple[str, str]]
    scores: dict[str, float]


def train(texts: Iterable[str], config: TokenizerConfig, *, purpose: Purpose) -> Tokenizer:
    """Read the texts once, as a stream; `purpose` decides the special tokens and where they stand.

    Decoding gives back the text as normalised, except that bpe, unigram and word read ▁ as a space, that
    what is unknown is lost, and that wordpiece keeps the words, not the spaces.
    """
    special, spells = SPECIAL[purpose], config.byte_fallback and config.kind in ("bpe", "unigram", "char")
    last = ["<pad>"] if purpose == "translation" else []
    first = [token for token in dict.fromkeys(special.values()) if token not in last] + (BYTES if spells else [])
    learnt = _learn(texts, config, room=config.vocab_size - len(first) - len(last))
    ids = {token: id for id, token in enumerate([*first, *learnt.pieces, *last])}
    core = _pipeline(config)
    with guarded("building the tokenizer"):
        core.model = _model(config.kind, learnt, ids, special["unk"], spells)
        core.add_special_tokens([Added(token).for_core() for token in dict.fromkeys(special.values())])
    if purpose == "masked":
        template.cls_sep(core, special["cls"], special["sep"])
    else:
        template.ends(core, None, special["eos"] if purpose == "translation" else None)
    return Tokenizer(core, special=special)


def _pipeline(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """What happens to a text before and after the model, which is still empty."""
    core = tokenizers.Tokenizer(models.BPE())
    forms = {"nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()], "none": []}
    steps = forms[config.normalise] + ([normalizers.Lowercase()] if config.lowercase else [])
    if config.kind == "byte-bpe":
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
    elif config.kind == "wordpiece":
        steps.append(normalizers.BertNormalizer(strip_accents=False, lowercase=False))
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        core.decoder = decoders.WordPiece(prefix="##")
    elif config.kind == "char":
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:
        steps += [normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
        core.pre_tokenizer = pre_tokenizers.Split(_WORD, "isolated")
        core.decoder = decoder(strip=True)
    core.normalizer = normalizers.Sequence(steps)
    return core


def _model(kind: Kind, learnt: _Learnt, ids: dict[str, int], unk: str, spells: bool) -> models.Model:
    if kind == "unigram":
        return models.Unigram([(token, learnt.scores.get(token, 0.0)) for token in ids], ids[unk], spells)
    if kind == "wordpiece":
        return models.WordPiece(ids, unk_token=unk)
    if kind == "word":
        return models.WordLevel(ids, unk_token=unk)
    return models.BPE(ids, learnt.merges, unk_token=unk, fuse_unk=True, byte_fallback=spells)


# ---- learning


def _learn(texts: Iterable[str], config: TokenizerConfig, *, room: int) -> _Learnt:
    """At most `room` pieces, in the order of their ids."""
    _check_room(1, config, room)
    core = _pipeline(config)
    options: dict[str, Any] = {"vocab_size": room, "min_frequency": config.min_frequency, "show_progress": False}
    if config.kind == "unigram":
        core.model = models.Unigram()
        trainer = trainers.UnigramTrainer(vocab_size=room + 1, show_progress=False)  # for `room` it may never end
    elif config.kind in ("word", "char"):
        core.model = models.WordLevel()
        trainer = trainers.WordLevelTrainer(**options)
    else:
        if config.kind == "wordpiece":  # ▁ tells the first piece of a word from the others
            begin = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
            core.pre_tokenizer = pre_tokenizers.Sequence([core.pre_tokenizer, begin])
        alphabet = pre_tokenizers.ByteLevel.alphabet() if config.kind == "byte-bpe" else []
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **options)
    with guarded("learning the vocabulary"):
        core.train_from_iterator(_watched(texts, core, config, room), trainer)
    learnt = _found(json.loads(core.to_str())["model"], config.kind)
    _check_room(sum(len(piece.removeprefix("##")) == 1 for piece in learnt.pieces), config, room)
    return learnt._replace(pieces=learnt.pieces[:room])


def _watched(texts: Iterable[str], core: tokenizers.Tokenizer, config: TokenizerConfig, room: int) -> Iterator[str]:
    """The texts; and their end, while the library waits, is the moment to refuse them."""
    letters: set[str] = set()
    empty = True
    for text in texts:
        empty = empty and not text
        if config.kind == "unigram":
            letters.update(core.normalizer.normalize_str(text))
        yield text
    if empty:
        raise UserError("there is no text to learn a vocabulary from")
    _check_room(len(letters), config, room)


def _check_room(needed: int, config: TokenizerConfig, room: int) -> None:
    if needed > room:
        raise UserError(
            f"vocab_size {config.vocab_size:,} leaves {max(room, 0):,} ids for {needed:,} different characters",
            f"give at least {config.vocab_size - room + needed:,}, or the kind byte-bpe, which has 256 of its own",
        )


def _found(model: dict[str, Any], kind: Kind) -> _Learnt:
    if kind == "unigram":
        return _rounded(dict(model["vocab"]))
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if kind == "wordpiece":
        letters = [piece for piece in pieces if len(piece) == 1 and piece != SPACE]
        marked = [*(SPACE + letter for letter in letters), *letters, *(piece for piece in pieces if len(piece) > 1)]
        names = [piece[1:] if piece.startswith(SPACE) else f"##{piece}" for piece in marked]
        return _Learnt(list(dict.fromkeys(names)), [], {})
    return _Learnt(pieces, [(left, right) for left, right in model.get("merges", [])], {})


def _rounded(scores: dict[str, float]) -> _Learnt:
    """Letters that the search nearly lost get the lowest score plus 0.0001, 0.0002, ... in any order: undone."""
    letters = [piece for piece in scores if len(piece) == 1]
    low = min(scores.values(), default=0.0)
    rescued = {piece: low for piece in letters if scores[piece] < low + 1e-4 * len(letters)}
    scores = {piece: round(score, 4) for piece, score in (scores | rescued).items()}
    return _Learnt(sorted(scores, key=lambda piece: (len(piece) > 1, -scores[piece], piece)), [], scores)


def with_dropout(tokenizer: Tokenizer, p: float, *, seed: int) -> Tokenizer:
    """A copy, for training only, that lacks a share `p` of the merges: words fall into rarer pieces. Ids stay.

    The seed decides which merges, so that an interrupted run can be resumed exactly; take another one for each
    batch. BPE dropout as published (Provilkov et al. 2020) draws anew for each word, and the library draws from a
    source that cannot be seeded. A share of 0.03 here lengthens texts like 0.1 there (by about 14 %).
    """
    data = definition(tokenizer)
    if data["model"]["type"] != "BPE":
        raise UserError(f"dropout needs byte pair encoding, this is {data['model']['type']}", "set dropout to 0")
    draw = random.Random(seed)
    merges = [merge for merge in data["model"]["merges"] if draw.random() >= p]
    model = {**data["model"], "merges": merges, "ignore_merges": False}
    copied = copy.copy(tokenizer)
    with guarded("copying the tokenizer"):
        copied._core = tokenizers.Tokenizer.from_str(json.dumps({**data, "model": model}))
    return copied
