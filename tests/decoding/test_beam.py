"""Beam search finds what it says it finds: against greedy search, against a second reading, against all texts."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding.writers import ALL, END, ENDS, VOCAB, Retold, Writer, every_text, writer
from regard.decoding.beam import BeamSettings, Hypothesis, beam_search
from regard.decoding.search import DONE, Prefix, greedy
from regard.errors import UserError

LIMIT = 8
TEXTS = every_text(5, 4)


def search(
    w: Writer, *, limit: int | list[int] = LIMIT, prefix: Prefix = (), **settings: Any
) -> list[list[Hypothesis]]:
    state, ends = w.state(limit if isinstance(limit, int) else max(limit)), w.model.config.eos_ids
    wanted = BeamSettings(**settings)
    return beam_search(w.model.step, state, w.start, wanted, limit=limit, end_ids=ends, prefix=prefix)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_of_one_is_greedy_search(name: str, seed: int) -> None:
    w = writer(name, 8, seed=seed)
    with torch.no_grad():
        steps = list(greedy(w.model.step, w.state(LIMIT), w.start[:, None], limit=LIMIT, end_ids=ENDS))
    ours = [tuple(id for id in row if id != DONE) for row in torch.stack(steps, 1).tolist()]
    found = search(w, beams=1)
    assert [each[0].ids for each in found] == ours
    assert [each[0].reason for each in found] == ["end" if ids[-1] in ENDS else "limit" for ids in ours]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0])
def test_scores_are_the_log_probabilities_of_a_second_reading(name: str, penalty: float) -> None:
    w = writer(name, 5)
    for row, found in enumerate(search(w, n_best=4, length_penalty=penalty)):
        assert len({each.ids for each in found}) == 4
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        for each in found:
            again = w.log_probs(row, each.ids)
            assert each.log_probabilities == pytest.approx(again, abs=1e-4)
            assert each.log_probability == pytest.approx(math.fsum(again), abs=1e-4)
            assert each.score == pytest.approx(math.fsum(again) / len(each.ids) ** penalty, abs=1e-4)


@settings(max_examples=25)
@given(
    name=st.sampled_from(ALL),
    seed=st.integers(0, 2**16),
    penalty=st.sampled_from([-1.0, -0.3, 0.0, 0.6, 1.0, 2.0]),
    n_best=st.integers(1, 6),
)
def test_a_wide_beam_finds_the_best_of_all_texts(name: str, seed: int, penalty: float, n_best: int) -> None:
    w = writer(name, 2, seed=seed, vocab=5)
    found = search(w, limit=4, beams=4**4 * 5, length_penalty=penalty, n_best=n_best)
    for row in range(2):
        totals = w.totals(row, TEXTS)
        scores = {text: total / len(text) ** penalty for text, total in zip(TEXTS, totals, strict=True)}
        best = sorted(scores.values(), reverse=True)[:n_best]
        assert [each.score for each in found[row]] == pytest.approx(best, abs=1e-4)
        assert [scores[each.ids] for each in found[row]] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_loses_nothing(penalty: float, n_best: int) -> None:
    """The same search without an end in sight: it keeps ended texts by itself and never stops before the limit."""
    for seed in range(10):
        w = writer("gru dot", 4, seed=seed)
        early = search(w, limit=12, beams=3, length_penalty=penalty, n_best=n_best)
        late = search(w, limit=12, beams=3, length_penalty=penalty, n_best=10_000)
        assert [[each.ids for each in found] for found in early] == [
            [each.ids for each in found[:n_best]] for found in late
        ]


def test_a_longer_text_that_becomes_better_late_is_waited_for() -> None:
    """The end has the probability 0.6 at once; whoever goes on is sure of every further word."""
    go, end, sure = 1, END, 40.0

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        first = torch.tensor([0.6, 0.2, 0.1, 0.1]).log()
        later = torch.tensor([-sure, sure, -sure, -sure])
        return torch.where((ids == 3), first, later)

    state, start = Retold(None, torch.zeros(1, 1), torch.ones(1, 1).bool()), torch.tensor([3])
    best = beam_search(step, state, start, BeamSettings(beams=2), limit=10, end_ids=[end])[0][0]
    assert best.ids == (go,) * 10
    assert best.score == pytest.approx(math.log(0.2) / 10, abs=1e-5)
    hasty = beam_search(step, state, start, BeamSettings(beams=2, exact=False), limit=10, end_ids=[end])[0][0]
    assert hasty.ids == (end,)


def test_empty_places_in_the_beam_are_no_hypotheses() -> None:
    (found,) = search(writer("gru dot", 1), limit=1, n_best=50, prefix=[[4]])
    assert [each.ids for each in found] == [(4,)]


@pytest.mark.parametrize("name", ALL)
def test_remembering_and_computing_again_find_the_same(name: str) -> None:
    w = writer(name, 6)
    settings, state = BeamSettings(beams=4, n_best=4), Retold(w.model, w.src, w.valid)
    ours = search(w, beams=4, n_best=4)
    again = beam_search(Retold.step, state, w.start, settings, limit=LIMIT, end_ids=ENDS)
    for found, other in zip(ours, again, strict=True):
        assert [each.ids for each in found] == [each.ids for each in other]
        assert [each.score for each in found] == pytest.approx([each.score for each in other], abs=1e-4)


@pytest.mark.parametrize("name", ["transformer", "bart", "t5", "lstm additive"])
def test_batches_of_1_7_and_64_find_the_same_unless_the_best_two_are_as_good(name: str) -> None:
    w = writer(name, 64)
    close = 0
    together = search(w, n_best=2)
    assert len({found[0].ids for found in together}) > 20  # there is something to confuse
    rows = torch.arange(64)
    for size in (1, 7):
        for part in rows.split(size):
            found = search(Writer(w.model, w.src[part], w.valid[part]), n_best=2)
            for row, ours in zip(part.tolist(), found, strict=True):
                best, second = together[row]
                if ours[0].ids != best.ids:
                    assert best.score - second.score < 1e-3
                    close += 1
    assert close <= 1


def test_sentences_leave_the_batch_when_they_are_over_and_nobody_notices() -> None:
    w = writer("transformer", 16, seed=3)
    sizes = []

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        sizes.append(len(ids))
        return w.model.step(ids, state, valid)

    limits = [1 + row % 8 for row in range(16)]
    settings = BeamSettings(beams=3, length_penalty=0.0)
    found = beam_search(step, w.state(8), w.start, settings, limit=limits, end_ids=ENDS)
    assert sizes[0] == 16
    assert sizes[1:] == sorted(sizes[1:], reverse=True)
    assert sizes[-1] < sizes[1]
    for row, limit in enumerate(limits):
        alone = search(w.alone(row), limit=limit, beams=3, length_penalty=0.0)[0][0]
        assert found[row][0].ids == alone.ids
        assert len(alone.ids) <= limit


def test_a_limit_for_each_sentence_does_not_depend_on_its_mates() -> None:
    w = writer("gru dot", 4)
    limits = [2, 7, 3, 5]
    found = search(w, limit=limits)
    for row, limit in enumerate(limits):
        assert found[row][0].ids == search(w.alone(row), limit=limit)[0][0].ids


@pytest.mark.parametrize("name", ["transformer", "lstm additive"])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_forced_prefix_begins_the_text_and_counts(name: str, beams: int) -> None:
    w = writer(name, 3)
    prefix: list[list[int]] = [[4, 7], [], [2]]
    found = search(w, beams=beams, prefix=prefix)
    for row, begin in enumerate(prefix):
        best = found[row][0]
        assert list(best.ids[: len(begin)]) == begin
        assert best.log_probability == pytest.approx(math.fsum(w.log_probs(row, best.ids)), abs=1e-4)
    assert found[1][0].ids == search(w, beams=beams)[1][0].ids


def test_greedy_search_takes_a_prefix_too() -> None:
    w = writer("transformer", 3)
    prefix: list[list[int]] = [[4, 7], [], [2]]
    with torch.no_grad():
        steps = greedy(w.model.step, w.state(8), w.start[:, None], limit=8, end_ids=ENDS, prefix=prefix)
        rows = torch.stack(list(steps), 1).tolist()
    ours = [tuple(id for id in row if id != DONE) for row in rows]
    assert ours == [each[0].ids for each in search(w, beams=1, prefix=prefix)]


def test_a_prefix_that_ends_is_the_whole_text() -> None:
    assert search(writer("gru dot", 1), prefix=[[3, END]])[0][0].ids == (3, END)


def test_the_best_of_all_texts_with_a_prefix_is_found() -> None:
    w = writer("transformer", 1, vocab=5)
    scores = {text: math.fsum(w.log_probs(0, text)) / len(text) for text in TEXTS if text[0] == 2}
    best = search(w, limit=4, beams=400, prefix=[[2]])[0][0]
    assert best.score == pytest.approx(max(scores.values()), abs=1e-4)


def test_the_limit_is_a_reason() -> None:
    for found in search(writer("rnn", 5), limit=1, n_best=3):
        assert {each.reason for each in found if each.ids[0] not in ENDS} == {"limit"}
        assert {len(each.ids) for each in found} == {1}


def test_no_sentences_give_no_results() -> None:
    nobody = torch.zeros(0, dtype=torch.long)
    assert beam_search(Retold.step, None, nobody, BeamSettings(), limit=3, end_ids=ENDS) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("t", [0, 1])
def test_damaged_scores_are_an_error_not_a_text(value: float, t: int) -> None:
    w = writer("rnn", 2)

    def broken(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores = w.model.step(ids, state, valid)
        scores[-1, 3] = value if int(state.lengths[0]) > t else 0.0
        return scores

    with pytest.raises(UserError, match="give no number"):
        beam_search(broken, w.state(4), w.start, BeamSettings(beams=2), limit=4, end_ids=ENDS)


def test_a_silenced_word_is_no_damage() -> None:
    w = writer("rnn", 2)

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores = w.model.step(ids, state, valid)
        scores[:, [0, 3, 4]] = -torch.inf
        return scores

    found = beam_search(step, w.state(4), w.start, BeamSettings(n_best=4), limit=4, end_ids=(), prefix=[[5], []])
    assert not {0, 3, 4} & {id for each in found for one in each for id in one.ids}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, "a beam of 0"),
        ({"n_best": 0}, "the 0 best"),
        ({"limit": 0}, "limit is below 1"),
        ({"length_penalty": math.nan}, "length penalty"),
        ({"length_penalty": math.inf}, "length penalty"),
        ({"prefix": [[VOCAB]]}, f"token {VOCAB} does not exist"),
        ({"prefix": [[3, -1]]}, "token -1 does not exist"),
    ],
)
def test_senseless_wishes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        search(writer("rnn", 1), **options)
