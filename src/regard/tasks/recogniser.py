"""Which label a picture has."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import require
from regard.data.pictures import read_file
from regard.data.view import View
from regard.errors import UserError
from regard.inspection.reading import Reading, read_image
from regard.inspection.summary import Summary, summarise
from regard.models.vit import Vit
from regard.tasks.batching import check_finite
from regard.tasks.classifier import Classification

AT_ONCE = 64
"Pictures that go through the model at once."

Picture = str | Path | bytes | Any
"A path, the bytes of a picture file, or a picture of Pillow."


class Recogniser:
    """`classify(["cat.jpg", ...])` gives a `Classification` for each picture."""

    def __init__(self, model: Any, view: View) -> None:
        self.model, self.view = model, view
        labels = model.config.labels
        require(len(set(labels)) == len(labels), "two labels have the same name", "see id2label in config.json")

    @torch.inference_mode()
    def __call__(
        self, pictures: Sequence[Picture], *, first: int = 1, heard: Callable[[int], None] | None = None
    ) -> list[Classification]:
        """What one says depends neither on the others nor on their order."""
        found: list[Classification] = []
        for start in range(0, len(several(pictures)), AT_ONCE):
            pixels = look_at(pictures[start : start + AT_ONCE], self.view, first + start)
            scores = self.model(pixels.to(self.model.device)).logits.float().softmax(-1).cpu().numpy()  # (B, labels)
            check_finite(scores, first + start)
            found += [Classification(dict(zip(self.model.config.labels, row, strict=True))) for row in scores.tolist()]
            if heard:
                heard(first - 1 + len(found))
        return found

    def reading(self, picture: Picture) -> Reading:
        """What can be looked into (`regard.inspection`): patches are named by row and column."""
        if not isinstance(self.model, Vit):
            raise UserError("this model has no attention to look at", "give a ViT or a DeiT")
        return read_image(self.model, look_at([picture], self.view)[0])

    def summary(self) -> Summary:
        return summarise(self.model)


def several(pictures: Sequence[Picture]) -> Sequence[Picture]:
    if isinstance(pictures, str | bytes | Path):
        raise UserError("one picture was given where a list is expected", "put it into a list: [picture]")
    return pictures


def look_at(pictures: Sequence[Picture], view: View, first: int = 1) -> torch.Tensor:
    """(B, channels, height, width) as the model takes them; what is wrong with one is said with its name or number."""
    seen = []
    for number, picture in enumerate(pictures, first):
        name = str(picture) if isinstance(picture, str | Path) else f"picture {number}"
        data = read_file(Path(picture)) if isinstance(picture, str | Path) else picture
        try:
            seen.append(view.see(data) if isinstance(data, bytes) else view.of(data))
        except UserError as error:
            raise UserError(f"{name}: {error.message}", error.hint) from error
    return torch.from_numpy(view.normal(np.stack(seen)))
