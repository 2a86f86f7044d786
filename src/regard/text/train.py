"""Learn a vocabulary: the `tokenizers` library finds the pieces, the ids are given here.

The same text makes the same tokenizer.json, byte for byte. Two of the library's trainers do not: WordPiece numbers
pieces by their place in a hash table, so they are found by byte pair encoding, which it is; Unigram's scores
differ in the last digits, so they are rounded.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import UserError, notify
from regard.text import template
from regard.text.explain import BYTES
from regard.text.guard import guarded
from regard.text.interruptible import fed
from regard.text.long_words import LongWords
from regard.text.sentencepiece_core import SPACE, decoder
from regard.text.settings import Added
from regard.text.tokenizer import Tokenizer

Kind = Literal["bpe", "byte-bpe", "unigram", "wordpiece", "word", "bare-word", "char"]
Purpose = Literal["translation", "masked", "causal", "words", "spans"]

SPECIAL: dict[Purpose, dict[str, str]] = {
    "translation": {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    "masked": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "causal": {"eos": "<|endoftext|>", "bos": "<|endoftext|>", "unk": "<|endoftext|>"},
    "words": {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"},
    "spans": {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
}
"Special tokens in the order of their ids; but <pad>, with which a translation starts, is the last id of all."

N_SENTINELS = 100


def sentinel(number: int) -> str:
    """What stands for a span that was taken out of a text; T5 has them as its last ids, the first of them last."""
    return f"<extra_id_{number}>"


# Letters or digits or other signs, with the space before them: no piece mixes these, so none is
# spelt like a special token or like the name of a byte.
_WORDS = pre_tokenizers.Split(
    Regex(rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^{SPACE}\p{{L}}\p{{M}}\p{{N}}]+|{SPACE}"), "isolated"
)
# Words as a dictionary has them, each sign for itself; the English 's, 't, 're ... stand alone.
_BARE = pre_tokenizers.Split(
    Regex(r"[\p{L}\p{M}]+|\p{N}+|['’](?i:s|t|m|d|re|ve|ll)(?![\p{L}\p{M}])|[^\s\p{L}\p{M}\p{N}]"),
    "removed",
    invert=True,
)
_CHARS = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
_LEARNERS: dict[Kind, tuple[Any, Any]] = {
    "unigram": (models.Unigram, trainers.UnigramTrainer),
    "word": (models.WordLevel, trainers.WordLevelTrainer),
    "bare-word": (models.WordLevel, trainers.WordLevelTrainer),
    "char": (models.WordLevel, trainers.WordLevelTrainer),
}  # all others by byte pair encoding
_Scores = dict[str, float]  # piece to score, which counts only in a unigram model


@dataclass(frozen=True)
class TokenizerConfig:
    kind: Kind = "bpe"
    """bpe and unigram: parts of words, spaces as ▁; byte-bpe as GPT-2, wordpiece as BERT; no parts: word, bare-word
    (without the spaces), char."""
    vocab_size: int = 8000
    "All ids, special ones too; fewer where the text has no more to learn."
    lowercase: bool = False
    normalise: Literal["nfc", "nfkc", "none"] = "nfc"
    "Unicode's normal form: nfc joins letter and accent, nfkc also replaces look-alikes such as ﬁ and ２."
    min_frequency: int = 2
    "A pair, word or (for char) character seen less often gets no id; unigram has its own rule."
    byte_fallback: bool = True
    "bpe, unigram, char: what has no id is spelt in bytes, which take 256 ids; else it is unknown."

    def __post_init__(self) -> None:
        for name, low, high in (("vocab_size", 1, 10_000_000), ("min_frequency", 1, 2**31)):
            if not low <= getattr(self, name) <= high:
                raise UserError(f"{name} is {getattr(self, name)}", f"expected {low} to {high}")

    @property
    def spells(self) -> bool:
        """Whether there is an id for each byte."""
        return self.byte_fallback and self.kind in ("bpe", "unigram", "char")

    def least(self, purpose: Purpose) -> int:
        """Ids that any text needs: special tokens, bytes, a piece. How many letters it has is seen when it is read."""
        n_special = len(set(SPECIAL[purpose].values())) + (N_SENTINELS if purpose == "spans" else 0)
        return n_special + (256 if self.kind == "byte-bpe" else 257 if self.spells else 1)


def train(
    texts: Iterable[str], config: TokenizerConfig, *, purpose: Purpose, tell: Callable[[str], None] = notify
) -> Tokenizer:
    """Read the texts once, as a stream; `purpose` decides the special tokens and where they stand.

    Decoding gives back the text as normalised, except that bpe, unigram and word read ▁ as a space, that
    what is unknown is lost, and that wordpiece and bare-word keep the words, not the spaces. `tell` hears what was
    left out.
    """
    special, core, spells = SPECIAL[purpose], _pipeline(config), config.spells
    first = [*dict.fromkeys(special.values()), *(BYTES if spells else ())]
    last = [first.pop(first.index("<pad>"))] if purpose == "translation" else []
    sentinels = [sentinel(number) for number in reversed(range(N_SENTINELS))] if purpose == "spans" else []
    last += sentinels
    pieces, merges = _learn(texts, config, config.vocab_size - len(first) - len(last), tell)
    scores = dict.fromkeys(first, 0.0) | pieces | dict.fromkeys(last, 0.0)
    ids = {token: id for id, token in enumerate(scores)}
    with guarded("building the tokenizer"):
        match config.kind:
            case "unigram":
                core.model = models.Unigram(list(scores.items()), ids[special["unk"]], spells)
            case "wordpiece":
                core.model = models.WordPiece(ids, unk_token=special["unk"])
            case "word" | "bare-word":
                core.model = models.WordLevel(ids, unk_token=special["unk"])
            case _:
                core.model = models.BPE(ids, merges, unk_token=special["unk"], fuse_unk=True, byte_fallback=spells)
        core.add_special_tokens([Added(token).for_core() for token in dict.fromkeys([*special.values(), *sentinels])])
    if purpose == "masked":
        template.cls_sep(core, special["cls"], special["sep"])
    template.ends(core, None, special["eos"] if purpose in ("translation", "spans") else None)
    return Tokenizer(core, special=special)


def _pipeline(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """What happens to a text before and after the model, which is still empty."""
    core = tokenizers.Tokenizer(models.BPE())
    forms = {"nfc": normalizers.NFC(), "nfkc": normalizers.NFKC(), "none": normalizers.Sequence([])}
    steps = [forms[config.normalise], normalizers.Lowercase() if config.lowercase else normalizers.Sequence([])]
    match config.kind:
        case "byte-bpe":
            core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        case "wordpiece":
            steps.append(normalizers.BertNormalizer(strip_accents=False, lowercase=False))
            core.pre_tokenizer, core.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        case "bare-word":
            core.pre_tokenizer = _BARE
        case "char":
            core.pre_tokenizer = _CHARS
            core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        case _:
            steps += [normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
            core.pre_tokenizer, core.decoder = _WORDS, decoder(strip=True)
    core.normalizer = normalizers.Sequence(steps)
    return core


def _learn(
    texts: Iterable[str], config: TokenizerConfig, room: int, tell: Callable[[str], None]
) -> tuple[_Scores, list[tuple[str, str]]]:
    """At most `room` pieces in the order of their ids, and the merges."""
    if room < 1:
        few = f"vocab_size {config.vocab_size:,} leaves no id for any letter"
        raise UserError(few, "give some hundreds, or thousands for pieces of words")
    core, kind = _pipeline(config), config.kind
    long = LongWords(core.normalizer, core.pre_tokenizer)
    model, trainer = _LEARNERS.get(kind, (models.BPE, trainers.BpeTrainer))
    core.model = model()
    learner = trainer(vocab_size=room, show_progress=False)
    if kind == "unigram":
        learner.vocab_size = room + 1  # asked for the letters alone, it may never end
    else:
        learner.min_frequency = config.min_frequency
    if kind == "byte-bpe":
        learner.initial_alphabet = pre_tokenizers.ByteLevel.alphabet()
    if kind == "wordpiece":  # ▁ tells the first piece of a word from the others
        begin = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
        core.pre_tokenizer = pre_tokenizers.Sequence([core.pre_tokenizer, begin])
    with guarded("learning the vocabulary"):
        fed(lambda given: core.train_from_iterator(given, learner), _watched(texts, config, long, room))
    if long.count:
        tell(str(long))
    learnt = json.loads(core.to_str())["model"]
    pieces = _rounded(dict(learnt["vocab"])) if kind == "unigram" else dict.fromkeys(learnt["vocab"], 0.0)
    if not pieces:
        hint = "lower min_frequency, or give more text"
        raise UserError(f"nothing to learn is seen {config.min_frequency:,} times, as min_frequency asks", hint)
    pieces = _marked(pieces) if kind == "wordpiece" else pieces
    _check_room(sum(len(piece.removeprefix("##")) == 1 for piece in pieces), config, room)
    return dict(islice(pieces.items(), room)), [(left, right) for left, right in learnt.get("merges", [])]


def _watched(texts: Iterable[str], config: TokenizerConfig, long: LongWords, room: int) -> Iterator[str]:
    """The texts as they are learnt from; and their end, while the library waits, is the moment to refuse them."""
    letters: set[str] = set()
    empty = True
    for text in map(long.taken_out, texts):
        empty = empty and not text
        if config.kind == "unigram":
            letters.update(long.normaliser.normalize_str(text))
        yield text
    if empty:
        found = f": {long}" if long.count else ""
        raise UserError(f"there is no text to learn a vocabulary from{found}", "expected sentences")
    _check_room(len(letters), config, room)


def _check_room(needed: int, config: TokenizerConfig, room: int) -> None:
    if needed > room:
        raise UserError(
            f"vocab_size {config.vocab_size:,} leaves {max(room, 0):,} ids for {needed:,} different characters",
            f"give at least {config.vocab_size - room + needed:,}, or the kind byte-bpe, which has 256 of its own",
        )


def _marked(pieces: _Scores) -> _Scores:
    """▁he and llo as he and ##llo; each letter as both."""
    letters = [piece for piece in pieces if len(piece) == 1 and piece != SPACE]
    every = [*(SPACE + letter for letter in letters), *letters, *(piece for piece in pieces if len(piece) > 1)]
    return {piece[1:] if piece.startswith(SPACE) else f"##{piece}": 0.0 for piece in every}


def _rounded(scores: _Scores) -> _Scores:
    """Letters that the search nearly lost get the lowest score plus 0.0001, 0.0002, ... in any order: undone."""
    letters = [piece for piece in scores if len(piece) == 1]
    low = min(scores.values(), default=0.0)
    rescued = {piece: low for piece in letters if scores[piece] < low + 1e-4 * len(letters)}
    scores = {piece: round(score, 4) for piece, score in (scores | rescued).items()}
    return dict(sorted(scores.items(), key=lambda item: (len(item[0]) > 1, -item[1], item[0])))
