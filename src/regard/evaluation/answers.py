"""Exact match and F1 of answers, as in SQuAD's official script for 2.0 (Rajpurkar et al. 2018).

A question without gold answers has none in its text, and only an empty prediction is right. The script for 1.1 differs
where an answer is nothing but articles and punctuation: there it counts as gold, and its F1 is always 0.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from regard.evaluation.score import Score, check_paired, scored

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golds = Sequence[Sequence[str]]
"The gold answers of each question: several, one, or none where its text has no answer."


def normalised(text: str) -> str:
    """Lower case, no articles, single spaces. Only ASCII punctuation goes: “ and – stay, as in the official script."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(predicted: Sequence[str], gold: Golds, *, bootstrap: int = 0) -> Score:
    return _best("exact-match", _same, predicted, gold, bootstrap)


def answer_f1(predicted: Sequence[str], gold: Golds, *, bootstrap: int = 0) -> Score:
    """The words that the prediction and the nearest gold answer share."""
    return _best("answer-F1", _overlap, predicted, gold, bootstrap)


def _best(
    name: str, metric: Callable[[str, str], float], predicted: Sequence[str], gold: Golds, bootstrap: int
) -> Score:
    """The mean over the questions of the best over their gold answers."""
    check_paired(len(predicted), len(gold), "answers")
    values = np.empty(len(gold))
    for place, (text, golds) in enumerate(zip(predicted, gold, strict=True)):
        assert not isinstance(golds, str), "a list of gold answers for each question, not one text"
        real = [clean for each in golds if (clean := normalised(each))]
        values[place] = max(metric(normalised(text), each) for each in real or [""])
    signature = "squad:2.0|gold:best"
    return scored([name], lambda rows: values[rows].mean(), len(gold), signature=signature, bootstrap=bootstrap)[0]


def _same(predicted: str, gold: str) -> float:
    return float(predicted == gold)


def _overlap(predicted: str, gold: str) -> float:
    ours, theirs = predicted.split(), gold.split()
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))
