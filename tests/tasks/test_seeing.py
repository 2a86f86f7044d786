"""Models that see: each picture for itself, in order, from paths, bytes and Pillow, to people and to programs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from PIL import Image

import regard
from data.drawn import SIDES, caption_tar, class_folder
from regard.cli.main import cli
from regard.data.images import CaptionedPictures
from regard.errors import UserError
from regard.inspection.attention import attention
from regard.inspection.rollout import on_grid, rollout
from regard.tasks import recogniser
from tasks import seers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and pictures."""
    place = tmp_path_factory.mktemp("seeing")
    for make in (seers.vit, seers.convnet, seers.captioner):
        make(place / make.__name__)
    class_folder(place / "a", 12)
    caption_tar(place / "a.tar", 12)
    return place


def here(*args: object, text: str = "") -> list[str]:
    done = CliRunner().invoke(cli, list(map(str, args)), input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["vit", "convnet"])
def test_a_label_does_not_depend_on_batch_mates_or_on_how_the_picture_came(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recogniser, "AT_ONCE", 5)
    classify = regard.load(folder / name)
    paths = sorted((folder / "a").rglob("*.png"))
    found = classify(paths)
    assert len({each.score for each in found}) == len(paths)
    for path, expected in zip(paths, found, strict=True):
        with Image.open(path) as image:
            alone = [classify([given])[0] for given in (str(path), path.read_bytes(), image)]
        for each in alone:
            assert each.scores == pytest.approx(expected.scores, abs=1e-6)
    assert sum(found[0].scores.values()) == pytest.approx(1)
    assert tuple(found[0].scores) == SIDES
    with pytest.raises(UserError, match="a list is expected"):
        classify(str(paths[0]))
    with pytest.raises(UserError, match=r"nowhere\.png"):
        classify([paths[0], folder / "nowhere.png"])
    assert classify.summary().n_parameters == classify.model.n_parameters


def test_captions_are_the_same_alone_and_together_and_a_wider_beam_is_no_worse(folder: Path) -> None:
    caption = regard.load(folder / "captioner")
    paths = sorted((folder / "a").rglob("*.png"))
    together = list(caption.many(paths, beam=1, max_new=6))
    for path, found in zip(paths, together, strict=True):
        alone = caption(path, beam=1, max_new=6)
        assert alone.text == found.text
        assert alone.score == pytest.approx(found.score, abs=1e-5)
    wide = caption(paths[0], beam=4, max_new=6)
    assert len(wide.alternatives) == 3
    assert wide.score >= wide.alternatives[0].score
    assert "<pad>" not in wide.text


def test_the_verbs_show_a_line_a_picture(folder: Path) -> None:
    one, other = folder / "a" / "top" / "0003.png", folder / "a" / "left" / "0001.png"
    lines = here("classify", "--model", folder / "vit", one, other)
    expected = regard.load(folder / "vit")([one, other])
    assert lines == [
        f"{each.label}\t{each.score:.4f}\t{path}" for each, path in zip(expected, (one, other), strict=True)
    ]
    assert len(here("classify", "--model", folder / "vit", "--image", folder / "a")) == 12
    assert here("classify", "--model", folder / "vit", "--image", text=f"{one}\n{other}\n") == lines
    first = json.loads(here("classify", "--model", folder / "vit", "--json", one)[0])
    assert (first["image"], first["label"]) == (str(one), lines[0].partition("\t")[0])
    told = [json.loads(line) for line in here("caption", "--model", folder / "captioner", "--json", one, other)]
    assert [each["image"] for each in told] == [str(one), str(other)]
    assert [each["caption"] for each in told] == [
        each.text for each in regard.load(folder / "captioner").many([one, other])
    ]
    for wrong, said in (
        (("classify", "--model", folder / "vit", "A text."), "is made to classify pictures"),
        (("caption", "--model", folder / "vit", one), "cannot caption: its model is made to classify pictures"),
        (("caption", "--model", folder / "captioner", "nowhere.png"), "there is no picture nowhere.png"),
        (("classify", "--model", folder / "vit", "--image", "--pairs", one), "are for texts"),
    ):
        with pytest.raises(UserError, match=said):
            here(*wrong)


def test_evaluate_scores_pictures_and_tells_folders_of_captions_apart(folder: Path) -> None:
    found = json.loads(here("evaluate", "--model", folder / "vit", "--data", folder / "a", "--json")[0])
    labels = regard.load(folder / "vit")(paths := sorted((folder / "a").rglob("*.png")))
    right = sum(each.label == path.parent.name for each, path in zip(labels, paths, strict=True))
    assert found["scores"][0]["name"] == "accuracy"
    assert found["scores"][0]["value"] == pytest.approx(100 * right / 12)
    assert found["scores"][0]["low"] <= found["scores"][0]["value"] <= found["scores"][0]["high"]
    found = json.loads(here("evaluate", "--model", folder / "captioner", "--data", folder / "a.tar", "--json")[0])
    names = [score["name"] for score in found["scores"]]
    assert names == ["exact-match", "exact-match held-out", "exact-match seen"]


def test_a_picture_can_be_looked_into(folder: Path) -> None:
    classify, place = regard.load(folder / "vit"), folder / "a" / "top" / "0003.png"
    reading = classify.reading(place)
    weights = attention(reading, "encoder", layer=1, head=0)
    assert weights.shape == (17, 17)
    torch.testing.assert_close(weights.sum(-1), torch.ones(17))
    assert on_grid(reading, rollout(reading, "encoder")[0]).shape == (4, 4)
    shown = "\n".join(here("explain", place, "--model", folder / "vit", "--layer", 0, "--head", 1, "--token", "2,3"))
    assert "2,3" in shown
    with pytest.raises(UserError, match="has no attention"):
        regard.load(folder / "convnet").reading(place)


def test_a_picture_without_a_caption_is_refused(folder: Path) -> None:
    examples: Any = CaptionedPictures.__new__(CaptionedPictures)
    for rows in ([("x", "top")], [("x", "a bar", "top"), ("x", "top")]):
        with pytest.raises(UserError, match="has no caption"):
            list(CaptionedPictures.__call__(examples, rows))
