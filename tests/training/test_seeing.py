"""Runs on pictures: they learn, they resume exactly, and what they save sees and says the same in transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from data.drawn import caption_tar, class_folder
from regard.errors import UserError
from regard.tasks.captioner import Captioner
from regard.tasks.load import load
from regard.tasks.recogniser import Recogniser
from regard.training import loop
from regard.training.config import RunConfig
from regard.training.folder import run_of
from regard.training.model import check_model
from regard.training.run import assemble, data_report
from regard.weights.store import load_model
from training.toys import train

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "image_size": [8, 8], "patch_size": 2, "channels": 1}
VIT = {"preset": "vit-tiny", **SIZES}
DEIT = {"preset": "deit-tiny", **SIZES}
CONVNET = {"preset": "convnet-small", "image_size": [8, 8], "channels": 1, "widths": [8, 16], "n_blocks": 1}
CAPTIONER = {"preset": "vit-gpt2", **SIZES, "d_model": 32, "patch_size": 4, "n_layers": 1}
CAPTIONER |= {"n_decoder_layers": 2, "n_decoder_heads": 2, "d_decoder_ff": 64}


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


def seeing(folder: Path, model: dict[str, Any], *, count: int = 80, **train: Any) -> RunConfig:
    task = "caption" if model is CAPTIONER else "recognise"
    place = folder / ("a.tar" if task == "caption" else "a")
    if not place.exists():
        (caption_tar if task == "caption" else class_folder)(place, count)
    size = 96 if task == "caption" else 16
    settings = {"lr": 3e-3, "batch_tokens": size, "epochs": 6, "warmup": 4, "precision": "fp32"} | train
    data = {"train": [str(place)], "hold_out": 0.25, "shift": 1}
    return run_of({"task": task, "data": data, "model": model, "train": settings}, ())


@pytest.mark.parametrize("model", [VIT, CONVNET, CAPTIONER], ids=["vit", "convnet", "captioner"])
def test_it_learns_and_resumes_bit_equal(model: dict[str, Any], tmp_path: Path) -> None:
    config = seeing(tmp_path, model, epochs=24, lr=1e-2, count=160 if model is CAPTIONER else 80)
    check_model(config, "" if model is CAPTIONER else "classify", pictures=True)
    _, events = train(config, tmp_path / "through")
    n_steps = sum(event["kind"] == "step" for event in events)
    metric = "exact-match" if model is CAPTIONER else "accuracy"
    assert [event[metric] for event in events if event["kind"] == "valid"][-1] >= 80
    train(config, tmp_path / "broken", stop_at=n_steps // 2 + 1)
    train(config, tmp_path / "broken")
    through, broken = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("through", "broken"))
    assert through.keys() == broken.keys()
    assert all(torch.equal(through[key], broken[key]) for key in through)


def opened_there(folder: Path, kind: str) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    theirs, told = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    return theirs.eval(), transformers.AutoImageProcessor.from_pretrained(folder)


@pytest.mark.parity
@pytest.mark.parametrize("distil", ["vit", "hard", "soft"])
def test_what_it_saves_classifies_the_same_in_transformers(distil: str, tmp_path: Path) -> None:
    config = seeing(tmp_path, VIT, epochs=1)
    kind = "ViTForImageClassification"
    if distil != "vit":
        train(seeing(tmp_path, CONVNET, epochs=1), tmp_path / "teacher")
        teacher = str(tmp_path / "teacher" / "model")
        config = seeing(tmp_path, DEIT, epochs=1, teacher=teacher, distil=distil)
        kind = "DeiTForImageClassificationWithTeacher"
    train(config, tmp_path / "run")
    theirs, processor = opened_there(tmp_path / "run" / "model", kind)
    ours = load(tmp_path / "run" / "model")
    assert isinstance(ours, Recogniser)
    place = tmp_path / "a" / "left" / "0001.png"
    with torch.inference_mode(), Image.open(place) as image:
        pixels = processor(image, return_tensors="pt")["pixel_values"]
        expected = theirs(pixels).logits
        found = ours.model(pixels).logits
    torch.testing.assert_close(ours.reading(place).pixels, pixels, atol=1e-6, rtol=0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert list(ours([place])[0].scores) == [theirs.config.id2label[i] for i in range(4)]


@pytest.mark.parity
def test_what_it_saves_captions_the_same_in_transformers(tmp_path: Path) -> None:
    train(seeing(tmp_path, CAPTIONER, epochs=8), tmp_path / "run")
    theirs, processor = opened_there(tmp_path / "run" / "model", "VisionEncoderDecoderModel")
    ours = load(tmp_path / "run" / "model")
    assert isinstance(ours, Captioner)
    image = Image.open(class_folder(tmp_path / "b", 4) / "top" / "0003.png")
    pixels = processor(image, return_tensors="pt")["pixel_values"]
    ids = torch.tensor([[ours.model.config.start_id, 3, 5, 4]])
    with torch.inference_mode():
        expected = theirs(pixel_values=pixels, decoder_input_ids=ids).logits
        torch.testing.assert_close(ours.model(pixels, ids).logits, expected, atol=1e-5, rtol=0)
        for beam in (1, 3):
            words = theirs.generate(pixels, num_beams=beam, max_new_tokens=12, do_sample=False)
            said = ours.tokenizer.decode([id for id in words[0].tolist() if id != ours.model.config.pad_id])
            assert ours(image, beam=beam).text == " ".join(said.split())


def test_a_window_as_wide_as_the_picture_is_full_attention(tmp_path: Path) -> None:
    """And a smaller one is saved, under a name of our own, and read back as it is."""
    config = seeing(tmp_path, VIT, epochs=1)
    train(config, tmp_path / "run")
    whole, pixels = load_model(tmp_path / "run" / "model"), torch.rand(2, 1, 8, 8)
    for shape, widest, narrow in (("square", 3, 1), ("row", 15, 2)):
        found = {}
        for window in (widest, narrow):
            local = {**VIT, "window": window, "window_shape": shape, "layout": "regard-vit"}
            run = replace(config, model=local)
            check_model(run, "classify", pictures=True)
            model = assemble(run, tmp_path / f"{shape} {window}", []).model.eval()
            model.load_state_dict(whole.state_dict())
            found[window] = model(pixels).logits
        assert torch.equal(found[widest], whole(pixels).logits)
        assert not torch.allclose(found[narrow], whole(pixels).logits, atol=1e-6)
    train(run, tmp_path / "local")
    again = load_model(tmp_path / "local" / "model")
    assert (again.config.window, again.config.window_shape) == (2, "row")
    with pytest.raises(UserError, match="cannot express window"):
        check_model(replace(config, model={**VIT, "window": 2}), "classify", pictures=True)


def test_a_trained_model_goes_on_with_other_labels(tmp_path: Path) -> None:
    train(seeing(tmp_path, VIT, epochs=1), tmp_path / "run")
    for folder in (tmp_path / "a").iterdir():
        if folder.name in ("left", "right"):
            folder.rename(folder.with_name("top") / folder.name)
    config = seeing(tmp_path, {"init": str(tmp_path / "run" / "model")}, epochs=1)
    trainer = assemble(config, tmp_path / "again", [])
    assert trainer.model.config.labels == ("bottom", "left", "right", "top")


def test_what_does_not_fit_is_refused_before_any_work(tmp_path: Path) -> None:
    config = seeing(tmp_path, VIT)
    with pytest.raises(UserError, match="transformer-small is for texts, but the task 'recognise' is about pictures"):
        check_model(replace(config, model={}), "classify", pictures=True)
    with pytest.raises(UserError, match="vit-tiny is for pictures, but the task 'classify' is about texts"):
        check_model(replace(config, task="classify"), "classify")
    with pytest.raises(UserError, match="is a folder, not a file"):
        assemble(replace(config, task="classify"), tmp_path / "run", [])
    (tmp_path / "a" / "top" / "zero.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"top.zero\.png: the file is empty"):
        assemble(config, tmp_path / "run", [])
    (tmp_path / "a" / "top" / "zero.png").unlink()
    train(seeing(tmp_path, {**CONVNET, "image_size": [16, 16]}, epochs=1), tmp_path / "teacher")
    with pytest.raises(UserError, match=r"train\.teacher: .* the pupil"):
        assemble(seeing(tmp_path, DEIT, teacher=str(tmp_path / "teacher" / "model")), tmp_path / "run", [])


def test_the_report_finds_pictures_that_stand_twice(tmp_path: Path) -> None:
    config = seeing(tmp_path, VIT, count=8)
    first = tmp_path / "a" / "top" / "0003.png"
    first.with_name("copy.png").write_bytes(first.read_bytes())
    test = class_folder(tmp_path / "test", 8, seed=1)
    (test / "top" / "copy.png").write_bytes(first.read_bytes())
    found = data_report(replace(config, data=replace(config.data, hold_out=0.0, test=(str(test),))))
    assert found.sets["train"].duplicates == 1
    assert found.overlaps["test"].rows == 1
    assert found.labels == {"bottom": 2, "left": 2, "right": 2, "top": 3}
