"""What a model was given to read, kept so that it can be read again with eyes open.

A `Reading` is one text, one translation or one image, never a batch. While a model works nothing is kept; asked for,
the reading is done once more and what passes through the asked modules is caught on its way. So looking inside costs
nothing until someone looks. Whatever passes is caught: while one looks, nobody else may use the same model.
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import QUOTED, UserError, cut
from regard.layers.attention import MultiHeadAttention
from regard.layers.encoder import Stack
from regard.models.base import Model, Output
from regard.models.captioner import Captioner
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentLanguageModel, RecurrentTranslator
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.text.tokenizer import Tokenizer
from regard.text.words import token_name, words_read, words_written

MOST = 2048
"Tokens of a text: weights take memory with the square of them."

Kind = Literal["encoder", "decoder", "cross"]
"Who attends to what: source to source, target to target, target to source."


@dataclass(frozen=True)
class Tokens:
    """One side of a reading; patches of an image have names and no ids."""

    names: tuple[str, ...]
    "What each stands for in the text, or the token itself where that is nothing."
    words: tuple[int, ...]
    "The number of each token's word."
    special: tuple[bool, ...]
    ids: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    "Where in the text, in characters; unknown for what a model wrote."
    segments: tuple[int, ...] = ()
    valid: tuple[bool, ...] = ()
    "False for padding; empty where there is none."

    def __len__(self) -> int:
        return len(self.names)

    def padded(self, width: int, pad_id: int) -> "Tokens":
        """With padding up to `width`, as batch mates would bring it: to show what a mask does about it."""
        more = width - len(self)
        assert more >= 0, "padding cannot shorten a text"
        return Tokens(
            names=self.names + ("<pad>",) * more,
            words=self.words + tuple(range(self.words[-1] + 1, self.words[-1] + 1 + more)),
            special=self.special + (True,) * more,
            ids=self.ids + (pad_id,) * more,
            spans=self.spans and self.spans + ((0, 0),) * more,
            segments=self.segments and self.segments + (0,) * more,
            valid=(True,) * len(self) + (False,) * more,
        )

    def find(self, asked: str) -> list[int]:
        """Where a token or a word stands (its first token), or the token of that number for `#7`."""
        if asked.startswith("#") and asked[1:].isdigit() and int(asked[1:]) < len(self):
            return [int(asked[1:])]
        whole = [(self.words.index(word), text) for word, text in self.whole_words().items()]
        bare = [(i, text.strip(string.punctuation + "¿¡“”„«»…")) for i, text in whole]
        for alike in (str, str.casefold):
            for names in (whole, bare, list(enumerate(self.names))):
                if hits := [i for i, name in names if alike(name) == alike(asked)]:
                    return hits
        listed = " ".join(f"#{i} {name}" for i, name in enumerate(self.names))
        raise UserError(f"there is no token '{cut(asked, QUOTED)}' here", f"the tokens are {cut(listed, 1000)}")

    def whole_words(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, word in zip(self.names, self.words, strict=True):
            found[word] = found.get(word, "") + name
        return found

    def to_dict(self) -> list[dict[str, Any]]:
        rows = [
            {"i": i, "text": name, "word": word, "special": special}
            for i, (name, word, special) in enumerate(zip(self.names, self.words, self.special, strict=True))
        ]
        for name, values in (("id", self.ids), ("span", self.spans), ("valid", self.valid)):
            for row, value in zip(rows, values, strict=False):
                row[name] = value
        return rows


@dataclass(frozen=True, eq=False)
class Reading:
    model: Any
    source: Tokens | None = None
    "What an encoder reads: a text, or the patches of `pixels`."
    target: Tokens | None = None
    "What a decoder reads: a text, or the start and all that was written but the last."
    written: Tokens | None = None
    "What a translator wrote at each of these."
    pixels: Tensor | None = None
    name_of: Callable[[int], str] = str
    "A token of the vocabulary that is written, by its id."

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of attention that there is to see here."""
        sides = self.source is not None, self.target is not None
        found: dict[Kind, bool] = {
            "encoder": sides[0] and isinstance(getattr(self.model, "encoder", None), Stack),
            "decoder": sides[1] and isinstance(getattr(self.model, "decoder", None), Stack),
            "cross": all(sides) and (self.is_recurrent or self._looks_across),
        }
        return tuple(kind for kind, is_here in found.items() if is_here)

    @property
    def _looks_across(self) -> bool:
        latents = isinstance(self.model, Vit) and self.model.config.n_latents > 0
        return latents or isinstance(self.model, Transformer | Captioner)

    @property
    def is_recurrent(self) -> bool:
        """An attention older than the Transformer: one layer, one head, from the decoder to the source."""
        return isinstance(self.model, RecurrentTranslator) and self.model.decoder.attention is not None

    def check(self, kind: Kind, layer: int | None = None, head: int | None = None) -> None:
        if kind not in self.kinds:
            hint = f"there is {' and '.join(self.kinds)}" if self.kinds else "it has no attention at all"
            raise UserError(f"this reading has no {kind} attention to show", hint)
        counts = {"layer": (self.n_layers(kind), layer), "head": (self.n_heads(kind), head)}
        where = "encoder" if kind == "encoder" else "decoder"
        for noun, (count, asked) in counts.items():
            if asked is not None and not 0 <= asked < count:
                last = f"{noun}s are 0 to {count - 1}" if count > 1 else f"its only {noun} is 0"
                raise UserError(f"the {where} has no {noun} {asked}", last)

    def stack(self, kind: Kind) -> Stack:
        found: Stack = self.model.encoder if kind == "encoder" else self.model.decoder
        return found

    def n_layers(self, kind: Kind) -> int:
        return 1 if self.is_recurrent else self.stack(kind).config.n_layers

    def n_heads(self, kind: Kind) -> int:
        return 1 if self.is_recurrent else self.stack(kind).config.n_heads

    def module(self, kind: Kind, layer: int) -> MultiHeadAttention:
        block: Any = self.stack(kind).blocks[layer]
        found: MultiHeadAttention = block.cross if kind == "cross" else block.attn
        return found

    def queries(self, kind: Kind) -> Tokens:
        found = self.source if kind == "encoder" else self.target
        assert found is not None
        return self.written if kind == "cross" and self.written is not None else found

    def keys(self, kind: Kind) -> Tokens:
        found = self.target if kind == "decoder" else self.source
        assert found is not None
        return found

    def run(self) -> Output:
        """Read once more, in evaluation mode."""
        was_training = self.model.training
        self.model.eval()
        try:
            return self._run()
        finally:
            self.model.train(was_training)

    def _run(self) -> Output:
        if self.pixels is not None:
            said = [self._tensor(self.target.ids)] if self.target is not None and self.target.ids else []
            return self.model(self.pixels.to(self.model.device), *said)
        sides = [side for side in (self.source, self.target) if side is not None]
        ids = [self._tensor(side.ids) for side in sides]
        valid = [self._tensor(side.valid) if side.valid else None for side in sides]
        if self.target is None and isinstance(self.model, Transformer):
            memory = self.model.encode(ids[0], valid[0])
            return Output(memory, memory)
        more = {"segments": self._tensor(sides[0].segments)} if sides[0].segments else {}
        return self.model(*ids, *valid, **more)

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor([values], device=self.model.device)


