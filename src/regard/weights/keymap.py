"""Tensor names, theirs and ours, as one table that is read in both directions.

    KeyMap({"bert.encoder.layer.{}.attention.self.query": plain("encoder.blocks.{}.attn.q")})

`{}` stands for one number, `.weight` and `.bias` follow by themselves. An `Edit` knows how a file stores a tensor
otherwise than we do, there and back.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor


def _alone(tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,)


@dataclass(frozen=True)
class Edit:
    """Our tensors `ours`, made out of one of theirs by `split`; `join` makes theirs out of ours."""

    ours: tuple[str, ...]
    split: Callable[[Tensor], tuple[Tensor, ...]] = _alone
    join: Callable[[list[Tensor]], Tensor] = lambda tensors: tensors[0]

    @property
    def is_plain(self) -> bool:
        return self.split is _alone


def transposed(*ours: str) -> Edit:
    """Stored (in, out), as GPT-2 does; several names are stored side by side."""
    return Edit(
        ours,
        lambda tensor: tuple(part.contiguous() for part in _turn(tensor).chunk(len(ours))),
        lambda tensors: _turn(_joined(tensors)).contiguous(),
    )


def plain(*ours: str) -> Edit:
    return Edit(ours)


def _joined(tensors: list[Tensor]) -> Tensor:
    """Not torch.cat: for tensors without memory it imports torch's compiler, for two seconds."""
    whole = tensors[0].new_empty((sum(map(len, tensors)), *tensors[0].shape[1:]))
    for place, tensor in zip(whole.split([len(tensor) for tensor in tensors]), tensors, strict=True):
        place.copy_(tensor)
    return whole


def _turn(tensor: Tensor) -> Tensor:
    return tensor.mT if tensor.dim() == 2 else tensor


def unsqueezed(ours: str) -> Edit:
    """Stored with a leading axis of one."""
    return Edit((ours,), lambda tensor: (tensor[0],), lambda tensors: tensors[0][None])


EDITS: dict[str, Callable[..., Edit]] = {"plain": plain, "transposed": transposed, "unsqueezed": unsqueezed}


@dataclass(frozen=True)
class Source:
    """One tensor of theirs and the tensors of ours that come out of it."""

    theirs: str
    ours: tuple[str, ...]
    edit: Edit


class KeyMap:
    def __init__(self, table: Mapping[str, Edit], *, prefix: str = "") -> None:
        """`prefix` is what a file that holds a bare model leaves out."""
        self.rules, self.prefix = list(table.items()), prefix
        self._ours = [[pattern_of(name) for name in edit.ours] for _, edit in self.rules]

    def sources(self, ours: Iterable[str], *, bare: bool = False) -> list[Source]:
        """Which of their tensors hold these tensors of ours. Without a table, names are the same on both sides."""
        found: dict[str, Source] = {}
        for name in ours:
            source = self._source_of(name, bare) if self.rules else Source(name, (name,), Edit((name,)))
            assert source is not None, f"no rule for our tensor {name}"
            found[source.theirs] = source
        return list(found.values())

    def _source_of(self, name: str, bare: bool) -> Source | None:
        for (theirs, edit), patterns in zip(self.rules, self._ours, strict=True):
            for pattern in patterns:
                if match := pattern.fullmatch(name):
                    numbers, suffix = match.groups()[:-1], match.groups()[-1] or ""
                    fill = [template.format(*numbers) + suffix for template in (theirs, *edit.ours)]
                    name = fill[0].removeprefix(f"{self.prefix}.") if bare else fill[0]
                    return Source(name, tuple(fill[1:]), edit)
        return None

    def is_bare(self, names: Iterable[str]) -> bool:
        return bool(self.prefix) and not any(name.startswith(f"{self.prefix}.") for name in names)


def pattern_of(template: str) -> re.Pattern[str]:
    whole = re.escape(template).replace(re.escape("{}"), r"(\d{1,4})")
    return re.compile(whole + r"(\.weight|\.bias)?")
