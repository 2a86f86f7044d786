"""A capture is JSON, its numbers come back as they were, and it says which model it was."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inspection import readings
from inspection.packing import unpacked
from models import tiny
from regard import __version__
from regard.inspection.capture import SCHEMA, capture, digits, identity, packed
from regard.inspection.explanation import explain
from regard.inspection.masks import mask_of


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_nine_digits_bring_every_number_back(values: list[float]) -> None:
    numbers = torch.tensor(values)
    assert torch.equal(torch.tensor(json.loads(json.dumps(digits(numbers)))), numbers)
    assert unpacked(json.loads(json.dumps(packed(numbers)))).tolist() == numbers.tolist()


def test_matrices_keep_their_shape_and_bytes() -> None:
    codes = torch.arange(6, dtype=torch.uint8).view(2, 3)
    assert np.array_equal(unpacked(packed(codes, "u8")), codes.numpy())
    assert packed(torch.ones(1, 2)) == {"dtype": "f32", "shape": [1, 2], "base64": "AACAPwAAgD8="}


def test_the_identity_tells_models_apart_and_knows_the_same_again() -> None:
    assert identity(tiny.make("bert")) == identity(tiny.make("bert", seed=3).fuse())
    found = {identity(tiny.make(name))["config_sha256"] for name in tiny.ALL}
    assert len(found) == len(tiny.ALL)
    bert = identity(tiny.make("bert"))
    assert (bert["layout"], bert["family"], bert["sizes"]["d_model"]) == ("bert", "bert", 16)
    assert len(bert["config_sha256"]) == 64
    assert identity(readings.make("gru dot").model)["family"] == "recurrent"


@pytest.mark.parametrize("name", readings.ALL)
def test_a_capture_of_every_family_is_json(name: str) -> None:
    reading = readings.make(name)
    kind = reading.kinds[0]
    payloads = [explain(reading, kind, 0, 0, 1).to_dict(), mask_of(reading, kind).to_dict()]
    found = capture(reading, {"verb": "explain", "token": "w9"}, payloads)
    again = json.loads(json.dumps(found))
    assert (again["schema"], again["tool_version"]) == (SCHEMA, __version__)
    assert again["tokens"][kind.replace("encoder", "source").replace("decoder", "target").replace("cross", "source")]
    assert [payload["type"] for payload in again["payloads"]] == ["explanation", "mask"]
