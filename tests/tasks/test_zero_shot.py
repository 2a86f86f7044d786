"""The likelihood of a label is the model's own, whatever is shared, cached, batched or cut to find it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.refusal import refused
from regard.tasks import zero_shot as module
from regard.tasks.generator import Generator
from regard.tasks.zero_shot import ZeroShot, zero_shot
from tasks.generators import generator

LABELS = ["mesa", "a casa é grande", "livro", "the table", "is", "on the table is small"]
TEMPLATE = "O livro {text} é {label}"
TEXTS = ["da mesa", "", "The house is big and the table is small", "a"]


@pytest.fixture(scope="module")
def generate() -> Generator:
    return generator(chat=None)


def sums_of(generate: Generator, text: str) -> list[float]:
    """The log-probability of all that a label adds to its prompt, read whole and without a state."""
    found = []
    for label in LABELS:
        bare = generate.tokenizer.encode(f"O livro {text} é").ids[:-1]  # without the end that the vocabulary puts there
        whole = generate.tokenizer.encode(f"O livro {text} é {label}").ids
        assert whole[: len(bare)] == bare
        with torch.no_grad():
            scores = generate.model(torch.tensor([whole])).logits[0].log_softmax(-1)
        found.append(sum(float(scores[i - 1, whole[i]]) for i in range(len(bare), len(whole))))
    return found


def softmax(values: list[float]) -> list[float]:
    return torch.tensor(values).softmax(-1).tolist()


def test_scores_are_the_model_s_own_whichever_way_labels_are_compared(generate: Generator) -> None:
    prior = sums_of(generate, "")
    n_tokens = [len(generate.tokenizer.encode(f"é {label}").ids) - 1 for label in LABELS]
    for by in ("sum", "length", "prior"):
        ours = ZeroShot(generate, LABELS, TEMPLATE, by=by)(TEXTS)  # type: ignore[arg-type]
        for text, found in zip(TEXTS, ours, strict=True):
            sums = sums_of(generate, text)
            expected = {
                "sum": sums,
                "length": [total / n for total, n in zip(sums, n_tokens, strict=True)],
                "prior": [total - before for total, before in zip(sums, prior, strict=True)],
            }
            assert list(found.scores) == LABELS
            assert list(found.scores.values()) == pytest.approx(softmax(expected[by]), abs=1e-5)


def test_an_empty_text_says_nothing(generate: Generator) -> None:
    found = zero_shot(generate, "", LABELS, TEMPLATE)
    assert list(found.scores.values()) == pytest.approx([1 / len(LABELS)] * len(LABELS), abs=1e-6)


def test_neither_mates_nor_small_portions_change_a_score(generate: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [zero_shot(generate, text, LABELS, TEMPLATE).scores for text in TEXTS]
    for tokens, scores in ((1024, 256), (30, 256), (1024, 12), (1, 1)):
        monkeypatch.setattr(module, "BATCH_TOKENS", tokens)
        monkeypatch.setattr(module, "BATCH_SCORES", scores)
        heard: list[int] = []
        together = ZeroShot(generate, LABELS, TEMPLATE)(TEXTS, first=5, heard=heard.append)
        assert heard[-1] == 4 + len(TEXTS)
        for mine, other in zip(together, alone, strict=True):
            assert mine.scores == pytest.approx(other, abs=1e-5)


def test_a_prompt_is_read_once_for_all_labels(generate: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, ...]] = []
    step = generate.model.step
    monkeypatch.setattr(generate.model, "step", lambda ids, *rest: steps.append(tuple(ids.shape)) or step(ids, *rest))
    ZeroShot(generate, LABELS, TEMPLATE, by="sum")(["da mesa"])
    assert len(steps) == 1
    assert steps[0][0] == 1


@pytest.mark.parametrize("text", ["The house is big and the table is small. " * 20, "é" * 300, "😀" * 300, " " * 400])
def test_of_a_text_that_is_too_long_the_end_is_cut_off(generate: Generator, text: str) -> None:
    classify = ZeroShot(generate, LABELS, TEMPLATE)
    ids, longest = classify._prompt(text), max(map(len, classify._tokens))
    assert len(ids) + longest <= generate.model.config.max_len
    if not text.isspace():  # this vocabulary drops them
        assert len(ids) + longest > generate.model.config.max_len - 4
    begin = generate.tokenizer.encode(f"O livro {text[:20]}", special=False).ids[:8]
    assert ids[:6] == begin[:6]
    assert classify([text])[0].label in LABELS


@settings(max_examples=50)
@given(st.text(max_size=300))
def test_any_text_has_a_prompt_that_fits(generate: Generator, text: str) -> None:
    classify = ZeroShot(generate, LABELS, TEMPLATE)
    assert len(classify._prompt(text)) + max(map(len, classify._tokens)) <= generate.model.config.max_len


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"labels": ["a"]}, "there are not two different labels"),
        ({"labels": ["a", " a "]}, "there are not two different labels"),
        ({"labels": ["a", " "]}, "a label is empty"),
        ({"labels": "ab"}, "one label was given"),
        ({"template": "{text}"}, "does not ask for a label"),
        ({"template": "{label}: {text}"}, "does not ask for a label"),
        ({"template": "{text} is {label}."}, "does not ask for a label"),
        ({"template": "{text} and {text}: {label}"}, "names a place twice"),
        ({"template": "mesa " * 200 + "{text}{label}"}, "too long for the model"),
        ({"by": "luck"}, "unknown way to compare labels: 'luck'"),
    ],
    ids=str,
)
def test_mistakes_say_what_to_write(generate: Generator, options: dict[str, Any], error: str) -> None:
    given: dict[str, Any] = {"labels": LABELS} | options
    with refused(error):
        ZeroShot(generate, **given)(["a"])
