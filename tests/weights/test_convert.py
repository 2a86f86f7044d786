"""`regard convert`: any checkpoint becomes a Hugging Face directory with the same bits, whole or not at all."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from gguf import GGMLQuantizationType as Kind

import regard
from parity import tiny
from parity.test_transformers import make_theirs
from regard.cli.main import run
from regard.text.load import load as load_tokenizer
from regard.weights.store import load_model, save_model
from weights import gguf_files
from weights.checkpoints import bits, change_json, save_tiny, tensors_of


def convert(*args: object) -> int:
    return run(["convert", *map(str, args)])


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """The message of a conversion that must fail."""
    assert convert(*args) in (2, 3)
    return capsys.readouterr().err


# The same bits

UNUSED = {"bert masked lm, untied": {"cls.predictions.bias"}}
UNUSED |= {f"{name} untied": {"model.shared.weight"} for name in ("marian", "pegasus", "bart")}
"transformers stores a bias or a table here that no computation reads."


@pytest.mark.parity
@pytest.mark.parametrize("name", tiny.ALL)
def test_every_family_is_converted_bit_by_bit_and_once_more_byte_by_byte(name: str, tmp_path: Path) -> None:
    make_theirs(name).save_pretrained(tmp_path / "theirs")
    assert convert(tmp_path / "theirs", tmp_path / "ours") == 0
    assert convert(tmp_path / "ours", tmp_path / "again") == 0
    theirs = {key: bits(tensor) for key, tensor in tensors_of(tmp_path / "theirs").items()}
    ours = {key: bits(tensor) for key, tensor in tensors_of(tmp_path / "ours").items()}
    for key in theirs.keys() - UNUSED.get(name, set()):
        assert ours.get(key) == theirs[key] or (key not in ours and theirs[key] in ours.values()), key  # tied
    assert ours.keys() <= theirs.keys()
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_the_type_of_the_weights_can_be_chosen(name: str, tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "new", "--dtype", name) == 0
    dtype = getattr(torch, name)
    assert {tensor.dtype for tensor in tensors_of(tmp_path / "new").values()} == {dtype}
    new = load_model(tmp_path / "new", dtype=None).state_dict()
    assert all(bits(new[key]) == bits(tensor.to(dtype)) for key, tensor in model.state_dict().items())


def test_without_a_choice_the_weights_keep_their_type(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old", dtype=torch.bfloat16)
    assert convert(tmp_path / "old", tmp_path / "new") == 0
    assert {tensor.dtype for tensor in tensors_of(tmp_path / "new").values()} == {torch.bfloat16}


def test_large_models_are_written_in_shards_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "new", "--shard-size", "2KB") == 0
    shards = list((tmp_path / "new").glob("*.safetensors"))
    assert len(shards) > 1
    old, new = tensors_of(tmp_path / "old"), tensors_of(tmp_path / "new")
    assert {key: bits(tensor) for key, tensor in new.items()} == {key: bits(tensor) for key, tensor in old.items()}
    assert hf.GPT2LMHeadModel.from_pretrained(tmp_path / "new") is not None


@pytest.mark.parametrize("size", ["0MB", "-1GB", "5", "x", "1e400GB", "5 parsecs", "9999999GB", ""])
def test_a_size_that_is_none_is_refused(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "new", "--shard-size", size) == 2
    assert "500MB" in capsys.readouterr().err


# What stands beside the weights


def test_small_files_beside_the_weights_are_carried_over_and_the_rest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    save_tiny(old)
    copied = ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "merges.txt", "spiece.model", "source.spm"]
    copied += ["chat_template.jinja", "generation_config.json", "preprocessor_config.json", "1_Pooling/config.json"]
    copied += ["README.md", "LICENSE", "config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"]
    copied += ["2_Dense/config.json", "2_Dense/model.safetensors"]
    left = ["2_Dense/pytorch_model.bin", "evil.py", "notes.md", "onnx/model.onnx", "optimizer.pt", "training_args.bin"]
    for name in ("1_Pooling", "2_Dense", "onnx"):
        (old / name).mkdir()
    for name in [*copied, *left]:
        (old / name).write_bytes(f"this is {name}\r\n".encode())
    assert convert(old, new) == 0
    found = {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()}
    assert found == {"config.json", "model.safetensors", *copied}
    assert all((new / name).read_bytes() == (old / name).read_bytes() for name in copied)
    *_, carried, rest = capsys.readouterr().err.splitlines()
    assert carried == f"  carried over: {', '.join(sorted(copied))}"
    assert rest == f"  not carried over: {', '.join(left).replace('onnx/model.onnx', 'onnx')}"


def test_the_files_of_a_sharded_model_are_not_among_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "shards", "--shard-size", "2KB") == 0
    (tmp_path / "shards" / "other.safetensors").touch()
    capsys.readouterr()
    assert convert(tmp_path / "shards", tmp_path / "new") == 0
    assert capsys.readouterr().err.splitlines()[1:] == ["  not carried over: other.safetensors"]


@pytest.mark.parametrize("name", ["README.md", "tokenizer.json", "1_Pooling/config.json", "1_Pooling"])
def test_a_link_out_of_the_directory_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever publishes the result would publish the file that the link names."""
    save_tiny(tmp_path / "old")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "config.json").write_text("my password")
    link = tmp_path / "old" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "secret" / ("" if name == "1_Pooling" else "config.json"))
    shown = refused(capsys, tmp_path / "old", tmp_path / "new")
    assert str(link) in shown
    assert "out of the model's directory" in shown
    assert names_in(tmp_path) == {"old", "secret"}


