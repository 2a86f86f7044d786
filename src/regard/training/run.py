"""Assembling a run from one TOML file, taking it up again, and finishing it."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.config import to_dict
from regard.data.report import report
from regard.data.shards import Shards, prepare
from regard.errors import UserError
from regard.evaluation.score import Score
from regard.files import read_json_object, write_json
from regard.models.base import Model
from regard.text.load import load as load_tokenizer
from regard.text.tokenizer import Tokenizer
from regard.text.train import train as train_tokenizer
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.decided import changes, essence, without_free
from regard.training.folder import END_FILE
from regard.training.loop import Listener, Progress, Trainer
from regard.training.model import autocast_type, blank_model, keep_padding_zero, new_model, new_optimizer
from regard.training.ranks import ALONE, Ranks
from regard.training.sources import Sources
from regard.training.validate import Validation, validate
from regard.weights.store import save_model


@dataclass(frozen=True)
class Finished:
    folder: Path
    "Of the model."
    steps: list[int]
    "Its weights are the average of these checkpoints."
    validation: Validation | None

    @property
    def scores(self) -> list[Score]:
        found = self.validation
        return [score for score in (found.bleu, found.chrf) if score] if found else []


def assemble(config: RunConfig, folder: Path, listeners: Sequence[Listener], ranks: Ranks = ALONE) -> Trainer:
    """Everything a run needs: read, tokenised, built, and, where there is a checkpoint, put back as it was."""
    ranks.compare({"run": to_dict(config)})
    sources = Sources(config)
    tokenizer = _tokenizer(config, sources, folder, listeners, ranks)
    train = _shards(config, sources, "train", tokenizer, folder, listeners, ranks)
    valid: Shards | None = None
    pairs: list[tuple[str, ...]] = []
    if config.data.valid:
        valid = _shards(config, sources, "valid", tokenizer, folder, listeners, ranks)
        pairs = ranks.first("reading data.valid", lambda: sources.pairs("valid", config.valid.sentences))
    facts = _facts(config, train, valid, pairs, ranks)
    newest = _newest(folder, ranks)
    ranks.compare({**facts, "checkpoint": newest and ranks.every("finding it", lambda: checkpoint.mark_of(newest))})
    blank = partial(blank_model, config, tokenizer)
    model = new_model(config, blank).to(ranks.device)
    trained = ranks.spread(model)
    keep_padding_zero(model, tokenizer.pad_id, ranks)
    optimizer = new_optimizer(config, model)
    progress = Progress()
    if newest is not None:
        progress = _progress(newest, facts, listeners)
        ranks.restore(newest, model, optimizer)
    if progress.step > config.train.steps:
        raise UserError(f"train.steps is {config.train.steps}, but {folder} is at step {progress.step} already")
    return Trainer(
        config=config,
        folder=folder,
        ranks=ranks,
        model=model,
        trained=trained,
        blank=blank,
        optimizer=optimizer,
        train=train,
        validate=_validator(valid, pairs, tokenizer, ranks),
        save_best=partial(save_whole, tokenizer=tokenizer, folder=folder / "best"),
        facts=facts,
        listeners=list(listeners),
        progress=progress,
        autocast=autocast_type(config),
    )


def _tokenizer(
    config: RunConfig, sources: Sources, folder: Path, listeners: Sequence[Listener], ranks: Ranks
) -> Tokenizer:
    place = folder / "tokenizer"

    def learn() -> None:
        if (place / "tokenizer_config.json").is_file():  # the last file to be written
            return
        _tell(listeners, "stage", text=f"learning a vocabulary of {config.text.vocab_size:,} tokens")
        texts = (text for row in sources.rows("train") for text in row[:2])
        tell = partial(_tell, listeners, "stage")
        learnt = train_tokenizer(texts, config.text, purpose="translation", tell=lambda text: tell(text=text))
        if learnt.vocab_size < config.text.vocab_size:
            _tell(listeners, "stage", text=f"the text gave no more than {learnt.vocab_size:,} tokens")
        learnt.save(place)

    ranks.first("learning a vocabulary", learn, patient=True)
    return ranks.every("reading the vocabulary", lambda: load_tokenizer(place))


def _shards(
    config: RunConfig,
    sources: Sources,
    name: str,
    tokenizer: Tokenizer,
    folder: Path,
    listeners: Sequence[Listener],
    ranks: Ranks,
) -> Shards:
    """Rank 0 tokenises; the others read what it wrote, so their own files cannot differ."""
    data, place = config.data, folder / "data" / name

    def heard(n_rows: int) -> None:
        if not n_rows:  # else it was done already, which is no news
            files = ", ".join(Path(path).name for path in sources.names(name))
            _tell(listeners, "stage", text=f"tokenising data.{name}: {files}")

    def work() -> None:
        prepare(
            sources.paths(name),
            [tokenizer, tokenizer],
            place,
            columns=data.columns or None,
            max_len=data.max_len,
            too_long=data.too_long,
            progress=heard,
        )

    ranks.first(f"tokenising data.{name}", work, patient=True)
    return ranks.every(f"reading {place}, which all ranks must see", lambda: Shards(place))


def _facts(
    config: RunConfig, train: Shards, valid: Shards | None, pairs: Sequence[tuple[str, ...]], ranks: Ranks
) -> dict[str, Any]:
    """What must be equal when the run goes on, and what is noted if it is not."""
    digest = hashlib.sha256(repr([list(pair) for pair in pairs]).encode()).hexdigest()
    return {
        "config": essence(config),
        "data": train.fingerprint,
        "valid": valid and f"{valid.fingerprint} {digest}",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),  # sums over another number of threads differ in the last bit
        "ranks": ranks.size,
    }


def _validator(
    valid: Shards | None, pairs: Sequence[tuple[str, ...]], tokenizer: Tokenizer, ranks: Ranks
) -> Callable[[Model], Validation] | None:
    if valid is None:
        return None
    return lambda model: validate(model, valid, pairs, tokenizer, tokenizer, ranks=ranks)


def _newest(folder: Path, ranks: Ranks) -> Path | None:
    places = folder / "checkpoints"

    def find() -> str | None:
        found = checkpoint.latest(places)
        return found.name if found else None

    name = ranks.first("looking for a checkpoint", find, patient=True)
    return places / name if name else None


def _progress(newest: Path, facts: dict[str, Any], listeners: Sequence[Listener]) -> Progress:
    """Where the run stood; refused where something that decides its numbers has changed since."""
    manifest = {"ranks": 1, "valid": facts["valid"]} | read_json_object(newest / checkpoint.MANIFEST)  # of old versions
    try:
        changed = changes(without_free(manifest["config"]), facts["config"])
        progress = Progress.from_dict(manifest["progress"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = f"delete {newest} to go on from the checkpoint before it"
        raise UserError(f"{newest / checkpoint.MANIFEST} does not say where the run stood: {error!r}", hint) from error
    if manifest.get("data") != facts["data"]:
        changed.append("the training data or the tokenizer")
    if manifest["valid"] != facts["valid"]:
        changed.append("the validation data")
    if changed:
        raise UserError(
            f"{newest.parent.parent} cannot go on, something changed since its last checkpoint: {', '.join(changed)}",
            "undo the change, or start a new run with another --out",
        )
    for name in ("threads", "torch", "ranks"):
        if manifest.get(name) != facts[name]:
            text = f"note: {name} was {manifest.get(name)} and is {facts[name]}; the result may differ in the last bits"
            _tell(listeners, "stage", text=text)
    return progress


def _tell(listeners: Sequence[Listener], kind: str, **values: Any) -> None:
    for listener in listeners:
        listener(kind, **values)


def data_report(config: RunConfig) -> Any:
    """What is in the files, and what training and test have in common."""
    sources = Sources(config)
    return report(
        sources.paths("train"),
        {name: sources.paths(name) for name in ("valid", "test") if sources.names(name)},
        columns=config.data.columns or None,
    )


def save_whole(model: Model, *, tokenizer: Tokenizer, folder: Path) -> None:
    """A directory that opens by itself, weights, configuration and vocabulary: it appears whole or not at all."""
    new, old = (folder.with_name(f".{folder.name}.{age}") for age in ("new", "old"))
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    save_model(model, new)
    tokenizer.save(new)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def finish(trainer: Trainer) -> Finished:
    """Average the last checkpoints; keep whichever validates better, the average or the best single one."""
    folder, ranks = trainer.folder, trainer.ranks
    places, best = folder / "checkpoints", trainer.progress.best_step
    with ranks.watched(lambda: "finishing"):
        model = ranks.whole(trainer.model, trainer.blank)
        steps = ranks.first("looking for checkpoints", lambda: _whole_ones(places, trainer))
        found = _tried(trainer, model, [checkpoint.path_of(places, step) for step in steps])
        if found is not None and found.goodness < trainer.progress.best and checkpoint.path_of(places, best).is_dir():
            steps = [best]
            found = _tried(trainer, model, [checkpoint.path_of(places, best)])
        tokenizer = load_tokenizer(folder / "tokenizer")
        ranks.first("saving the model", lambda: save_whole(model, tokenizer=tokenizer, folder=folder / "model"))
        ranks.first("ending", lambda: write_json(folder / END_FILE, {"step": trainer.progress.step}))
    return Finished(folder / "model", steps, found)


def is_finished(trainer: Trainer) -> bool:
    """Whether the model in the folder is the one of the last step; a kill may have come before it was written."""
    end, step = trainer.folder / END_FILE, trainer.progress.step
    written = end.is_file() and read_json_object(end).get("step") == step and (trainer.folder / "model").is_dir()
    return step >= trainer.config.train.steps and written


def _whole_ones(places: Path, trainer: Trainer) -> list[int]:
    steps = sorted(trainer.to_average(trainer.config.valid.every))
    return [step for step in steps if checkpoint.is_whole(checkpoint.path_of(places, step))]


def _tried(trainer: Trainer, model: Model, paths: list[Path]) -> Validation | None:
    """Put the mean of these checkpoints into `model`, and validate it where there is something to validate with."""
    trainer.ranks.every("averaging", lambda: model.load_state_dict(checkpoint.average(paths)) and None)
    return trainer.validate(model) if trainer.validate else None
