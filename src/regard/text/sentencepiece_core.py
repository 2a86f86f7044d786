"""Turns a sentencepiece model (Kudo & Richardson 2018) into a core of the `tokenizers` library.

The text goes through the same steps as in sentencepiece: normalise, squeeze spaces, spaces to ▁, one ▁
in front, then one search over the whole line. Ids equal sentencepiece's, but for two rare things:
a compatibility letter (such as a full-width one) followed by a combining mark loses the mark in the library's
normaliser, and of two splits with exactly equal scores the other may win.
"""

from collections.abc import Collection, Mapping

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError
from regard.text.guard import guarded
from regard.text.sentencepiece_file import Kind, SentencePieceModel

SPACE = "▁"

_NEVER = -1e4
"Score of a piece that must not be found in text: no real path is this bad."

MAX_PIECE = 256
"Characters of a piece that is found by merging; sentencepiece itself makes none of more than 16."
MAX_CUTS = 40_000_000
"Pieces of n characters are cut in n places into n characters: the squares together; the largest real ones need 15 M."


def core_of(
    model: SentencePieceModel, *, lowercase: bool = False, strip_accents: bool = False, find_control: bool = True
) -> tokenizers.Tokenizer:
    """`find_control` finds control pieces such as </s> where a text spells them, as transformers does."""
    with guarded("building the sentencepiece vocabulary"):
        core = tokenizers.Tokenizer(_unigram(model) if model.algorithm == 1 else _byte_pairs(model))
        core.normalizer = _normalizer(model, lowercase, strip_accents)
        core.decoder = decoder(strip=model.add_dummy_prefix)
        if model.algorithm == 1 and model.byte_fallback:
            # The name of a byte piece, spelt out in a text, is text: cut it so that the search cannot find it.
            name = Regex("<(?=0x[0-9A-F]{2}>)")
            core.pre_tokenizer = pre_tokenizers.Split(name, "merged_with_previous")
        core.add_tokens(_found_whole(model, find_control))
    return core


def _found_whole(model: SentencePieceModel, find_control: bool) -> list[tokenizers.AddedToken]:
    control = [piece.text for piece in model.pieces if piece.kind in (Kind.UNKNOWN, Kind.CONTROL) and find_control]
    found = [tokenizers.AddedToken(text, normalized=False, special=True) for text in control]
    if model.algorithm == 2:  # in a unigram model the search finds user-defined pieces by their score
        own = [piece.text for piece in model.pieces if piece.kind is Kind.USER_DEFINED]
        found += [tokenizers.AddedToken(text, normalized=SPACE in text, special=False) for text in own]
    return found


def decoder(*, strip: bool) -> decoders.Decoder:
    """Pieces to text: ▁ to spaces, byte pieces to the characters they spell, the first space away."""
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if strip:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def _normalizer(model: SentencePieceModel, lowercase: bool, strip_accents: bool) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if strip_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    steps.append(normalizers.Replace(" ", SPACE))
    if model.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return normalizers.Sequence(steps)


def _unigram(model: SentencePieceModel) -> models.Unigram:
    best = max((piece.score for piece in model.pieces if piece.kind is Kind.NORMAL), default=0.0)

    def score(text: str, own: float, kind: Kind) -> float:
        if kind is Kind.NORMAL:
            return own
        if kind is Kind.USER_DEFINED:  # sentencepiece's rule: better than any split of the same bytes
            return len(text.encode("utf-8")) * best - 0.1
        return _NEVER

    scores = [(piece.text, score(piece.text, piece.score, piece.kind)) for piece in model.pieces]
    return models.Unigram(scores, model.unk_id, model.byte_fallback)


def _byte_pairs(model: SentencePieceModel) -> models.BPE:
    vocabulary = {piece.text: id for id, piece in enumerate(model.pieces)}
    mergeable = {piece.text: piece.score for piece in model.pieces if piece.kind is Kind.NORMAL}
    return models.BPE(
        vocabulary,
        merges_by_score(vocabulary, mergeable, model.name),
        unk_token=model.pieces[model.unk_id].text,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
    )


def merges_by_score(vocabulary: Collection[str], scores: Mapping[str, float], name: str) -> list[tuple[str, str]]:
    """The merge list behind a scored vocabulary: any two tokens that join to a third, best third first.

    Of several splits of one token the longer left part comes first: it is what merging from the
    left has built when the choice arises, as in a run of spaces. `name` is the file, for error messages.
    """
    _check_work(scores, name)
    merges: list[tuple[str, str]] = []
    for token in sorted(scores, key=lambda token: -scores[token]):  # stable: equal scores keep their order
        cuts = range(len(token) - 1, 0, -1)
        merges += [
            (token[:cut], token[cut:]) for cut in cuts if token[:cut] in vocabulary and token[cut:] in vocabulary
        ]
    return merges


def _check_work(tokens: Collection[str], name: str) -> None:
    longest = max(tokens, key=len, default="")
    if len(longest) > MAX_PIECE:
        found = f"{name} has a piece of {len(longest):,} characters: {longest[:40]!r} ..."
        raise UserError(found, f"expected at most {MAX_PIECE}; the file is damaged or hostile")
    if (cuts := sum(len(token) ** 2 for token in tokens)) > MAX_CUTS:
        found = f"{name} has {len(tokens):,} pieces, too long in all to find their merges ({cuts:,} steps)"
        raise UserError(found, f"expected at most {MAX_CUTS:,}; the file is damaged or hostile")