class Call(NamedTuple):
    """One call of a module: what went in and what came out."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    output: Any


@contextmanager
def watching(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Call]]]:
    """The calls of each module while the block lasts, in order."""
    calls: dict[str, list[Call]] = {name: [] for name in modules}

    def note(name: str, _module: nn.Module, args: Any, options: Any, output: Any) -> None:
        calls[name].append(Call(args, options, output))

    hooks = [module.register_forward_hook(partial(note, name), with_kwargs=True) for name, module in modules.items()]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def read_text(model: Model, tokenizer: Tokenizer, text: str, pair: str | None = None) -> Reading:
    """A text as an encoder or a language model reads it. A pair is named by its tokens."""
    tokens = tokens_of(tokenizer, text, pair)
    if not len(tokens):
        raise UserError("the text is empty", "give at least one word")
    if len(tokens) > MOST:
        raise UserError(f"the text has {len(tokens):,} tokens; at most {MOST:,} are looked into", "give a part of it")
    if not getattr(model.config, "n_segments", 0):
        tokens = replace(tokens, segments=())
    name_of = partial(_named, tokenizer=tokenizer)
    if isinstance(model, Gpt | RecurrentLanguageModel):
        return Reading(model, target=tokens, name_of=name_of)
    return Reading(model, source=tokens, name_of=name_of)


def tokens_of(tokenizer: Tokenizer, text: str, pair: str | None = None) -> Tokens:
    encoding = tokenizer.encode(text, pair)
    names, words = tuple(encoding.tokens), tuple(range(len(encoding)))
    if pair is None:
        names, words = words_read(encoding, text)
    special = tuple(map(tokenizer.is_silent, encoding.ids))
    return Tokens(names, words, special, tuple(encoding.ids), tuple(encoding.offsets), tuple(encoding.segments))


def read_translation(
    model: Model, tokenizers: tuple[Tokenizer, Tokenizer], text: str, src_ids: Sequence[int], ids: Sequence[int]
) -> Reading:
    """A finished translation: `ids` were written, and all but the last were read again on the way."""
    source, target = tokenizers
    before, written = _written(model, target, ids)
    read = tokens_of(source, text)
    if read.ids != tuple(src_ids):  # what was read is not what the text alone would give
        read = Tokens(tuple(token_name(id, source) for id in src_ids), tuple(range(len(src_ids))), (), tuple(src_ids))
        read = replace(read, special=tuple(map(source.is_silent, src_ids)))
    read = replace(read, segments=())
    return Reading(model, read, before, written, name_of=partial(_named, tokenizer=target))


def _written(model: Model, target: Tokenizer, ids: Sequence[int]) -> tuple[Tokens, Tokens]:
    """What a decoder read at each step, and what it wrote there."""
    names, words = words_written(ids, target)
    written = Tokens(names, words, tuple(map(target.is_silent, ids)), tuple(ids))
    before = Tokens(
        names=("<start>", *names[:-1]),
        words=(0, *(word + 1 for word in words[:-1])),
        special=(True, *written.special[:-1]),
        ids=(model.config.start_id, *ids[:-1]),
    )
    return before, written


def read_caption(model: Captioner, tokenizer: Tokenizer, pixels: Tensor, ids: Sequence[int]) -> Reading:
    """A finished caption: patches are read as those of `read_image`, `ids` were written."""
    before, written = _written(model, tokenizer, ids)
    name_of = partial(_named, tokenizer=tokenizer)
    return replace(read_image(model, pixels), target=before, written=written, name_of=name_of)


def read_image(model: Vit | Captioner, pixels: Tensor) -> Reading:
    """`pixels` (channels, height, width), as the model takes them; a patch is named by its row and column."""
    rows, columns = model.config.grid
    leading = ("[class]", "[distil]")[: model.embed.n_leading]
    names = (*leading, *(f"{row},{column}" for row in range(rows) for column in range(columns)))
    patches = _unwritten(names, len(leading))
    n_latents = getattr(model.config, "n_latents", 0)
    latents = ("[class]", *(f"latent {i}" for i in range(1, n_latents)))
    return Reading(model, patches, _unwritten(latents, 1) if n_latents else None, pixels=pixels[None])


def _unwritten(names: tuple[str, ...], n_leading: int) -> Tokens:
    return Tokens(names, tuple(range(len(names))), tuple(i < n_leading for i in range(len(names))))


def _named(id: int, tokenizer: Tokenizer) -> str:
    """As it would be written; a token that stands for no text by its name."""
    return tokenizer.decode([id]).strip() or token_name(id, tokenizer)
