"""What goes to disk and comes back, and what transformers makes of the same files."""

import importlib.util
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lab.finding import DoesNotApply, Found, compare
from regard.lab.subject import ROWS, Input, Subject
from regard.models.base import Output
from regard.models.bert import Bert
from regard.weights.store import load_model, read_layout, save_model

LONG = 160
"Tokens: farther apart than the last distance that T5 tells from others."

SUMS = 4
"Times: oneDNN, which large matrices go through here, rounds two to three times as coarsely as MKL."


def saved_is_loaded(subject: Subject) -> Found:
    """Every weight bit by bit and every setting."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        save_model(subject.model, folder)
        back = load_model(folder, dtype=None)
        before, after = subject.model.config.filled(), back.config.filled()
        changed = [name for name in before if before[name] != after[name]]
        if changed == ["position"] and before["position"] == "sinusoidal":
            found = compare([(Subject(back).run(subject.plain).logits, subject.run(subject.plain).logits)])
            return replace(found, note="of the logits: sinusoids are saved in another order of the width")
        ours, theirs = subject.model.state_dict(), back.state_dict()
        changed += ours.keys() ^ theirs.keys()
        if changed:
            return Found(float("inf"), note=f"changed on the way: {', '.join(changed)}")
        return compare(((theirs[name], ours[name]) for name in ours), exact=True)


FIELDS: dict[str, Callable[[Output], Tensor | None]] = {
    "logits": lambda out: out.logits,
    "prediction_logits": lambda out: out.heads["masked_lm"],
    "seq_relationship_logits": lambda out: out.heads["next_sentence"],
    "start_logits": lambda out: out.logits[..., 0],
    "end_logits": lambda out: out.logits[..., 1],
    "cls_logits": lambda out: out.heads["classify"],
    "distillation_logits": lambda out: out.heads["distil"],
    "last_hidden_state": lambda out: out.hidden,
    "pooler_output": lambda out: out.pooled,
}
"Fields of what their models return, and what that is here."


def ours_is_transformers(subject: Subject) -> Found:
    """The user's own directory opened by both; where there is none, a copy of the model that regard saves."""
    if subject.model.config.layout.startswith("regard-"):
        raise DoesNotApply("transformers has no such models")
    if importlib.util.find_spec("transformers") is None:
        raise DoesNotApply("transformers is not installed: pip install transformers")
    import transformers  # a comparison, never a need

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if subject.directory is None:
            save_model(subject.model, folder)
        with _quiet(transformers):
            theirs = _open(transformers, subject.directory or Path(folder))
            found = _near(subject, theirs)
    what = "a copy that regard saved" if subject.directory is None else "the same directory"
    return replace(found, note=f"{found.note}  transformers {transformers.__version__} on {what}".strip())


def _open(transformers: Any, directory: Path) -> Any:
    settings, layout = read_layout(directory)
    cls = getattr(transformers, layout.architecture_of(settings))
    options = {"dtype": torch.float32, "local_files_only": True, "use_safetensors": True}
    try:
        return cls.from_pretrained(directory, **options).eval()
    except Exception as error:  # theirs to raise, whatever it is
        raise UserError(f"transformers {transformers.__version__} does not open it: {error}") from error


def _near(subject: Subject, model: Any) -> Found:
    """Row by row, since some of their classifiers take no more; and one long text.

    Some weights magnify rounding beyond what is allowed. Then theirs is asked again in double precision, which ours has
    to be near: a few times as far from as their own float32 is, for the order of a sum is another here.
    """
    rows = [subject.plain.row(i) for i in range(ROWS)]
    if not subject.sees:
        rows.append(subject.texts(1, min(LONG, subject.model.config.max_len)))
    pairs = list(_pairs(subject, model, rows))
    found = compare(pairs)
    if found.passed or not math.isfinite(found.difference):
        return found
    exact = [theirs for _, theirs in _pairs(subject, model.double(), rows)]
    ours = compare((ours, answer) for (ours, _), answer in zip(pairs, exact, strict=True))
    theirs = compare((theirs, answer) for (_, theirs), answer in zip(pairs, exact, strict=True))
    note = f"from double precision, whence their float32 is {theirs.difference:.1e} away;"
    return replace(ours, allowed=max(ours.allowed, SUMS * theirs.difference), note=note)


def _pairs(subject: Subject, model: Any, rows: list[Input]) -> Iterator[tuple[Tensor, Tensor]]:
    for given in rows:
        ours, theirs = _ask(subject, model, given)
        shared = [name for name in FIELDS if getattr(theirs, name, None) is not None]
        assert shared, f"a {type(theirs).__name__} has nothing to compare"
        for name in shared:
            if (value := FIELDS[name](ours)) is not None:
                yield value, getattr(theirs, name)


def _ask(subject: Subject, model: Any, given: Input) -> tuple[Output, Any]:
    if subject.sees:
        return subject.run(given), model(pixel_values=given.x.to(model.dtype))
    if subject.captions:
        assert given.src is not None
        return subject.run(given), model(pixel_values=given.src.to(model.dtype), decoder_input_ids=given.x)
    if subject.paired:
        return subject.run(given), model(input_ids=given.src, decoder_input_ids=given.x)
    if isinstance(subject.model, Bert) and subject.model.config.n_segments > 1:
        segments = (torch.arange(given.x.size(1)) >= given.x.size(1) // 2).long()[None]
        return subject.model(given.x, segments=segments), model(input_ids=given.x, token_type_ids=segments)
    return subject.run(given), model(input_ids=given.x)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Its bars and hints would stand in the middle of the table."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
