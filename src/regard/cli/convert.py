"""`regard convert`: rewrite a checkpoint as a safetensors directory."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.exporting import write_words
from regard.cli.opening import check_name, find_model
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import BAD_INPUT, UserError
from regard.files import MAX_VOCABULARY, read_json_object, write_json
from regard.machine import is_alive

if TYPE_CHECKING:
    from regard.models.base import Model

EXAMPLES = """\b
Examples:
  regard convert model.gguf my-model --dtype float16
  regard convert hf:owner/name my-model --shard-size 2GB
  regard convert old-model new-model --allow-pickle
  regard convert runs/word2vec/model vectors.txt
"""

BESIDE = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"]
BESIDE += ["merges.txt", "vocab.txt", "*.model", "*.spm", "chat_template.jinja", "chat_template.json"]
BESIDE += ["generation_config.json", "preprocessor_config.json", "modules.json", "[0-9]_*/*.json"]
BESIDE += ["[0-9]_*/*.safetensors", "sentence_*_config.json", "config_sentence_transformers.json"]
BESIDE += ["README.md", "LICENSE*", "NOTICE*"]
"What stands beside the weights and is copied as it is: the tokenizer, how to generate, see and pool, and the card."
OWNER = "owner.json"
"In a staging directory: which process made it."
NAMES = 20  # as many are shown
SECONDS, BYTES_A_SECOND = 120, 10 * 2**20
"How long an honest pickle may take, on a slow disk too; only a hostile one takes longer."


def read_size(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?([KMGT])B?", text, re.IGNORECASE)
    size = float(match[1]) * 1000 ** (" KMGT".index(match[2].upper())) if match else 0
    if size < 1:
        raise click.BadParameter(f"{text!r} is not a size; write for example 500MB or 5GB")
    return int(size)


@click.command(epilog=EXAMPLES)
@click.argument("src")
@click.argument("dst", type=click.Path(path_type=Path))
@click.option("--allow-pickle", is_flag=True, help="Read .bin and .pt files: only from a source you trust.")
@click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="Type of the weights; as in SRC.")
@click.option("--shard-size", callback=read_size, default="5GB", show_default=True, help="Largest file to write.")
@click.option("--check-finite", is_flag=True, help="Refuse weights that are not a number or infinite.")
@click.option("--overwrite", is_flag=True, help="Replace DST where it is a model already.")
def command(
    src: str, dst: Path, allow_pickle: bool, dtype: str | None, shard_size: int, check_finite: bool, overwrite: bool
) -> None:
    """Read the checkpoint SRC and write it as the directory DST.

    SRC is a directory, also of a PEFT adapter, which is merged; a .gguf file or hf:owner/name. DST gets config.json,
    model.safetensors, the tokenizer and the card, as Hugging Face lays them out. It appears whole, or not at all.
    Word vectors also go into a DST that ends in .txt, as word2vec writes them.
    """
    if dst.suffix == ".txt":
        write_words(src, dst, overwrite)
        return
    dst = check_target(src, dst, overwrite)
    check_name(src)
    with waiting(f"converting {src}"):
        beside, left = convert(src, dst, allow_pickle, dtype, shard_size, check_finite)
    tell(f"{src} -> {dst}")
    tell_files("carried over", beside)
    tell_files("not carried over", left)


def convert(
    src: str, dst: Path, allow_pickle: bool, dtype: str | None, shard_size: int, check_finite: bool
) -> tuple[list[Path], list[Path]]:
    """Which files beside the weights came along, and which did not."""
    import torch

    from regard.weights.store import home_of, load_model, save_model

    source = find_source(src, allow_pickle=allow_pickle)
    home = home_of(source)  # of an adapter, the model that it was trained on
    left = left_behind(home, beside := find_beside(home))
    with staging(dst) as folder:
        weights = unpickle(source, folder / "unpickled") if source.is_file() and source.suffix != ".gguf" else source
        model = load_model(weights, dtype=getattr(torch, dtype) if dtype else None)
        if check_finite:
            refuse_broken(src, model)
        save_model(model, folder / "new", shard_bytes=shard_size)
        for place in dict.fromkeys([home, source]):  # an adapter's own tokenizer and card replace its model's
            copy_beside(place, find_beside(place), folder / "new")
        del model  # Windows replaces no file that is still mapped
        publish(folder / "new", dst)
    return beside, left


def check_target(src: str, dst: Path, overwrite: bool) -> Path:
    """DST in full. Before any work: may it be written, and would that destroy anything but an older copy?"""
    try:
        dst = dst.resolve()
        sweep(dst)
        if dst.exists() and not dst.is_dir():  # also a device: it would be replaced
            raise UserError(f"{dst} is a file", "give the name of a directory")
        if not dst.is_dir() or not any(dst.iterdir()):
            return dst
    except (OSError, RuntimeError) as error:  # no permission, a name too long, a loop of links
        raise UserError(f"{str(dst)[:80]} cannot be written: {error}", "give another name") from error
    if not overwrite:
        raise UserError(f"{dst} exists and is not empty", "give another name, or --overwrite to replace it")
    if not (dst / "config.json").is_file():
        raise UserError(f"{dst} is not empty and holds no model", "--overwrite replaces only a model's directory")
    if not src.startswith("hf:") and dst in Path(src).resolve().parents:
        raise UserError(f"{src} is inside {dst}, which would be replaced", "give another name")
    return dst


@contextmanager
def staging(dst: Path) -> Iterator[Path]:
    """A temporary directory beside DST, on the same disk, so that the result only needs a new name."""
    folder = dst.with_name(f"{staging_prefix(dst)}{secrets.token_hex(6)}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{dst} cannot be written: {error.strerror}", "give a place that you may write to") from error
    try:
        write_json(folder / OWNER, {"host": socket.gethostname(), "pid": os.getpid(), "dst": dst.name})
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def staging_prefix(dst: Path) -> str:
    return f".{dst.name[:200]}.tmp-"


def sweep(dst: Path) -> None:
    """Clear away what a killed conversion to the same DST left; if it had moved an older DST aside, put that back."""
    if not dst.parent.is_dir():
        return
    for folder in [path for path in dst.parent.iterdir() if path.name.startswith(staging_prefix(dst))]:
        if is_abandoned(folder, dst):
            if (folder / "old").is_dir() and not dst.exists():
                os.rename(folder / "old", dst)
            shutil.rmtree(folder, ignore_errors=True)


def is_abandoned(folder: Path, dst: Path) -> bool:
    """Whether whoever made it is gone for certain: it ran on this computer and does so no more."""
    try:
        owner = read_json_object(folder / OWNER)
        mine = (owner["host"], owner["dst"]) == (socket.gethostname(), dst.name)
        return not folder.is_symlink() and mine and not is_alive(int(owner["pid"]))
    except (UserError, KeyError, TypeError, ValueError):  # not ours, or killed before it could say whose it was
        return False


def publish(new: Path, dst: Path) -> None:
    """`new` becomes DST; an older DST is moved aside first and comes back if that fails."""
    old = new.with_name("old")
    try:
        if dst.exists():
            os.rename(dst, old)
        os.rename(new, dst)
    except BaseException:  # also Ctrl-C between the two
        if old.exists() and not dst.exists():
            os.rename(old, dst)
        raise


def find_source(src: str, *, allow_pickle: bool) -> Path:
    """A directory, a GGUF file or, where that is allowed, a pickle."""
    from regard.weights.tensorfile import INDEX, PICKLES, SINGLE

    path = Path(src)
    if allow_pickle and path.suffix in PICKLES and path.is_file():
        return path
    found = find_model(src)
    if not allow_pickle or found.is_file() or (found / SINGLE).exists() or (found / INDEX).exists():
        return found
    if src.startswith("hf:"):
        from regard.weights.hub import WANTED, fetch

        found = fetch(src.removeprefix("hf:"), wanted=[*WANTED, "pytorch_model*"])
    return find_pickle(found)


def find_pickle(directory: Path) -> Path:
    """The file or the index of shards that holds the weights; training leaves other pickles beside it."""
    for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"):
        if (directory / name).is_file():
            return directory / name
    from regard.weights.tensorfile import PICKLES

    found = sorted(path for path in directory.iterdir() if path.suffix in PICKLES and path.is_file())
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:10]) or "none"
        hint = f"give the file itself: regard convert {directory / 'NAME.bin'} DST --allow-pickle"
        raise UserError(f"{directory} has no model.safetensors and no pytorch_model.bin; other pickles: {names}", hint)
    return found[0]


def unpickle(source: Path, folder: Path) -> Path:
    """A directory with the same weights as safetensors. The pickle is read by a process of its own."""
    from regard.weights.tensorfile import read_index

    files = [source]
    if source.suffix == ".json":
        files = [source.parent / name for name in sorted(set(read_index(source).values()))]
    config = source.with_name("config.json")
    if not config.is_file():
        raise UserError(f"there is no config.json beside {source}", "it says how the model is built")
    copy_file(config, folder / "config.json")
    # -P: a file called torch.py in the current directory is not torch.
    command = [sys.executable, "-P", "-m", "regard.unpickle", str(folder), *(str(f.absolute()) for f in files)]
    seconds = SECONDS + sum(file.stat().st_size for file in files) // BYTES_A_SECOND
    try:
        child = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{source} was not read after {seconds} seconds", "it is damaged or hostile") from error
    if child.returncode == BAD_INPUT:
        raise UserError(**json.loads(child.stdout))
    if child.returncode:
        reason = (child.stderr.strip().splitlines() or [f"the reader ended with {child.returncode}"])[-1]
        raise UserError(f"{source} could not be read: {reason}", "it is damaged or larger than the memory")
    return folder


def copy_file(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def refuse_broken(src: str, model: "Model") -> None:
    broken = [name for name, tensor in model.state_dict().items() if not tensor.isfinite().all()]
    if broken:
        raise UserError(f"{src}: {len(broken)} tensors are not finite: {', '.join(broken[:5])}", "the model is broken")


def find_beside(source: Path) -> list[Path]:
    """Small files to carry over. A link that leads out of the model's directory could name any file, and is refused."""
    if source.suffix == ".gguf":  # stands alone; its vocabulary is inside
        return []
    directory = source if source.is_dir() else source.parent
    inside = directory.resolve()
    is_cache = inside.parent.name == "snapshots"  # the hub's, which links to its own store
    stores = [inside, *([inside.parent.parent / "blobs"] if is_cache else [])]
    found = sorted({path for pattern in BESIDE for path in directory.glob(pattern) if path.is_file()})
    for path in found:
        if not any(path.resolve().is_relative_to(store) for store in stores):
            hint = "put the file itself there, or delete the link"
            raise UserError(f"{path} is a link to {path.resolve()}, out of the model's directory", hint)
    return [path.relative_to(directory) for path in found if path.stat().st_size <= MAX_VOCABULARY]


