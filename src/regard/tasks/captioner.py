"""What is on a picture, in words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.view import View
from regard.decoding.beam import BeamSettings, Hypothesis, beam_search
from regard.errors import UserError
from regard.inspection.reading import Reading, read_caption
from regard.inspection.summary import Summary, summarise
from regard.models.captioner import Captioner as Model
from regard.tasks.recogniser import Picture, look_at, several
from regard.text.tokenizer import Tokenizer

AT_ONCE = 32
MOST = 64
"Tokens of a caption, where nothing is said."


@dataclass(frozen=True)
class Caption:
    text: str
    score: float
    "log_probability / length; 0 is certain."
    alternatives: tuple["Caption", ...] = ()
    "The next best, best first."
    inside: Hypothesis | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


class Captioner:
    """`caption("photo.jpg").text`; `caption.many(["a.jpg", "b.jpg"])` for several. A beam of 1 is greedy search."""

    def __init__(self, model: Model, tokenizer: Tokenizer, view: View) -> None:
        tokenizer.check_fits(model.config.vocab_size)
        if model.config.start_id is None:
            raise UserError("the model does not say which token a caption starts with", "see its config.json")
        self.model: Any = model
        self.tokenizer, self.view = tokenizer, view
        silent = {model.config.pad_id, model.config.start_id, *range(tokenizer.vocab_size, model.config.vocab_size)}
        self._silent = torch.tensor(sorted(silent - {None, *model.config.eos_ids}), device=model.device)

    def __call__(self, picture: Picture, *, beam: int = 4, n_best: int | None = None, max_new: int = MOST) -> Caption:
        """One picture, with as many captions in all as the beam is wide, or `n_best`."""
        settings = BeamSettings(beam, beam if n_best is None else n_best)
        return next(self._many([picture], settings, max_new, None))

    def many(
        self,
        pictures: Sequence[Picture],
        *,
        beam: int = 4,
        max_new: int = MOST,
        heard: Callable[[int], None] | None = None,
    ) -> Iterator[Caption]:
        """In their order; `heard` is told meanwhile how many are done."""
        return self._many(several(pictures), BeamSettings(beam, 1), max_new, heard)

    def _many(
        self, pictures: Sequence[Picture], settings: BeamSettings, max_new: int, heard: Callable[[int], None] | None
    ) -> Iterator[Caption]:
        limit = min(max_new, self.model.config.max_len)
        for start in range(0, len(pictures), AT_ONCE):
            pixels = look_at(pictures[start : start + AT_ONCE], self.view, start + 1)
            found = self._search(pixels.to(self.model.device), settings, limit)
            if heard:
                heard(start + len(found))
            for hypotheses in found:
                best, *others = map(self._caption, hypotheses)
                yield replace(best, alternatives=tuple(others))

    @torch.inference_mode()
    def _search(self, pixels: Tensor, settings: BeamSettings, limit: int) -> list[list[Hypothesis]]:
        config = self.model.config
        state = self.model.new_state(self.model.encode(pixels), None, limit)
        start = torch.full((len(pixels),), config.start_id, device=pixels.device)
        return beam_search(self._step, state, start, settings, limit=limit, end_ids=config.eos_ids)

    def _step(self, ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores = self.model.step(ids, state, valid)
        scores[:, self._silent] = -torch.inf
        return scores

    def _caption(self, found: Hypothesis) -> Caption:
        ids = found.ids[:-1] if found.reason == "end" else found.ids
        return Caption(" ".join(self.tokenizer.decode(ids).split()), found.score, inside=found)

    def reading(self, picture: Picture, caption: Caption) -> Reading:
        """What can be looked into (`regard.inspection`): each word looked at the patches."""
        if caption.inside is None:
            raise UserError("this caption was not written here", "give what the captioner said of the picture")
        return read_caption(self.model, self.tokenizer, look_at([picture], self.view)[0], caption.inside.ids)

    def summary(self) -> Summary:
        return summarise(self.model)
