"""A classifier that should find smuggled instructions: what it finds, what it misses, and what it takes for one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.config import require
from regard.lab.probe.report import Measure, Part, share
from regard.lab.probe.sets import Rows
from regard.tasks.classifier import LIKELY, Classifier

AT_ONCE = 16
INJECTION, BENIGN = "injection", "benign"
NAMES = {INJECTION: INJECTION, BENIGN: BENIGN, "1": INJECTION, "0": BENIGN}


@dataclass(frozen=True, kw_only=True)
class Labelled:
    text: str
    label: str | int
    "injection or 1, benign or 0."
    family: str = ""

    def __post_init__(self) -> None:
        require(str(self.label) in NAMES, f"the label is {self.label!r}", f"expected {', '.join(NAMES)}")
        require(bool(self.text.strip()), "the text is empty", "leave the line out")

    @property
    def is_injection(self) -> bool:
        return NAMES[str(self.label)] == INJECTION


@dataclass(frozen=True)
class Verdict:
    row: Labelled
    score: float
    "Of `injection`."

    @property
    def is_alarm(self) -> bool:
        return self.score >= LIKELY


class Detections(Part):
    name = "detector"
    says = "what the detector says of texts whose kinds it was not trained on"
    says_not = "that it stops an attacker, who may try until it is silent"

    def __init__(self, classify: Classifier, rows: Rows[Labelled]) -> None:
        labels = classify.model.config.labels
        hint = "train one with `regard train injection-detector --out runs/detector`"
        require(INJECTION in labels, f"the model's labels are {', '.join(labels)}: none is {INJECTION}", hint)
        self.classify, self.rows = classify, rows

    def outcomes(self) -> Iterator[Verdict]:
        for i in range(0, self.total, AT_ONCE):
            rows = self.rows.rows[i : i + AT_ONCE]
            for row, found in zip(rows, self.classify([row.text for row in rows], first=i + 1), strict=True):
                yield Verdict(row, found.scores[INJECTION])

    def measures(self, outcomes: list[Verdict]) -> list[Measure]:
        real, harmless = ([each for each in outcomes if each.row.is_injection == side] for side in (True, False))
        groups = {"injections found": real, "false alarms": harmless}
        for family in dict.fromkeys(each.row.family for each in outcomes if each.row.family):
            for label, some in (("found", real), ("false alarms", harmless)):
                groups[f"  {family}: {label}"] = [each for each in some if each.row.family == family]
        return [share(name, sum(each.is_alarm for each in some), len(some)) for name, some in groups.items() if some]

    def examples(self, outcomes: list[Verdict]) -> list[dict[str, Any]]:
        """The surest mistakes."""
        wrong = [each for each in outcomes if each.is_alarm != each.row.is_injection]
        wrong.sort(key=lambda each: -abs(each.score - LIKELY))
        kinds = {True: "missed", False: "false alarm"}
        return [{"mistake": kinds[w.row.is_injection], "score": w.score, "text": w.row.text} for w in wrong]
