"""Assembling a run from one TOML file, taking it up again, and finishing it."""

import copy
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.config import to_dict
from regard.data.report import report
from regard.data.shards import Shards, prepare
from regard.errors import FAILURE, UserError
from regard.evaluation.score import Score
from regard.files import read_json_object, write_json
from regard.layers.lora import adapted, merge
from regard.models.base import Model
from regard.text.load import load as load_tokenizer
from regard.text.tokenizer import Tokenizer
from regard.text.train import train as train_tokenizer
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.decided import changes, essence, without_free
from regard.training.folder import END_FILE
from regard.training.jobs.job import Job, Validation, judged
from regard.training.jobs.table import JOBS
from regard.training.loop import Listener, Progress, Trainer
from regard.training.model import autocast_type, blank_model, keep_padding_zero, new_model, new_optimizer
from regard.training.ranks import ALONE, Ranks
from regard.training.rounds import in_steps
from regard.training.sources import Sources
from regard.weights.peft import save_adapter
from regard.weights.store import locate, save_model
from regard.weights.vocabulary import tokenizers_of


@dataclass(frozen=True)
class Finished:
    folder: Path
    "Of the model."
    steps: list[int]
    "Its weights are the average of these checkpoints."
    validation: Validation | None

    @property
    def scores(self) -> list[Score]:
        return list(self.validation.scores) if self.validation else []


def assemble(config: RunConfig, folder: Path, listeners: Sequence[Listener], ranks: Ranks = ALONE) -> Trainer:
    """Everything a run needs: read, tokenised, built, and, where there is a checkpoint, put back as it was."""
    ranks.compare({"run": to_dict(config)})
    job = _job(config, folder, listeners, ranks)
    train = _shards(job, "train", folder, listeners, ranks)
    valid = _shards(job, "valid", folder, listeners, ranks) if Sources(config).source("valid") else None
    job.check_metric()
    config = job.config = in_steps(config, train.lengths[:, : job.examples.n_costly])
    job.meet(train)
    facts = _facts(config, train, valid, ranks)
    newest = _newest(folder, ranks)
    ranks.compare({**facts, "checkpoint": newest and ranks.every("finding it", lambda: checkpoint.mark_of(newest))})
    blank = partial(blank_model, config, job.head, job.vocabulary, job.labels)
    model = new_model(config, blank)
    job.begin(model, train)
    model = model.to(ranks.device)
    trained = ranks.spread(model)
    if not job.head:
        keep_padding_zero(model, job.tokenizer.pad_id, ranks)
    optimizer = new_optimizer(config, model)
    progress = Progress()
    if newest is not None:
        progress = _progress(newest, facts, listeners)
        ranks.restore(newest, model, optimizer)
    if progress.step > config.train.steps:
        raise UserError(f"train.steps is {config.train.steps}, but {folder} is at step {progress.step} already")
    return Trainer(
        config=config,
        job=job,
        folder=folder,
        ranks=ranks,
        model=model,
        trained=trained,
        blank=blank,
        optimizer=optimizer,
        train=train,
        validate=None if valid is None else lambda model: judged(job, model, valid, ranks),
        save_best=partial(save_whole, job=job, folder=folder / "best"),
        facts=facts,
        listeners=list(listeners),
        progress=progress,
        autocast=autocast_type(config),
    )


def _job(config: RunConfig, folder: Path, listeners: Sequence[Listener], ranks: Ranks) -> Job:
    kind, sources = JOBS[config.task], Sources(config)
    tokenizer = _tokenizer(config, sources, folder, listeners, ranks)
    counts = ranks.first("reading the labels", lambda: _labels(sources, kind), patient=True)
    return kind(config, tokenizer, counts)


def _tokenizer(
    config: RunConfig, sources: Sources, folder: Path, listeners: Sequence[Listener], ranks: Ranks
) -> Tokenizer | None:
    place, kind = folder / "tokenizer", JOBS[config.task]
    if (purpose := kind.purpose) is None:
        return None

    def learn() -> None:
        if (place / "tokenizer_config.json").is_file():  # the last file to be written
            return
        if init := config.model.get("init"):
            tokenizers_of(locate(init))[0].save(place)
            return
        _tell(listeners, "stage", text=f"learning a vocabulary of {config.text.vocab_size:,} tokens")
        texts = (text for row in sources.rows("train") for text in kind.texts_in(row))
        tell = partial(_tell, listeners, "stage")
        learnt = train_tokenizer(texts, config.text, purpose=purpose, tell=lambda text: tell(text=text))
        if learnt.vocab_size < config.text.vocab_size:
            _tell(listeners, "stage", text=f"the text gave no more than {learnt.vocab_size:,} tokens")
        learnt.save(place)

    ranks.first("learning a vocabulary", learn, patient=True)
    return ranks.every("reading the vocabulary", lambda: load_tokenizer(place))


