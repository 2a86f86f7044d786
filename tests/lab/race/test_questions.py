"""Each question's measure, on cases that are known by hand or by definition."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.lab.race import copying, cost, gradient, limits, parts, rank
from regard.lab.race.fit import Slope
from regard.lab.race.racers import KEPT, LOCAL, LOOKING, RACERS, RNN, TRANSFORMER, Racer, Size, config_of, tokens
from regard.lab.race.setting import Setting

SIZE = Size(width=8, n_heads=2, window=3)


def racer(name: str) -> Racer:
    return Racer(name, config_of(name, SIZE), seed=0)


# ---- cost


def test_all_racers_have_one_width_depth_and_vocabulary() -> None:
    configs = [config_of(name, SIZE) for name in (*RACERS, KEPT)]
    assert {(each.d_model, each.n_layers, each.vocab_size) for each in configs} == {(8, 2, 32)}


def test_what_is_kept_for_the_way_back_is_counted_once_and_without_the_weights() -> None:
    layer, x = nn.Linear(3, 5, bias=False), torch.randn(7, 3, requires_grad=True)
    count = cost.kept_bytes(layer, lambda: (layer(x) * layer(x)).sum().backward())
    # the input (7 x 3) for both products, each output (7 x 5) for the other's gradient
    assert count == 4 * (7 * 3 + 2 * 7 * 5)


@pytest.mark.parametrize("name", [*RACERS, KEPT])
def test_memory_that_the_next_token_needs_is_what_the_formula_says(name: str) -> None:
    row = cost.measure(racer(name), 128, Setting(size=SIZE))
    number, n, d = 4, 128 + cost.NEW + 1, 8
    wanted = {
        RNN: number * 2 * d,  # h of two layers
        "lstm": number * 2 * 2 * d,  # and c
        LOOKING: number * (2 * d + 2 * 128 * d),  # keys and values of the source
        TRANSFORMER: number * 2 * 2 * n * d,
        KEPT: number * 2 * 2 * n * d,
        LOCAL: number * 2 * 2 * 3 * d,  # those in the window
    }
    assert row["state"] == wanted[name]
    assert len(row["training"]) == cost.ROUNDS
    assert min(*row["training"], *row["writing"]) > 0


def test_the_weights_of_attention_are_kept_only_without_the_fused_kernel_and_never_beyond_a_window() -> None:
    kept = {name: [cost.measure(racer(name), n, Setting(size=SIZE))["kept"] for n in (256, 512)]
            for name in (TRANSFORMER, LOCAL, KEPT)}  # fmt: skip
    growth = {name: math.log2(long / short) for name, (short, long) in kept.items()}
    assert growth[TRANSFORMER] == pytest.approx(1, abs=0.05)
    assert growth[LOCAL] == pytest.approx(1, abs=0.05)
    assert growth[KEPT] == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("value", "word"),
    [(-0.5, "constant"), (0.9, "linear"), (1.5, "between linear and quadratic"), (3.0, "steeper than quadratic")],
)
def test_an_exponent_is_called_by_its_name(value: float, word: str) -> None:
    assert cost.verdict(Slope(value, value, value)) == word


def test_a_rounds_time_is_expected_to_grow_as_it_grew() -> None:
    assert cost.expected([0.0, 1.0]) == 5.0
    assert cost.expected([0.0, 1.0, 3.0]) == 9.0
    assert cost.expected([0.0, 1.0, 1.0]) == 2.0


# ---- gradients


def test_gradients_fade_grow_or_end_as_the_wiring_says() -> None:
    setting = Setting(size=SIZE)
    ids = tokens(4, 66, SIZE, seed=0)
    found = {name: gradient.norms(gradient.racer_of(name, setting), ids).mean(0)
             for name in (RNN, gradient.LARGE, LOCAL, TRANSFORMER)}  # fmt: skip
    assert found[RNN][60] < 1e-6 * found[RNN][1]
    assert found[gradient.LARGE][60] > 100 * found[RNN][60]
    reach = SIZE.n_layers * SIZE.window
    assert found[LOCAL][reach] > 0
    assert found[LOCAL][reach + 1 :].abs().max() == 0
    assert found[TRANSFORMER].min() > 0


# ---- copying


def test_what_is_asked_for_stands_in_the_text_once_as_far_back_as_was_asked() -> None:
    names, values = copying.NAMES, copying.VALUES
    for back in (1, 7, 40):
        ids, answers = copying.texts(30, 40, seed=back, back=back)
        text, asked = ids[:, :-1], ids[:, -1] - names * values
        assert ((asked >= 0) & (asked < names)).all()
        assert ((text // values == asked[:, None]) & (text < copying.NOISE)).sum(1).eq(1).all()
        there = text[:, -back]
        assert torch.equal(there // values, asked)
        assert torch.equal(there % values, answers[:, -1])
        assert (answers[:, :-1] == -1).all()


def test_any_symbol_of_a_text_may_be_asked_for_and_short_texts_are_symbols_only() -> None:
    ids, answers = copying.texts(200, 3, seed=0)
    assert ids.shape == answers.shape == (200, 3 + copying.QUESTIONS)
    assert (ids[:, :3] < copying.NAMES * copying.VALUES).all()
    asked = ids[:, 3:] - copying.NAMES * copying.VALUES
    places = (ids[:, None, :3] // copying.VALUES == asked[..., None]).long().argmax(-1)
    assert set(places.flatten().tolist()) == {0, 1, 2}
    assert torch.equal(ids[:, :3].gather(1, places) % copying.VALUES, answers[:, 3:])


def test_every_distance_is_met_and_none_beyond() -> None:
    found = {copying.drawn(0, step, 16) for step in range(2_000)}
    assert found == set(range(1, 17))


def test_reach_ends_before_the_first_distance_that_is_not_copied() -> None:
    assert copying.reach({1: 1.0, 2: 0.85, 4: 0.5, 8: 1.0}) == 2
    assert copying.reach({1: 0.5, 2: 1.0}) == 0


# ---- rank


def test_tokens_that_are_all_the_same_are_not_apart_and_have_rank_one() -> None:
    same = torch.ones(6, 1) @ torch.randn(1, 4)
    assert rank.apart(same) == pytest.approx(0, abs=1e-6)
    assert rank.effective_rank(same) == pytest.approx(1, abs=1e-3)


def test_orthogonal_tokens_have_full_rank_and_opposite_ones_are_all_apart() -> None:
    assert rank.effective_rank(torch.eye(5)) == pytest.approx(5)
    assert rank.apart(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])) == pytest.approx(1)
    # two equal singular values of three: exp(log 2)
    assert rank.effective_rank(torch.diag(torch.tensor([3.0, 3.0, 0.0]))) == pytest.approx(2)


def test_attention_alone_loses_rank_with_depth_and_with_a_residual_it_does_not() -> None:
    rows = {row["way"]: row["apart"] for row in rank.ask(Setting())}
    alone, both = rows["attention alone"], rows["with both"]
    assert alone[-1] < rank.GONE
    assert both[-1] > 1_000 * alone[-1]
    assert all(later <= earlier for earlier, later in pairwise(alone[:5]))


# ---- parts


@pytest.mark.parametrize("n", [2, 7, 64])
def test_the_entropy_of_even_attention_is_log_n_and_of_one_key_nothing(n: int) -> None:
    assert parts.entropy(torch.full((3, n), 1 / n)) == pytest.approx(math.log(n), rel=1e-5)
    assert parts.entropy(torch.eye(n)) == 0


def test_without_the_square_root_wide_heads_start_nearly_one_hot() -> None:
    rows = list(parts.ask_entropy(Setting()))
    roots, bare = ([row[name] for row in rows] for name in ("with root", "without"))
    assert max(roots) - min(roots) < 0.05  # whatever the width of a head
    assert all(later < earlier for earlier, later in pairwise(bare))
    assert bare[-1] < 0.1 * roots[-1]


def test_what_stood_before_is_told_as_one_number() -> None:
    ids, answers = parts.look_back(3, seed=0)
    for row in range(3):
        for t in range(parts.TEXT):
            wanted = -1 if t < 3 else int(ids[row, t - 1]) * 4 + int(ids[row, t - 3])
            assert answers[row, t] == wanted


@pytest.mark.parametrize(("residual", "norm"), [(False, True), (True, False), (True, True)])
def test_parts_that_are_taken_out_are_gone_from_every_block(residual: bool, norm: bool) -> None:
    found = racer(TRANSFORMER)
    before = found.model.n_parameters
    parts.take_out(found, residual=residual, norm=norm)
    norms = 2 * 8 * (2 * SIZE.n_layers + 1)
    assert found.model.n_parameters == before - (norms if norm else 0)
    around = found.model.decoder.blocks[1].ffn_residual
    x = torch.randn(1, 2, 8)
    assert torch.equal(around(x, torch.zeros_like), torch.zeros_like(x) if residual else x)


# ---- limits


def test_parity_and_open_brackets_are_those_counted_by_hand() -> None:
    bits, odd = limits.parity(20, 9, 3)
    assert all(int(odd[r, t]) == int(bits[r, : t + 1].sum()) % 2 for r in range(20) for t in range(9))
    ids, innermost = limits.brackets(40, 12, 3)
    for row, answers in zip(ids.tolist(), innermost.tolist(), strict=True):
        stack: list[int] = []
        for token, answer in zip(row, answers, strict=True):
            if token < 2:
                stack.append(token)
            else:
                assert stack.pop() == token - 2  # always well nested
            assert answer == (stack[-1] if stack else 2)


def test_path_lengths_are_those_of_the_paper() -> None:
    assert list(limits.paths(16, window=4, kernel=3).values()) == [1, 4, 8, 3, 15]
    assert list(limits.paths(2, window=4, kernel=3).values()) == [1, 1, 1, 1, 1]


def test_a_stack_of_local_attention_reaches_as_far_as_its_path_says() -> None:
    """One token farther and the path is longer than the stack is deep."""
    farthest = SIZE.n_layers * SIZE.window + 1
    name = f"local attention, window {SIZE.window}"
    assert limits.paths(farthest, SIZE.window)[name] == SIZE.n_layers
    assert limits.paths(farthest + 1, SIZE.window)[name] == SIZE.n_layers + 1
    found = gradient.norms(gradient.racer_of(LOCAL, Setting(size=SIZE)), tokens(1, farthest + 1, SIZE, seed=0))[0]
    assert [bool(norm) for norm in found] == [True] * farthest + [False]


def test_a_local_racer_writes_what_it_reads_though_both_ways_cut_the_window_out() -> None:
    found = racer(LOCAL).model.eval()
    ids = tokens(2, 150, SIZE, seed=1)
    state, scores = found.new_state(2, 150), []
    with torch.inference_mode():
        for token in ids.split(1, dim=1):
            scores.append(found.step(token, state))
        torch.testing.assert_close(torch.stack(scores, dim=1), found(ids).logits, rtol=0, atol=1e-5)
