"""A cell is closed exactly where the model closes it, and every closed cell says why."""

import pytest
import torch
from torch.testing import assert_close

from inspection import readings
from inspection.packing import unpacked
from regard.inspection.attention import attention
from regard.inspection.masks import closed_by, mask_of, reason
from regard.inspection.reading import watching
from regard.layers.mask import Mask


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("name", ["bert", "bert local", "gpt2", "gpt2 local", "llama", "marian", "t5"])
def test_closed_cells_are_those_of_the_models_mask_and_have_no_weight(name: str, padding: int) -> None:
    reading = readings.make(name, padding=padding)
    for kind in reading.kinds:
        found = mask_of(reading, kind)
        with watching({"attention": reading.module(kind, 0)}) as calls, torch.no_grad():
            reading.run()
        n = len(found.queries), len(found.keys)
        dense = calls["attention"][0].args[3].dense(*n, torch.device("cpu"))
        allowed = torch.ones(n, dtype=torch.bool) if dense is None else dense[0, 0]
        assert torch.equal(found.codes == 0, allowed)
        weights = attention(reading, kind)
        assert not weights[~allowed].any()
        assert bool((weights[allowed] > 0).all())


@pytest.mark.parametrize("name", ["vit local", "vit", "deit"])
def test_a_window_on_the_grid_of_patches_is_told_too(name: str) -> None:
    reading = readings.make(name)
    found = mask_of(reading, "encoder")
    assert_close(found.codes == 0, attention(reading, "encoder") > 0)
    assert {cell for row in found.reasons() for cell in row} <= {"", "beyond the window"}
    assert bool(found.codes.any()) == (name == "vit local")


def test_all_reasons_of_a_cell_are_named() -> None:
    mask = Mask(causal=True, valid=torch.tensor([[True, True, False, True, True]]), window=1)
    codes = closed_by(mask, 5, 5, torch.device("cpu"))[0]
    assert [reason(int(code)) for code in codes[1]] == [
        "",
        "",
        "padding and future",
        "future and beyond the window",
        "future and beyond the window",
    ]
    assert reason(int(codes[4, 2])) == "padding and beyond the window"


def test_padding_of_an_old_attention_is_closed() -> None:
    found = mask_of(readings.make("gru dot", padding=2), "cross")
    assert found.reasons()[0][-3:] == ["", "padding", "padding"]


def test_the_payload_and_the_figure_say_the_same() -> None:
    found = mask_of(readings.make("gpt2"), "decoder")
    payload = found.to_dict()
    assert payload["reasons"] == ["padding", "future", "beyond the window"]
    assert unpacked(payload["codes"]).tolist() == found.codes.tolist()
    drawing = found.svg()
    assert drawing.count(">f</text>") == 21  # the triangle above the diagonal of seven tokens
    assert "w5 → w9: future" in drawing
    assert found.table()[1][:3] == ["w5", "open", "future"]