def test_links_within_the_directory_and_to_the_hub_s_own_store_are_followed(tmp_path: Path) -> None:
    old = tmp_path / "snapshots" / "main"
    save_tiny(old)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "0123").write_text("a card")
    (old / "README.md").symlink_to(Path("..", "..", "blobs", "0123"))
    (old / "LICENSE").symlink_to("README.md")
    assert convert(old, tmp_path / "new") == 0
    for name in ("README.md", "LICENSE"):
        assert (tmp_path / "new" / name).read_text() == "a card"
        assert not (tmp_path / "new" / name).is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_among_the_tokenizer_files_is_passed_over(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    os.mkfifo(tmp_path / "old" / "vocab.txt")
    assert convert(tmp_path / "old", tmp_path / "new") == 0


def test_a_gguf_file_becomes_a_directory_with_its_numbers_and_its_tokenizer(tmp_path: Path) -> None:
    gguf_files.write_llama(tmp_path / "model.gguf", Kind.Q8_0)
    assert convert(tmp_path / "model.gguf", tmp_path / "new") == 0
    expected = load_model(tmp_path / "model.gguf").state_dict()
    ours = load_model(tmp_path / "new").state_dict()
    assert all(bits(ours[key]) == bits(tensor) for key, tensor in expected.items())
    assert load_tokenizer(tmp_path / "new").encode("ab").ids[-1] == 256


@pytest.mark.parity
def test_a_converted_gguf_file_opens_in_transformers(tmp_path: Path) -> None:
    gguf_files.write_llama(tmp_path / "model.gguf", Kind.Q8_0)
    assert convert(tmp_path / "model.gguf", tmp_path / "new") == 0
    theirs = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "new")
    ids = hf.AutoTokenizer.from_pretrained(tmp_path / "new")("abc ab", return_tensors="pt").input_ids
    assert ids.tolist()[0] == load_tokenizer(tmp_path / "new").encode("abc ab").ids
    with torch.no_grad():
        expected = load_model(tmp_path / "model.gguf")(ids).logits
        torch.testing.assert_close(theirs(ids).logits, expected, rtol=0, atol=1e-5)


# Whole or not at all


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_nothing_is_left_when_the_source_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "old")
    change_json(tmp_path / "old" / "config.json", n_embd=9)
    assert "n_embd" in refused(capsys, tmp_path / "old", tmp_path / "new")
    assert names_in(tmp_path) == {"old"}


def test_a_directory_that_is_not_empty_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "old")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.tex").write_text("ten years of work")
    assert "--overwrite" in refused(capsys, tmp_path / "old", tmp_path / "new")
    shown = refused(capsys, tmp_path / "old", tmp_path / "new", "--overwrite")
    assert "holds no model" in shown
    assert (tmp_path / "new" / "thesis.tex").read_text() == "ten years of work"
    assert names_in(tmp_path) == {"old", "new"}


