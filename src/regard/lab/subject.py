"""The model under test, with inputs of its own kind made from a fixed seed."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.lab.finding import DoesNotApply
from regard.models.base import Model, Output
from regard.models.bert import Bert
from regard.models.captioner import Captioner
from regard.models.convnet import Convnet
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentLanguageModel, RecurrentTranslator
from regard.models.transformer import Transformer
from regard.models.vit import Vit

ROWS, LENGTH = 4, 9
PAIRED = (Transformer, RecurrentTranslator, Captioner)


@dataclass(frozen=True)
class Input:
    """Ids, or pixels, and the source of an encoder-decoder; where `valid` is None, nothing is padded."""

    x: Tensor
    valid: Tensor | None = None
    src: Tensor | None = None
    src_valid: Tensor | None = None

    def row(self, i: int) -> "Input":
        return replace(self, **{name: each[i : i + 1] for name, each in vars(self).items() if each is not None})


class Subject:
    def __init__(self, model: Model, directory: Path | None = None) -> None:
        """`directory` is where the model was read from, if it was one."""
        self.model: Any = model.eval()  # its kind decides which checks apply
        self.directory, config = directory, self.model.config
        self.sees, self.paired = isinstance(model, (Vit, Convnet)), isinstance(model, PAIRED)
        self.causal = isinstance(model, (Gpt, RecurrentLanguageModel, *PAIRED))
        self.writes = self.causal and getattr(config, "head", "language_model") == "language_model"
        self.luck = torch.Generator().manual_seed(7)
        self.captions = isinstance(model, Captioner)
        if self.sees:
            self.plain = Input(self._pictures(ROWS))
            return
        self.n_words = min(config.vocab_size, getattr(config, "target_vocab_size", None) or config.vocab_size)
        self.length = min(LENGTH, config.max_len)
        self.plain = self.texts(ROWS, self.length)
        self.ragged = (self.length - torch.tensor([4, 2, 8, 6])).clamp(min=1)
        "A length for each row; none is the full one."

    @property
    def kind(self) -> str:
        """Of a model that writes no text."""
        if self.sees or isinstance(self.model, Bert):
            return "an image encoder" if self.sees else "an encoder"
        if getattr(self.model.config, "head", "") == "none":
            return "a decoder without an output layer"
        return "a model of vectors" if getattr(self.model, "classify", None) is None else "a classifier"

    def must_write(self, otherwise: str) -> None:
        if not self.writes:
            raise DoesNotApply(f"{self.kind} {otherwise}")

    def texts(self, rows: int, length: int) -> Input:
        ids = self._ids(rows, length)
        if self.captions:
            return Input(ids, src=self._pictures(rows))
        return Input(ids, src=self._ids(rows, length) if self.paired else None)

    def _pictures(self, rows: int) -> Tensor:
        config = self.model.config
        return torch.randn(rows, config.channels, *config.image_size, generator=self.luck)

    def _ids(self, rows: int, length: int) -> Tensor:
        """Never padding's own id, which some models of transformers look for."""
        pad_id = self.model.config.pad_id
        ids = torch.randint(0, max(self.n_words - 1, 1), (rows, length), generator=self.luck)
        return ids if pad_id is None else ids + (ids >= pad_id)

    def frame(self, ids: Tensor, lengths: Tensor, width: int, *, left: bool) -> tuple[Tensor, Tensor]:
        """The first tokens of each row with garbage on the left or the right of them, and which are real."""
        place = torch.arange(width)
        real = place >= width - lengths[:, None] if left else place < lengths[:, None]
        framed = self._ids(len(ids), width)
        framed[real] = ids[torch.arange(ids.size(1)) < lengths[:, None]]
        return framed, real

    def padded(self, lengths: Tensor, width: int, *, left: bool) -> Input:
        """The plain texts, cut and framed; a source is padded on the other side, so two of these try everything."""
        given = Input(*self.frame(self.plain.x, lengths, width, left=left))
        if self.plain.src is None or self.captions:  # a picture is never padded
            return replace(given, src=self.plain.src)
        src, src_valid = self.frame(self.plain.src, lengths, width, left=not left)
        return replace(given, src=src, src_valid=src_valid)

    @cached_property
    def inputs(self) -> list[Input]:
        """Everything a model meets: rows of one length, and of several, padded on either side."""
        if self.sees:
            return [self.plain]
        return [self.plain, *(self.padded(self.ragged, self.length, left=left) for left in (True, False))]

    def run(self, given: Input) -> Output:
        if self.sees:
            return self.model(given.x)
        if self.paired:
            return self.model(given.src, given.x, given.src_valid, given.valid)
        return self.model(given.x, given.valid)

    def said(self, given: Input) -> list[Tensor]:
        """All that the model says of every real token and of the whole."""
        out = self.run(given)
        found = [out.hidden, out.logits, *out.heads.values(), *([] if out.pooled is None else [out.pooled])]
        by_token = [each.dim() == 3 or each is out.heads.get("replaced_token") for each in found]
        real = slice(None) if given.valid is None else given.valid.flatten()
        return [each.flatten(0, 1)[real] if one else each for each, one in zip(found, by_token, strict=True)]

    def state(self, given: Input, max_len: int) -> Any:
        if self.paired:
            return self.model.new_state(self.model.encode(given.src, given.src_valid), given.src_valid, max_len)
        return self.model.new_state(len(given.x), max_len)

    def stepped(self, given: Input) -> list[Tensor]:
        """The scores after a padded prompt, and after one token more."""
        state = self.state(given, given.x.size(1) + 1)
        return [self.model.step(given.x, state, given.valid), self.model.step(given.x[:, :1], state, None)]

    def everything(self, given: Input) -> list[Tensor]:
        return [*self.said(given), *(self.stepped(given) if self.writes and given.valid is not None else [])]