def _shards(job: Job, name: str, folder: Path, listeners: Sequence[Listener], ranks: Ranks) -> Shards:
    """Rank 0 tokenises; the others read what it wrote, so their own files cannot differ."""
    sources, place = Sources(job.config), folder / "data" / name

    def heard(n_rows: int) -> None:
        if not n_rows:  # else it was done already, which is no news
            files = ", ".join(Path(path).name for path in sources.names(name) or sources.names("train"))
            doing = "decoding" if sources.pictured else "tokenising"
            _tell(listeners, "stage", text=f"{doing} data.{name}: {files}")

    def work() -> None:
        source = sources.source(name)
        assert source is not None
        prepare(source, job.examples, place, columns=job.config.data.columns or None, progress=heard)

    ranks.first(f"tokenising data.{name}", work, patient=True)
    return ranks.every(f"reading {place}, which all ranks must see", lambda: job.arranged(Shards(place), name))


def _facts(config: RunConfig, train: Shards, valid: Shards | None, ranks: Ranks) -> dict[str, Any]:
    """What must be equal when the run goes on, and what is noted if it is not."""
    return {
        "config": essence(config),
        "data": train.fingerprint,
        "valid": valid and valid.fingerprint,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),  # sums over another number of threads differ in the last bit
        "ranks": ranks.size,
    }


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


def _labels(sources: Sources, kind: type[Job]) -> dict[str, int]:
    """How often each is given in train; a rare one that stands only in what is held out is to be known all the same."""
    config = sources.config
    trained = kind.labels_in(sources.rows("train"), config)
    if config.data.valid or not config.data.hold_out or not trained:
        return trained
    return {label: trained.get(label, 0) for label in kind.labels_in(sources.known(), config)}


def data_report(config: RunConfig) -> Any:
    """What is in the files, how often each label is given, and what training and test have in common."""
    sources, kind = Sources(config), JOBS[config.task]
    train = sources.source("train")
    assert train is not None
    others = {name: source for name in ("valid", "test") if (source := sources.source(name))}
    found = report(train, others, columns=config.data.columns or None, n_texts=kind.n_texts)
    labels = kind.labels_in(sources.rows("train"), config)
    return replace(found, labels=labels, of_pictures=sources.pictured)


def save_whole(model: Model, *, job: Job, folder: Path) -> None:
    """A directory that opens by itself, weights and what goes with them: it appears whole or not at all."""
    if adapted(model):  # the run goes on with the adapters, the directory has them merged
        model = copy.deepcopy(model)
        merge(model)
    new, old = (folder.with_name(f".{folder.name}.{age}") for age in ("new", "old"))
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    for name, part in model.parts.items():
        save_model(part, new / name)
        job.save_beside(new / name)
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
        if not steps:
            hint = "lower train.lr, or look at the numbers that are to be learnt"
            raise UserError("there is no model: no step gave a number", hint, exit_code=FAILURE)
        found = _tried(trainer, model, [checkpoint.path_of(places, step) for step in steps])
        if found is not None and found.goodness < trainer.progress.best and checkpoint.path_of(places, best).is_dir():
            steps = [best]
            found = _tried(trainer, model, [checkpoint.path_of(places, best)])
        ranks.first("saving the model", lambda: save_whole(model, job=trainer.job, folder=folder / "model"))
        if adapted(model):
            ranks.first("saving the adapter", lambda: _save_adapter(trainer, model))
        ranks.first("ending", lambda: write_json(folder / END_FILE, {"step": trainer.progress.step}))
    return Finished(folder / "model", steps, found)


def _save_adapter(trainer: Trainer, model: Model) -> None:
    """The model has it merged, so a layout that PEFT does not know is no reason to fail at the end of a run."""
    try:
        save_adapter(model, trainer.folder / "adapter", trainer.config.model["init"])
    except UserError as error:
        text = f"note: the adapter is in the model only, and not beside it: {error.message}"
        _tell(trainer.listeners, "stage", text=text)


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
