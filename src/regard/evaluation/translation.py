"""BLEU and chrF as sacrebleu counts them, with the signature that says how."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str
    "sacrebleu's account of how it was counted; scores compare only where it is equal."
    low: float | None = None
    high: float | None = None
    "The middle 95 % of bootstrap samples, where asked for."

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.name} {self.value:.2f}{interval}"


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 0) -> Score:
    """Cased, tokenised by 13a: what papers call sacreBLEU. `bootstrap` samples give an interval."""
    return _score("BLEU", BLEU(references=None), hypotheses, references, bootstrap)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 0) -> Score:
    return _score("chrF", CHRF(references=None), hypotheses, references, bootstrap)


def _score(
    name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int
) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=max(bootstrap, 1))
    signature = str(metric.get_signature())
    if not bootstrap:
        return Score(name, float(result.score), signature)
    middle, half = result._mean, result._ci  # sacrebleu keeps the interval here
    return Score(name, float(result.score), signature, float(middle - half), float(middle + half))