def test_an_older_model_is_replaced_only_when_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "old", dtype=torch.bfloat16)
    save_tiny(tmp_path / "new")
    before = (tmp_path / "new" / "model.safetensors").read_bytes()
    assert "exists and is not empty" in refused(capsys, tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new" / "model.safetensors").read_bytes() == before
    assert convert(tmp_path / "old", tmp_path / "new", "--overwrite") == 0
    assert {tensor.dtype for tensor in tensors_of(tmp_path / "new").values()} == {torch.bfloat16}
    assert names_in(tmp_path) == {"old", "new"}


def test_an_older_model_survives_a_conversion_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "old")
    save_tiny(tmp_path / "new")
    before = (tmp_path / "new" / "model.safetensors").read_bytes()
    (tmp_path / "old" / "model.safetensors").write_bytes(before[:-1])
    assert "not a whole safetensors file" in refused(capsys, tmp_path / "old", tmp_path / "new", "--overwrite")
    assert (tmp_path / "new" / "model.safetensors").read_bytes() == before
    assert names_in(tmp_path) == {"old", "new"}


def test_an_older_model_comes_back_when_the_last_step_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path / "old")
    save_tiny(tmp_path / "new")
    rename = os.rename

    def refuse(src: Any, dst: Any) -> None:
        if Path(src).name == "new" and Path(src).parent != tmp_path:
            raise OSError("the disk has gone")
        rename(src, dst)

    monkeypatch.setattr(os, "rename", refuse)
    assert convert(tmp_path / "old", tmp_path / "new", "--overwrite") == 1
    assert "the disk has gone" in capsys.readouterr().err
    assert load_model(tmp_path / "new").n_parameters > 0
    assert names_in(tmp_path) == {"old", "new"}


def test_a_directory_can_be_converted_onto_itself(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "model")
    assert convert(tmp_path / "model", tmp_path / "model", "--overwrite", "--dtype", "bfloat16") == 0
    ours = load_model(tmp_path / "model", dtype=None).state_dict()
    assert all(bits(ours[key]) == bits(tensor.bfloat16()) for key, tensor in model.state_dict().items())


def test_a_source_inside_the_target_is_not_swept_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "outer")
    save_tiny(tmp_path / "outer" / "inner")
    assert "is inside" in refused(capsys, tmp_path / "outer" / "inner", tmp_path / "outer", "--overwrite")
    assert load_model(tmp_path / "outer" / "inner").n_parameters > 0


