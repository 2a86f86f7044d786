"""What of a run's settings has decided its numbers so far, and must stay while it goes on."""

import textwrap
from collections.abc import Iterator
from typing import Any

from regard.config import to_dict
from regard.errors import USAGE, UserError
from regard.training.config import DataConfig, RunConfig
from regard.training.schedule import ENDLESS

FREE = (
    "about", "train.save_minutes", "train.on_nan", "train.parallel", "train.device", "train.timeout_minutes",
    "valid.patience",
)  # fmt: skip
"These may change at any time: what they say about the future was not asked in the past, or is about machines."


def essence(config: RunConfig) -> dict[str, Any]:
    """All that decided. Where the files stand did not: of their contents a fingerprint is kept."""
    data = to_dict(config)
    data["data"] = {key: value for key, value in data["data"].items() if key not in ("train", "valid", "test")}
    return without_free(data)


def without_free(settings: dict[str, Any]) -> dict[str, Any]:
    """For checkpoints of earlier versions too, which kept some keys that are free now."""
    kept = {key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()}
    longer = ("train.steps",) if kept["train"]["schedule"] in ENDLESS else ()
    for key in (*FREE, *longer):
        section, _, name = key.rpartition(".")
        (kept[section] if section else kept).pop(name, None)
    return kept


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every key that differs: its path, what it was and what it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, old, new


def changes(old: Any, new: Any) -> list[str]:
    """A key that an earlier version did not have was what is usual now."""
    usual = to_dict(RunConfig(data=DataConfig(train=())))
    told = []
    for path, before, now in differences(old, new):
        section, _, name = path.rpartition(".")
        if before is None and name in (place := usual.get(section, {}) if section else usual):
            before = place[name]
        if before != now:
            told.append(f"{path} was {before!r} and is {now!r}")
    return told


def refuse_decided(before: RunConfig, now: RunConfig) -> None:
    changed = changes(essence(before), essence(now))
    if changed:
        free = f"free are {', '.join(FREE)}, the paths in [data], and train.steps where train.schedule is "
        free += f"{' or '.join(ENDLESS)}; for anything else start a new run with `regard train`"
        raise UserError(
            f"what decided the run's numbers so far must stay: {', '.join(changed)}",
            textwrap.fill(free, 78, subsequent_indent="  "),
            exit_code=USAGE,
        )
