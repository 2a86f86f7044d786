"""Pictures with a label; with a teacher, what it says of them too."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import require
from regard.data.corpus import Row
from regard.data.images import Augment, ImageBatch, LabelledPictures, collate_images
from regard.data.shards import Shards
from regard.data.view import View, read_view
from regard.errors import UserError
from regard.models.base import Model
from regard.objectives.recognise import Recognise
from regard.training.config import RunConfig
from regard.training.jobs.classification import Classification
from regard.training.jobs.job import Job
from regard.training.model import described
from regard.weights.store import load_model, locate


class Recognition(Classification):
    head, unit = "classify", "images"
    purpose = None
    n_texts = 1
    budget = 250

    def __init__(self, config: RunConfig, tokenizer: None, labels: Mapping[str, int]) -> None:
        Job.__init__(self, config, None, labels)
        self.view, self.augment = view_of(config), augment_of(config)
        self.weights: torch.Tensor = self._weights(list(labels.values()))
        self.examples = LabelledPictures(self.view, self.labels, config.data.names)
        train = config.train
        teacher = self._teacher(train.teacher) if train.teacher else None
        self.objective = Recognise(train.label_smoothing, teacher, train.distil, train.temperature)

    @classmethod
    def labels_in(cls, rows: Iterable[Row], config: RunConfig) -> dict[str, int]:
        """Where the files number their labels, those are the numbers of the model too."""
        require(not config.data.numbers, "data.numbers is for texts", "pictures have labels; leave it out")
        counts = super().labels_in(rows, config)
        order = [config.data.names.get(str(number), str(number)) for number in range(len(counts))]
        return {label: counts[label] for label in order} if set(order) == set(counts) else counts

    def _teacher(self, name: str) -> Model:
        try:
            teacher, folder = load_model(name, device=self.config.train.device), locate(name)
        except UserError as error:
            hint = "train it first (`regard train RECIPE --out FOLDER`; the model is in FOLDER/model), or leave it out"
            raise UserError(f"train.teacher: {error.message}", hint) from error
        if not hasattr(teacher.config, "image_size") or tuple(teacher.config.labels) != self.labels:
            hint = f"expected a model that sees pictures and tells {', '.join(self.labels[:20])} apart"
            raise UserError(f"train.teacher: {folder} gives other labels", hint)
        seen = read_view(folder, teacher.config.image_size, teacher.config.channels)
        if seen != self.view:
            told = " and ".join(f"{name} {getattr(seen, name)} where the pupil has {getattr(self.view, name)}"
                                for name in vars(seen) if getattr(seen, name) != getattr(self.view, name))  # fmt: skip
            raise UserError(f"train.teacher: {folder} sees {told}", "both must see the same")
        return teacher.requires_grad_(False)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> ImageBatch:  # type: ignore[override]
        change = partial(self.augment, rows=rows, key=key)
        return collate_images(shards, rows, view=self.view, weights=self.weights, change=change)

    def still(self, shards: Shards, rows: np.ndarray) -> ImageBatch:
        return collate_images(shards, rows, view=self.view, weights=self.weights, change=None)

    def logits(self, model: Model, batch: Any) -> torch.Tensor:
        return model(batch.pixels).logits

    def save_beside(self, folder: Path) -> None:
        self.view.save(folder)


def view_of(config: RunConfig) -> View:
    """What the model takes; one that was trained goes on seeing as it did."""
    model: Any = described(config, pictures=True)
    if init := config.model.get("init"):
        return read_view(locate(init), tuple(model.image_size), model.channels)
    return View(tuple(model.image_size), model.channels)


def augment_of(config: RunConfig) -> Augment:
    data, side = config.data, min(view_of(config).size)
    require(data.erase < side, f"data.erase is {data.erase}", f"expected less than the picture's {side} pixels")
    require(data.shift < side, f"data.shift is {data.shift}", f"expected less than the picture's {side} pixels")
    return Augment(data.shift, data.flip, data.erase)
