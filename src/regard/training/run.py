"""Assembling a run from one TOML file, taking it up again, and finishing it."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.config import build, read_toml, set_values, to_dict, to_toml
from regard.data.corpus import read_rows
from regard.data.report import report
from regard.data.shards import Shards, prepare
from regard.errors import UserError
from regard.files import read_json_object, write_bytes
from regard.models.base import Model, initialise, without_memory
from regard.models.registry import Family, find_preset
from regard.text.load import load as load_tokenizer
from regard.text.tokenizer import Tokenizer
from regard.text.train import train as train_tokenizer
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.decided import differences, essence, without_free
from regard.training.loop import Listener, Progress, Trainer
from regard.training.step import seed_of
from regard.training.validate import Validation, validate
from regard.weights.store import save_model

RUN_FILE, LOG_FILE = "run.toml", "log.jsonl"
DEFAULT_PRESET = "transformer-small"


def read_run(path: Path, assignments: Sequence[str] = ()) -> RunConfig:
    """A run's TOML with `--set` laid over it; paths in it are relative to the current folder."""
    return build(RunConfig, set_values(read_toml(path), assignments), "")


@dataclass(frozen=True)
class Sources:
    """Where the sentences are."""

    config: RunConfig

    def paths(self, names: Sequence[str]) -> list[Path]:
        paths = [Path(name).expanduser() for name in names]
        missing = [str(path) for path in paths if not path.is_file()]
        if missing:
            raise UserError(f"there is no file {', '.join(missing)}", "check [data], or use --set data.train=PATH")
        return paths

    def rows(self, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return read_rows(self.paths(names), columns=self.config.data.columns or None)

    def pairs(self, names: Sequence[str], limit: int | None) -> list[tuple[str, ...]]:
        """The first pairs with something on both sides."""
        return list(islice((row for row in self.rows(names) if row[0].strip() and row[1].strip()), limit))


def assemble(config: RunConfig, folder: Path, listeners: Sequence[Listener]) -> Trainer:
    """Everything a run needs: read, tokenised, built, and, where there is a checkpoint, put back as it was."""
    sources = Sources(config)
    tokenizer = _tokenizer(config, sources, folder, listeners)
    train = _shards(config, sources, config.data.train, tokenizer, folder / "data" / "train", listeners)
    model = _model(config, tokenizer)
    optimizer = _optimizer(config, model)
    facts: dict[str, Any] = {"config": essence(config), "data": train.fingerprint, "torch": torch.__version__}
    facts["threads"] = torch.get_num_threads()  # sums over another number of threads differ in the last bit
    progress = _restore(folder, model, optimizer, facts, listeners)
    if progress.step > config.train.steps:
        raise UserError(f"train.steps is {config.train.steps}, but {folder} is at step {progress.step} already")
    return Trainer(
        config=config,
        folder=folder,
        model=model,
        optimizer=optimizer,
        train=train,
        validate=_validator(config, sources, model, tokenizer, folder, listeners),
        save_best=lambda: save_whole(model, tokenizer, folder / "best"),
        facts=facts,
        listeners=list(listeners),
        progress=progress,
        autocast=_autocast(config),
    )


def _tokenizer(config: RunConfig, sources: Sources, folder: Path, listeners: Sequence[Listener]) -> Tokenizer:
    place = folder / "tokenizer"
    if not (place / "tokenizer_config.json").is_file():  # the last file to be written
        _tell(listeners, "stage", text=f"learning a vocabulary of {config.text.vocab_size:,} tokens")
        texts = (text for row in sources.rows(config.data.train) for text in row[:2])
        train_tokenizer(texts, config.text, purpose="translation").save(place)
    return load_tokenizer(place)


def _shards(
    config: RunConfig,
    sources: Sources,
    names: Sequence[str],
    tokenizer: Tokenizer,
    place: Path,
    listeners: Sequence[Listener],
) -> Shards:
    _tell(listeners, "stage", text=f"tokenising {', '.join(names)}")
    data = config.data
    return prepare(
        sources.paths(names),
        [tokenizer, tokenizer],
        place,
        columns=data.columns or None,
        max_len=data.max_len,
        too_long=data.too_long,
    )


def _model(config: RunConfig, tokenizer: Tokenizer) -> Model:
    ids = {"pad_id": tokenizer.pad_id, "start_id": tokenizer.pad_id, "eos_ids": (tokenizer.eos_id,)}
    torch.manual_seed(seed_of(config.seed, -1))
    model = _built(config, {"vocab_size": tokenizer.vocab_size, **ids})
    initialise(model, config.train.init)
    _keep_padding_zero(model, tokenizer.pad_id)
    return model


def _built(config: RunConfig, ids: dict[str, Any]) -> Model:
    family, settings = model_settings(config)
    return family.build(build(family.config, {**settings, "max_len": max(config.data.max_len, 8), **ids}, "model"))


def check_model(config: RunConfig) -> None:
    """Before any work, and without memory: does [model] hold together, and does it translate?"""
    name = str(config.model.get("preset", DEFAULT_PRESET))
    family, preset = find_preset(name)
    with without_memory():
        if not hasattr(family.build(preset), "encode"):
            hint = "choose a preset with an encoder and a decoder; `regard list presets` shows all"
            raise UserError(f"{name} does not translate", hint)
        last = config.text.vocab_size - 1
        _built(config, {"vocab_size": last + 1, "pad_id": last, "start_id": last, "eos_ids": (0,)})


def model_settings(config: RunConfig) -> tuple[Family, dict[str, Any]]:
    """The preset's family and its settings with the run's own laid over them."""
    own = dict(config.model)
    family, preset = find_preset(str(own.pop("preset", DEFAULT_PRESET)))
    settings = {field.name: getattr(preset, field.name) for field in dataclasses.fields(preset)}
    return family, {**settings, **own}


def _keep_padding_zero(model: Model, pad_id: int | None) -> None:
    """Decoding starts from padding, whose vector other engines take to be zero; it stays so."""
    if pad_id is None:
        return

    def clear(weight: torch.Tensor) -> None:
        if weight.grad is not None:
            weight.grad[pad_id].zero_()

    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and module.num_embeddings > pad_id:
            with torch.no_grad():
                module.weight[pad_id] = 0.0
            module.weight.register_post_accumulate_grad_hook(clear)


def _optimizer(config: RunConfig, model: Model) -> torch.optim.Optimizer:
    train = config.train
    kind = torch.optim.AdamW if train.optimizer == "adamw" else torch.optim.Adam
    return kind(
        model.parameters(), lr=train.lr, betas=(train.beta1, train.beta2), eps=train.eps,
        weight_decay=train.weight_decay, fused=True,
    )  # fmt: skip


def _autocast(config: RunConfig) -> torch.dtype | None:
    wanted = config.train.precision
    has_bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # elsewhere it is emulated, and slow
    return torch.bfloat16 if wanted == "bf16" or (wanted == "auto" and has_bf16) else None


def _validator(
    config: RunConfig, sources: Sources, model: Model, tokenizer: Tokenizer, folder: Path, listeners: Sequence[Listener]
) -> Any:
    if not config.data.valid:
        return None
    shards = _shards(config, sources, config.data.valid, tokenizer, folder / "data" / "valid", listeners)
    pairs = sources.pairs(config.data.valid, config.valid.sentences)

    def run() -> Validation:
        return validate(model, shards, pairs, tokenizer, tokenizer)

    return run


def _restore(
    folder: Path, model: Model, optimizer: torch.optim.Optimizer, facts: dict[str, Any], listeners: Sequence[Listener]
) -> Progress:
    newest = checkpoint.latest(folder / "checkpoints")
    if newest is None:
        return Progress()
    manifest = read_json_object(newest / "manifest.json")
    changed = [*differences(without_free(manifest["config"]), facts["config"])]
    if manifest["data"] != facts["data"]:
        changed.append("the training data or the tokenizer")
    if changed:
        raise UserError(
            f"{folder} cannot go on, something changed since its last checkpoint: {', '.join(changed)}",
            "undo the change, or start a new run with another --out",
        )
    for name in ("threads", "torch"):
        if manifest.get(name) != facts[name]:
            text = f"note: {name} was {manifest.get(name)} and is {facts[name]}; the result may differ in the last bits"
            _tell(listeners, "stage", text=text)
    checkpoint.restore(newest, model, optimizer)
    return Progress.from_dict(manifest["progress"])


def _tell(listeners: Sequence[Listener], kind: str, **values: Any) -> None:
    for listener in listeners:
        listener(kind, **values)


def data_report(config: RunConfig) -> Any:
    """What is in the files, and what training and test have in common."""
    sources = Sources(config)
    others = {name: getattr(config.data, name) for name in ("valid", "test")}
    return report(
        sources.paths(config.data.train),
        {name: sources.paths(files) for name, files in others.items() if files},
        columns=config.data.columns or None,
    )


def save_whole(model: Model, tokenizer: Tokenizer, folder: Path) -> None:
    """A directory that opens by itself: weights, configuration and vocabulary."""
    save_model(model, folder)
    tokenizer.save(folder)


def finish(trainer: Trainer) -> tuple[Path, Validation | None]:
    """Average the last checkpoints; keep whichever validates better, the average or the best single one."""
    folder, model = trainer.folder, trainer.model
    tokenizer = load_tokenizer(folder / "tokenizer")
    steps = sorted(trainer.to_average(trainer.config.valid.every))
    places = folder / "checkpoints"
    paths = [checkpoint.path_of(places, step) for step in steps]
    model.load_state_dict(checkpoint.average([path for path in paths if checkpoint.is_whole(path)]))
    found = trainer.validate() if trainer.validate else None
    if trainer.validate and found is not None and found.goodness < trainer.progress.best:
        model.load_state_dict(checkpoint.average([checkpoint.path_of(places, trainer.progress.best_step)]))
        found = trainer.validate()
    save_whole(model, tokenizer, folder / "model")
    return folder / "model", found


def write_run(config: RunConfig, folder: Path) -> None:
    write_bytes(folder / RUN_FILE, to_toml(to_dict(config)).encode("utf-8"))
