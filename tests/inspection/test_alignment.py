"""Weights with names: tokens become words, and what is drawn and written is what is there."""

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.inspection.alignment import Alignment

ALIGNMENT = Alignment(("The", "book", "</s>"), ("O", "livro"), torch.tensor([[0.9, 0.1], [0.02, 0.98], [0.5, 0.5]]))


def test_tokens_of_a_word_come_together_and_rows_keep_their_sum() -> None:
    tokens = Alignment(
        ("bo", "ok", "!"), ("li", "vro", "a"), torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0, 0, 1.0]])
    )
    words = tokens.grouped([0, 0, 1], [0, 0, 1])
    assert (words.target, words.source) == (("book", "!"), ("livro", "a"))
    torch.testing.assert_close(words.weights, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))


@pytest.mark.parametrize("suffix", ["svg", "png", "html", "csv", "npy", "json"])
def test_it_is_saved_as_its_name_says(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    ALIGNMENT.save(path)
    data = path.read_bytes()
    if suffix == "csv":
        assert data.decode().splitlines()[0] == ",O,livro"
        assert data.decode().splitlines()[1].startswith("The,0.89999")
    elif suffix == "npy":
        assert np.array_equal(np.load(path), ALIGNMENT.weights.numpy())
    elif suffix == "json":
        assert json.loads(data)["source"] == ["O", "livro"]
    else:
        start = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!doctype html>"}[suffix]
        assert data.startswith(start)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_another_ending_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a figure cannot be written so"):
        ALIGNMENT.save(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_lines_join_the_words_that_look_at_each_other() -> None:
    drawing = ALIGNMENT.links(only=1)
    (line,) = [item for item in drawing.items if hasattr(item, "to_x") and item.title.endswith("0.9800")]
    assert line.title == "book → livro: 0.9800"
    assert drawing.text == "The largest of each row: book → livro 0.98"
    assert len([item for item in ALIGNMENT.links().items if hasattr(item, "to_x")]) == 5  # the faintest is left out


def test_in_a_notebook_it_is_a_frame_of_its_own() -> None:
    shown = ALIGNMENT._repr_html_()
    (frame,) = list(xml.fromstring(f"<p>{shown}</p>"))
    assert frame.attrib["sandbox"] == ""
    assert frame.attrib["srcdoc"] == ALIGNMENT.html().replace("\n", " ")  # as XML reads an attribute
