"""BLEU and chrF as sacrebleu counts them, with the signature that says how."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import _bootstrap_resample, estimate_ci

from regard.config import require
from regard.evaluation.score import Score


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 0) -> Score:
    """Cased, tokenised by 13a: what papers call sacreBLEU. `bootstrap` samples give an interval."""
    return _score("BLEU", BLEU(references=None), hypotheses, references, bootstrap)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 0) -> Score:
    return _score("chrF", CHRF(references=None), hypotheses, references, bootstrap)


def _score(
    name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int
) -> Score:
    counts = len(hypotheses), len(references)
    require(min(counts) > 0, "there is no sentence to score", "expected at least one")
    require(counts[0] == counts[1], f"{counts[0]} translations for {counts[1]} references", "expected one for each")
    value = float(metric.corpus_score(list(hypotheses), [list(references)]).score)
    if not bootstrap:
        return Score(name, value, str(metric.get_signature()))
    # sacrebleu's own `n_bootstrap` averages the samples in a way that fails on a sample without a match.
    statistics = metric._extract_corpus_statistics(list(hypotheses), [list(references)])
    metric.n_bootstrap = bootstrap
    metric.seed, samples = _bootstrap_resample(statistics, metric, bootstrap)
    middle, half = estimate_ci(np.array([sample.score for sample in samples], dtype=np.float64))
    return Score(name, value, str(metric.get_signature()), float(middle - half), float(middle + half))