def left_behind(source: Path, beside: list[Path]) -> list[Path]:
    """What else stands in the model's directory: not its weights, and not carried over."""
    if source.suffix == ".gguf":
        return []
    from regard.weights.tensorfile import INDEX, SINGLE, read_index

    directory = source if source.is_dir() else source.parent
    weights = source if source.is_file() else directory / (SINGLE if (directory / SINGLE).exists() else INDEX)
    used = {directory / "config.json", weights, *(directory / path for path in beside)}
    if weights.suffix == ".json" and weights.exists():
        used |= {directory / name for name in read_index(weights).values()}
    opened = {path.parent for path in used}  # of these folders the files are told one by one
    rest = {*directory.iterdir(), *directory.glob("[0-9]_*/*")} - used - opened
    return sorted(path.relative_to(directory) for path in rest if path.parent in opened)


def tell_files(what: str, paths: list[Path]) -> None:
    names = [name if name.isprintable() else ascii(name) for name in (path.as_posix() for path in paths[:NAMES])]
    more = f" and {len(paths) - NAMES} more" if paths[NAMES:] else ""
    if names:
        tell(f"  {what}: {', '.join(names)}{more}")


def copy_beside(source: Path, beside: list[Path], folder: Path) -> None:
    if source.suffix == ".gguf":
        from regard.text.gguf_vocabulary import from_metadata
        from regard.weights.gguf import read_gguf

        from_metadata(read_gguf(source).metadata).save(folder)
    directory = source if source.is_dir() else source.parent
    for path in beside:
        copy_file(directory / path, folder / path)