def test_an_empty_directory_may_be_the_target(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    (tmp_path / "new").mkdir()
    assert convert(tmp_path / "old", tmp_path / "new") == 0
    assert load_model(tmp_path / "new").n_parameters > 0


def test_a_target_that_is_no_directory_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device such as /dev/null would be gone for every program."""
    save_tiny(tmp_path / "old")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for options in ([], ["--overwrite"]):
        assert f"{pipe} is a file" in refused(capsys, tmp_path / "old", pipe, *options)
    assert pipe.is_fifo()


def test_folders_on_the_way_to_the_target_are_made(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "a" / "b" / "new") == 0
    assert names_in(tmp_path / "a" / "b") == {"new"}


@pytest.mark.parametrize("target", ["file", "file/below", "x" * 5000])
def test_a_target_that_cannot_be_written_is_refused(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "old")
    (tmp_path / "file").write_text("x")
    assert refused(capsys, tmp_path / "old", f"{tmp_path}/{target}")
    assert names_in(tmp_path) == {"old", "file"}


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_the_result_has_the_modes_that_the_umask_says(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    before = os.umask(0o027)
    try:
        assert convert(tmp_path / "old", tmp_path / "new") == 0
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o640}


def test_weights_that_are_not_finite_are_refused_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tiny(tmp_path / "old")
    with torch.no_grad():
        model.decoder.norm.bias[3] = float("nan")
    save_model(model, tmp_path / "old")
    assert "decoder.norm.bias" in refused(capsys, tmp_path / "old", tmp_path / "new", "--check-finite")
    assert convert(tmp_path / "old", tmp_path / "new") == 0


def test_the_command_itself_converts_and_speaks_on_stderr_only(tmp_path: Path) -> None:
    save_tiny(tmp_path / "old")
    command = [sys.executable, "-m", "regard", "convert", str(tmp_path / "old"), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
    assert str(tmp_path / "new") in done.stderr


# Real weights


def test_a_converted_minilm_gives_the_same_sentence_vectors(minilm_dir: Path, tmp_path: Path) -> None:
    assert convert(minilm_dir, tmp_path / "new") == 0
    texts = ["A cat sat on the mat.", "Ein Satz.", ""]
    theirs, ours = regard.load(minilm_dir), regard.load(tmp_path / "new")
    assert (ours(texts) == theirs(texts)).all()
    assert ours.settings == theirs.settings
    assert (tmp_path / "new" / "README.md").read_bytes() == (minilm_dir / "README.md").read_bytes()


@pytest.mark.slow
def test_a_converted_smollm2_is_the_same_model_everywhere(smollm2_file: Path, tmp_path: Path) -> None:
    assert convert(smollm2_file, tmp_path / "new") == 0
    theirs, ours = regard.load(smollm2_file), regard.load(tmp_path / "new")
    expected = theirs.model.state_dict()
    assert all(bits(tensor) == bits(expected[key]) for key, tensor in ours.model.state_dict().items())
    text = "What is 2 + 2?  Zwölf \U0001f600\n\tdone"
    ids = theirs.tokenizer.encode(text).ids
    assert ours.tokenizer.encode(text).ids == ids
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "new")(text).input_ids == ids
    model = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "new", dtype=torch.float32)
    with torch.no_grad():
        difference = model(torch.tensor([ids])).logits - ours.model(torch.tensor([ids])).logits
    assert difference.abs().max() < 2e-4


# Killed on the way


def leave(dst: Path, *, pid: int, host: str = "", name: str = "", **parts: Path) -> Path:
    """What a conversion to `dst` leaves behind when it is killed; `parts` are copied into it."""
    folder = dst.with_name(f".{dst.name}.tmp-0123456789ab")
    for part, source in parts.items():
        shutil.copytree(source, folder / part)
    folder.mkdir(exist_ok=True)
    owner = {"host": host or socket.gethostname(), "pid": pid, "dst": name or dst.name}
    (folder / "owner.json").write_text(json.dumps(owner))
    return folder


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return child.pid


def test_what_a_killed_conversion_left_is_cleared_away(tmp_path: Path, gone: int) -> None:
    save_tiny(tmp_path / "old")
    folder = leave(tmp_path / "new", pid=gone, new=tmp_path / "old")
    assert convert(tmp_path / "old", tmp_path / "new") == 0
    assert not folder.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"old", "new"}


def test_an_older_model_that_was_moved_aside_comes_back(
    tmp_path: Path, gone: int, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "src")
    save_tiny(tmp_path / "older")
    leave(tmp_path / "new", pid=gone, old=tmp_path / "older", new=tmp_path / "src")
    assert "exists and is not empty" in refused(capsys, tmp_path / "src", tmp_path / "new")
    assert tensors_of(tmp_path / "new").keys() == tensors_of(tmp_path / "older").keys()
    assert {path.name for path in tmp_path.iterdir()} == {"src", "older", "new"}


@pytest.mark.parametrize("owner", ["living", "elsewhere", "of another", "unknown"])
def test_what_another_conversion_may_still_need_is_left_alone(tmp_path: Path, gone: int, owner: str) -> None:
    save_tiny(tmp_path / "old")
    host, name = "elsewhere" * (owner == "elsewhere"), "new-one" * (owner == "of another")
    folder = leave(tmp_path / "new", pid=os.getpid() if owner == "living" else gone, host=host, name=name)
    if owner == "unknown":
        (folder / "owner.json").unlink()
    assert convert(tmp_path / "old", tmp_path / "new") == 0
    assert folder.exists()


SLOW = """
import sys, time
import regard.weights.store as store
def save_model(*args, **named):
    print("ready", flush=True)
    time.sleep(60)
store.save_model = save_model
from regard.cli.main import main
main(["convert", *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows ends a process without asking it")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["term", "kill"])
def test_a_conversion_that_is_ended_leaves_nothing_for_the_next(tmp_path: Path, number: int, code: int) -> None:
    save_tiny(tmp_path / "old")
    command = [sys.executable, "-c", SLOW, str(tmp_path / "old"), str(tmp_path / "new")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.wait(60) == code
    left = {path.name for path in tmp_path.iterdir()} - {"old"}
    assert len(left) == (number == signal.SIGKILL)
    assert convert(tmp_path / "old", tmp_path / "new") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"old", "new"}


def test_ctrl_c_between_the_two_renames_brings_the_older_model_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path / "old")
    save_tiny(tmp_path / "new")
    rename = os.rename

    def interrupted(source: Path, target: Path) -> None:
        if Path(source).name == "new" and Path(source).parent != tmp_path:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    assert convert(tmp_path / "old", tmp_path / "new", "--overwrite") == 130
    assert (tmp_path / "new" / "config.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"old", "new"}
