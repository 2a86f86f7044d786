"""Pictures with a label or a caption as numbers: decoded once into shards, read as bytes ever after.

Threads decode while the main one writes; of a portion (shards.py) no more than a megabyte of files is held, and of its
pictures what the model sees of them. The column that counts against the budget of a step comes first: a label is one
number, so a step is so many pictures; a caption is its tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, Texts
from regard.data.pairs import PairBatch, padded, shifted
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.data.view import View
from regard.errors import QUOTED, UserError, cut
from regard.text.tokenizer import Tokenizer

THREADS = 2
GREY = 128


def seen(rows: Sequence[Row], view: View) -> Iterator[bytes]:
    """What the model sees of the picture in each row, decoded in the background."""
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(lambda row: view.see(row[0].encode("latin-1")).tobytes(), rows)


@dataclass(frozen=True)
class LabelledPictures:
    """A row is a picture and its label. Columns: the label; pixels."""

    view: View
    labels: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    tokenizers: Sequence[Tokenizer] = ()
    n_costly: int = 1

    @property
    def limits(self) -> tuple[int, ...]:
        return len(self.labels), 256

    @property
    def rules(self) -> Mapping[str, object]:
        return {**self.view.rules, "labels": list(self.labels), "names": dict(self.names)}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        numbers = {label: number for number, label in enumerate(self.labels)}
        for row, pixels in zip(rows, seen(rows, self.view), strict=True):
            label = self.names.get(row[1], row[1])
            if label not in numbers:
                known = ", ".join(self.labels[:20])
                raise UserError(f"the label is '{cut(label, QUOTED)}'", f"labels of the training data are {known}")
            yield Encoded([([numbers[label]], pixels)])


@dataclass(frozen=True)
class CaptionedPictures:
    """A row is a picture, its caption, and perhaps more that is not learnt. Columns: ids; pixels."""

    view: View
    texts: Texts
    n_costly: int = 1

    @property
    def tokenizers(self) -> Sequence[Tokenizer]:
        return self.texts.tokenizers

    @property
    def limits(self) -> tuple[int, ...]:
        return *self.texts.limits, 256

    @property
    def rules(self) -> Mapping[str, object]:
        return {**self.texts.rules, **self.view.rules}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        captions = [_captioned(row) for row in rows]
        for caption, pixels in zip(self.texts(captions), seen(rows, self.view), strict=True):
            yield replace(caption, examples=[(*ids, pixels) for ids in caption.examples])


def _captioned(row: Row) -> Row:
    """Its caption alone; a picture without one has only the name of its folder."""
    if len(row) < 3:
        raise UserError("the picture has no caption", "put it into a .txt of the same name beside the picture")
    return row[1:2]


@dataclass(frozen=True)
class Augment:
    """Small changes that leave a picture what it is; a pure function of (key, row)."""

    shift: int = 0
    "Pixels that it moves at most, to any side; black comes in."
    flip: bool = False
    "Whether left and right change places in every other."
    erase: int = 0
    "Side of a grey square that covers some place."

    def __call__(self, pixels: np.ndarray, rows: np.ndarray, key: tuple[int, ...]) -> np.ndarray:
        """`pixels` (B, channels, height, width) of bytes."""
        dice, each = chances((*key, 3), rows, 5), np.arange(len(rows))
        height, width = pixels.shape[2:]
        if self.shift:
            edge = (self.shift, self.shift)
            wider = np.pad(pixels, ((0, 0), (0, 0), edge, edge))
            places = np.lib.stride_tricks.sliding_window_view(wider, (height, width), axis=(2, 3))
            down, right = (dice[:, :2] * (2 * self.shift + 1)).astype(np.int64).T
            pixels = places[each, :, down, right]
        if self.flip:
            pixels = np.where((dice[:, 2] < 0.5)[:, None, None, None], pixels[..., ::-1], pixels)
        if self.erase:
            down, right = ((dice[:, at] * size).astype(np.int64) for at, size in ((3, height), (4, width)))
            near = [
                np.abs(np.arange(size) - at[:, None]) * 2 < self.erase for size, at in ((height, down), (width, right))
            ]
            hole = (near[0][:, :, None] & near[1][:, None, :])[:, None]  # (B, 1, height, width)
            pixels = np.where(hole, np.uint8(GREY), pixels)
        return pixels


@dataclass
class ImageBatch:
    pixels: Tensor  # (B, channels, height, width)
    labels: Tensor  # (B)
    weights: Tensor  # (B) 0 for a row that does not count
    n_targets: int
    rows: np.ndarray

    def without_targets(self) -> Self:
        return replace(self, weights=torch.zeros_like(self.weights), n_targets=0)


Change = Callable[[np.ndarray], np.ndarray] | None
"What is done to the bytes of a batch before they are numbers; nothing where it is only read."


def collate_images(shards: Shards, rows: np.ndarray, *, view: View, weights: Tensor, change: Change) -> ImageBatch:
    """`weights` (labels) say how much a picture of each label counts."""
    (labels, _), pixels = shards.gather(rows)
    found = torch.from_numpy(labels.astype(np.int64))
    return ImageBatch(pixels_of(pixels[0], rows, view, change), found, weights[found], len(rows), rows)


def collate_captions(shards: Shards, rows: np.ndarray, *, view: View, pad_id: int, change: Change) -> PairBatch:
    """Pictures as the source, captions as the target, which starts from padding."""
    ids, pixels = shards.gather(rows)
    told, valid = padded(*ids, pad_id)  # (B, T)
    return PairBatch(
        src=pixels_of(pixels[0], rows, view, change),
        src_valid=None,
        tgt_in=torch.from_numpy(shifted(told, valid, pad_id, pad_id)),
        tgt_out=torch.from_numpy(told),
        tgt_valid=torch.from_numpy(valid),
        n_targets=int(valid.sum()),
        rows=rows,
    )


def pixels_of(flat: np.ndarray, rows: np.ndarray, view: View, change: Change) -> Tensor:
    pixels = flat.astype(np.uint8).reshape(len(rows), view.channels, *view.size)
    return torch.from_numpy(view.normal(pixels if change is None else change(pixels)))
