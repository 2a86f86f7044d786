"""Which cells of an attention are closed, and why: padding, the future, or what is beyond the window."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inspection.capture import packed
from regard.inspection.figures.drawing import Drawing, Ink, Item, Rect, Text
from regard.inspection.figures.heat import CELL, GAP, MARGIN, SIZE
from regard.inspection.figures.letters import short, widest
from regard.inspection.figures.shown import Shown
from regard.inspection.reading import Kind, Reading, watching
from regard.layers.mask import Mask

REASONS = ("padding", "future", "beyond the window")
"Each is one bit of a cell's code, the first the lowest; 0 is open."
INKS: tuple[Ink, ...] = ("minus", "soft", "grid")


def closed_by(mask: Mask, n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """(B or 1, T, S) codes: the sum of the bits of all reasons."""
    rules = (
        Mask(valid=mask.valid),
        Mask(causal=mask.causal, positions=mask.positions),
        Mask(window=mask.window, grid=mask.grid, n_global=mask.n_global, positions=mask.positions),
    )
    codes = torch.zeros(1, n_queries, n_keys, dtype=torch.uint8, device=device)
    for bit, rule in enumerate(rules):
        allowed = rule.dense(n_queries, n_keys, device)
        if allowed is not None:
            codes = codes + (~allowed[:, 0]).to(torch.uint8) * (1 << bit)
    return codes


def reason(code: int) -> str:
    return " and ".join(name for bit, name in enumerate(REASONS) if code >> bit & 1)


@dataclass(frozen=True, eq=False)
class MaskMap(Shown):
    kind: Kind
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    codes: Tensor
    "(T, S)"

    def reasons(self) -> list[list[str]]:
        return [[reason(code) for code in row] for row in self.codes.tolist()]

    def drawing(self) -> Drawing:
        """A closed cell bears the first letter of its reason: colour is never alone."""
        left, top = widest(self.queries, SIZE) + GAP + MARGIN, widest(self.keys, SIZE) + GAP + 3 * MARGIN
        title = f"Who may attend to whom: {self.kind}"
        items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
        for j, name in enumerate(self.keys):
            items.append(Text(left + CELL * (j + 0.5) + 4, top - GAP, short(name), SIZE, upwards=True))
        for i, name in enumerate(self.queries):
            items.append(Text(left - GAP, top + CELL * (i + 0.5) + 4, short(name), SIZE, "end"))
            items += self._cells(i, left, top + CELL * i)
        bottom = top + CELL * len(self.queries) + 18
        legend = ", ".join(
            f"{name[0]} {name}" for bit, name in enumerate(REASONS) if bool((self.codes >> bit & 1).any())
        )
        items.append(Text(left, bottom, f"closed: {legend or 'nothing'}", 11.0, ink="soft"))
        width = max(left + CELL * len(self.keys), left + 300) + MARGIN
        share = float((self.codes == 0).float().mean())
        return Drawing(width, bottom + MARGIN, items, title, f"{share:.0%} of the cells are open; closed: {legend}")

    def _cells(self, row: int, left: float, y: float) -> Iterator[Item]:
        for column, code in enumerate(self.codes[row].tolist()):
            bit = next((bit for bit in range(len(REASONS)) if code >> bit & 1), None)
            title = f"{self.queries[row]} → {self.keys[column]}: {reason(code) or 'open'}"
            ink, strength = ("paper", 0.0) if bit is None else (INKS[bit], 0.35)
            x = left + CELL * column
            yield Rect(x, y, CELL - 1, CELL - 1, ink, strength, title, "grid")  # type: ignore[arg-type]
            if bit is not None:
                yield Text(x + CELL / 2, y + CELL * 0.65, REASONS[bit][0], 11.0, "middle")

    def table(self) -> list[Sequence[object]]:
        rows = zip(self.queries, self.reasons(), strict=True)
        return [["", *self.keys], *([name, *(each or "open" for each in row)] for name, row in rows)]

    def numbers(self) -> NDArray[np.float32]:
        return self.codes.float().numpy()

    def to_dict(self) -> dict[str, Any]:
        names = {"queries": list(self.queries), "keys": list(self.keys), "reasons": list(REASONS)}
        return {"type": "mask", "kind": self.kind, **names, "codes": packed(self.codes, "u8")}


@torch.no_grad()
def mask_of(reading: Reading, kind: Kind) -> MaskMap:
    """The mask that the model itself gives to its first layer; all layers have the same."""
    reading.check(kind)
    queries, keys = reading.queries(kind).names, reading.keys(kind).names
    if reading.is_recurrent:
        valid = reading.keys(kind).valid
        mask = Mask(valid=torch.tensor([valid]) if valid else None)
    else:
        with watching({"attention": reading.module(kind, 0)}) as calls:
            reading.run()
        mask = calls["attention"][0].args[3]
    codes = closed_by(mask, len(queries), len(keys), reading.model.device)
    return MaskMap(kind, queries, keys, codes[0].cpu())
