"""Attention equals torch's own, its two twins equal each other, and both equal the formula written out."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from regard.layers.attention import MIDDLING, MultiHeadAttention, attend, fused, local, readable, repeat_heads
from regard.layers.dropout import Dropout
from regard.layers.mask import Mask
from regard.layers.position import RotaryPosition

CLOSE = {"rtol": 0.0, "atol": 1e-5}


# --- equal to torch.nn.MultiheadAttention ---------------------------------------------------------------------------


def make_pair(*, bias: bool = True, d_model: int = 24, n_heads: int = 3) -> tuple[MultiHeadAttention, nn.Module]:
    """Ours, and torch's with the same weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(d_model, n_heads, qkv_bias=bias, out_bias=bias).eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        theirs.out_proj.weight.copy_(ours.o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
            theirs.out_proj.bias.copy_(ours.o.bias)
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_equals_torchs(bias: bool, causal: bool, padded: bool) -> None:
    ours, theirs = make_pair(bias=bias)
    x = torch.randn(3, 7, 24)
    valid = torch.arange(7) < torch.tensor([[7], [4], [1]]) if padded else None
    closed = ~torch.ones(7, 7).tril().bool() if causal else None
    mask = Mask(causal=causal, valid=valid)
    out = theirs(
        x, x, x, attn_mask=closed, key_padding_mask=None if valid is None else ~valid, average_attn_weights=False
    )
    assert_close(ours(*ours.project(x), mask), out[0], **CLOSE)
    _, weights = readable(ours.queries(x), *ours.keys_values(x), mask, scale=ours.scale)
    assert_close(weights, out[1], **CLOSE)


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_equals_torchs(padded: bool) -> None:
    ours, theirs = make_pair()
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 9, 24)
    valid = torch.arange(9) >= torch.tensor([[0], [6]]) if padded else None
    out, _ = theirs(x, memory, memory, key_padding_mask=None if valid is None else ~valid)
    assert_close(ours(ours.queries(x), *ours.keys_values(memory), Mask(valid=valid)), out, **CLOSE)


def test_gradients_equal_torchs() -> None:
    ours, theirs = make_pair()
    x, target = torch.randn(2, 6, 24), torch.randn(2, 6, 24)
    closed = ~torch.ones(6, 6).tril().bool()
    (ours(*ours.project(x), Mask(causal=True)) * target).sum().backward()
    (theirs(x, x, x, attn_mask=closed)[0] * target).sum().backward()
    assert_close(torch.cat([p.weight.grad for p in (ours.q, ours.k, ours.v)]), theirs.in_proj_weight.grad, **CLOSE)
    assert_close(ours.o.weight.grad, theirs.out_proj.weight.grad, **CLOSE)


# --- the twins, and the formula (P6) --------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Queries, keys and values of any kind of heads, with any rules; random numbers by seed."""
    rows, groups, sharing = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    n_queries, n_keys, width = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.sampled_from([1, 4, 8]))
    heads = groups * sharing
    beside = n_queries <= n_keys  # causal and window speak of places: the last query stands where the last key does
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    size = draw(st.sampled_from([0.3, 1.0, 2.0]))

    def rand(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    valid = None
    if draw(st.booleans()):
        flags = st.lists(st.booleans(), min_size=n_keys, max_size=n_keys)
        valid = torch.tensor(draw(st.lists(flags, min_size=rows, max_size=rows)))
    return {
        "q": rand(rows, heads, n_queries, width) * size,
        "k": rand(rows, groups, n_keys, width),
        "v": rand(rows, groups, n_keys, width),
        "scale": draw(st.sampled_from([1.0, width**-0.5])),
        "bias": rand(draw(st.sampled_from([1, rows])), heads, n_queries, n_keys) if draw(st.booleans()) else None,
        "rules": {
            "causal": beside and draw(st.booleans()),
            "valid": valid,
            "window": draw(st.none() | st.integers(1, 3)) if beside else None,
        },
    }


def written_out(q: Tensor, k: Tensor, v: Tensor, *, scale: float, bias: Tensor | None, rules: Any) -> Tensor:
    """The definition, one query at a time: exp(score) over the sum of exp(score), times the values."""
    rows, heads, n_queries, _ = q.shape
    n_keys, sharing = k.size(2), heads // k.size(1)
    out = torch.zeros(rows, heads, n_queries, v.size(-1), dtype=torch.float64)
    for b in range(rows):
        for h in range(heads):
            for t in range(n_queries):
                place = t + n_keys - n_queries
                scores = {}
                for s in range(n_keys):
                    far = rules["window"] is not None and abs(place - s) > rules["window"]
                    late = rules["causal"] and s > place
                    padding = rules["valid"] is not None and not rules["valid"][b, s]
                    if not (far or late or padding):
                        scores[s] = float(q[b, h, t] @ k[b, h // sharing, s]) * scale
                        scores[s] += 0.0 if bias is None else float(bias[b % len(bias), h, t, s])
                top = max(scores.values(), default=0.0)
                total = sum(math.exp(score - top) for score in scores.values())
                for s, score in scores.items():
                    out[b, h, t] += math.exp(score - top) / total * v[b, h // sharing, s]
    return out


@settings(max_examples=80)
@given(problems())
def test_both_twins_equal_the_formula_written_out(problem: dict[str, Any]) -> None:
    expected = written_out(**problem)
    rules, scale = problem.pop("rules"), problem.pop("scale")
    exact, weights = readable(**problem, mask=Mask(**rules), scale=scale)
    assert_close(exact, expected, rtol=0.0, atol=1e-12)
    single = {name: None if x is None else x.float() for name, x in problem.items()}
    ours, _ = readable(**single, mask=Mask(**rules), scale=scale)
    theirs = fused(**single, mask=Mask(**rules), scale=scale)
    assert_close(ours, theirs, **CLOSE)
    assert_close(theirs.double(), expected, **CLOSE)
    sums = weights.sum(-1)
    assert ((sums - 1).abs() < 1e-12).logical_or(sums == 0).all()


@pytest.mark.parametrize("n_kv_heads", [6, 3, 2, 1])
def test_grouped_heads_are_full_heads_whose_keys_repeat(n_kv_heads: int) -> None:
    torch.manual_seed(0)
    grouped = MultiHeadAttention(24, 6, n_kv_heads=n_kv_heads).eval()
    full = MultiHeadAttention(24, 6).eval()
    with torch.no_grad():
        for name in ("q", "o"):
            getattr(full, name).load_state_dict(getattr(grouped, name).state_dict())
        for name in ("k", "v"):
            few, many = getattr(grouped, name), getattr(full, name)
            repeat = 6 // n_kv_heads
            many.weight.copy_(few.weight.view(n_kv_heads, 4, 24).repeat_interleave(repeat, 0).view(24, 24))
            many.bias.copy_(few.bias.view(n_kv_heads, 4).repeat_interleave(repeat, 0).view(24))
    x = torch.randn(2, 5, 24)
    mask = Mask(causal=True)
    assert_close(grouped(*grouped.project(x), mask), full(*full.project(x), mask), **CLOSE)


def test_repeated_heads_stand_beside_each_other() -> None:
    x = torch.randn(2, 2, 3, 4)
    assert torch.equal(repeat_heads(x, 6), x[:, [0, 0, 0, 1, 1, 1]])
    assert repeat_heads(x, 2) is x


# --- rows that may attend to nothing (P5) ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("twin", ["readable", "fused"])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(
    twin: str, with_bias: bool, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=dtype, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 3, 5, 5, dtype=dtype, requires_grad=True) if with_bias else None
    valid = torch.tensor([[False] * 5, [False, False, True, True, True]])
    mask = Mask(causal=True, valid=valid)  # row 0 sees nothing; in row 1 the first two queries see nothing
    attend: Any = fused if twin == "fused" else lambda *args, **options: readable(*args, **options)[0]
    out = attend(q, k, v, mask, scale=8**-0.5, bias=bias)
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    assert torch.equal(out[1, :, :2], torch.zeros_like(out[1, :, :2]))
    assert (out[1, :, 2:] != 0).any()
    out.float().square().sum().backward()
    for leaf in (q, k, v, bias):
        if leaf is not None:
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()
            assert leaf.grad.any()
    assert not q.grad[0].any()  # what was not used learns nothing


@pytest.mark.parametrize("twin", ["readable", "fused"])
def test_gradients_of_the_twins_agree(twin: str) -> None:
    torch.manual_seed(0)
    start = [torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(1, 4, 6, 6)]
    valid = torch.arange(6) < torch.tensor([[6], [3]])
    target = torch.randn(2, 4, 6, 8)

    def gradients(attend: Any, dtype: torch.dtype) -> list[Tensor]:
        q, k, v, bias = (x.to(dtype).requires_grad_() for x in start)
        (attend(q, k, v, Mask(causal=True, valid=valid), scale=0.5, bias=bias) * target).sum().backward()
        return [x.grad.float() for x in (q, k, v, bias)]

    def first(*args: Any, **options: Any) -> Tensor:
        return readable(*args, **options)[0]

    exact = gradients(first, torch.float64)
    for ours, theirs in zip(gradients(fused if twin == "fused" else first, torch.float32), exact, strict=True):
        assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("n_tokens", [5, MIDDLING + 8])
def test_what_bfloat16_learns_is_what_double_precision_learns_give_or_take_rounding(n_tokens: int) -> None:
    torch.manual_seed(0)
    start, target = [torch.randn(2, 2, n_tokens, 8) for _ in range(3)], torch.randn(2, 2, n_tokens, 8)

    def gradients(dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in start]
        out = attend(*leaves, Mask(causal=True), scale=0.5, bias=None, dropout=Dropout(0.0))  # type: ignore[misc]
        (out * target).sum().backward()
        return [x.grad.double() for x in leaves]  # type: ignore[union-attr]

    for ours, exact in zip(gradients(torch.bfloat16), gradients(torch.float64), strict=True):
        assert (ours - exact).norm() < 0.02 * exact.norm()


# --- scale, dropout, the lecture's table ----------------------------------------------------------------------------


def test_unscaled_attention_is_scaled_attention_with_larger_queries() -> None:
    torch.manual_seed(0)
    scaled, unscaled = MultiHeadAttention(16, 2).eval(), MultiHeadAttention(16, 2, scaled=False).eval()
    unscaled.load_state_dict(scaled.state_dict())
    assert (scaled.scale, unscaled.scale) == (8**-0.5, 1.0)
    x = torch.randn(2, 5, 16)
    before = unscaled(*unscaled.project(x), Mask())
    assert (before - scaled(*scaled.project(x), Mask())).abs().max() > 1e-3
    with torch.no_grad():
        unscaled.q.weight.mul_(8**-0.5)
        unscaled.q.bias.mul_(8**-0.5)
    assert_close(unscaled(*unscaled.project(x), Mask()), scaled(*scaled.project(x), Mask()), **CLOSE)


def test_three_words_as_in_the_lecture_score_over_eight_softmax_times_value_sum() -> None:
    """Heads are 64 wide there, so scores are divided by 8: the root of the head's width, not the number of words."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 64), torch.randn(3, 64), torch.randn(3, 64)  # Action, gets, results
    sums = []
    for word in range(3):
        scores = [float(q[word] @ k[other]) / 8 for other in range(3)]
        exponents = [math.exp(score) for score in scores]
        sums.append(sum(e / sum(exponents) * v[other] for other, e in enumerate(exponents)))
    attn = MultiHeadAttention(64, 1)
    ours, weights = readable(q[None, None], k[None, None], v[None, None], Mask(), scale=attn.scale)
    assert_close(ours[0, 0], torch.stack(sums), **CLOSE)
    assert_close(weights.sum(-1), torch.ones(1, 1, 3), **CLOSE)


@pytest.mark.parametrize("shift", [1, 7])
def test_with_rotary_positions_only_distances_count(shift: int) -> None:
    torch.manual_seed(0)
    attn, x = MultiHeadAttention(16, 2, n_kv_heads=1).eval(), torch.randn(1, 6, 16)
    rotary = RotaryPosition(8, 100.0, None)

    def run(places: Tensor) -> Tensor:
        rotation = rotary(places[None], x.dtype)
        return attn(*attn.project(x, rotation), Mask())

    here = run(torch.arange(6))
    assert_close(run(torch.arange(6) + shift), here, **CLOSE)
    assert (run(torch.arange(6) * 2) - here).abs().max() > 1e-3


def test_attention_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    attn = MultiHeadAttention(16, 2, dropout=0.5)
    x = torch.randn(1, 6, 16)
    still = attn.eval()(*attn.project(x), Mask())
    assert torch.equal(attn(*attn.project(x), Mask()), still)
    assert not torch.allclose(attn.train()(*attn.project(x), Mask()), still)


def test_garbage_of_any_size_in_closed_places_changes_nothing() -> None:
    torch.manual_seed(0)
    attn = MultiHeadAttention(16, 2, n_kv_heads=1).eval()
    x = torch.randn(2, 6, 16)
    valid = torch.tensor([[True, True, True, False, False, False], [False, False, True, True, True, True]])
    noisy = torch.where(valid[..., None], x, torch.randn_like(x) * 50)
    for mask in (Mask(valid=valid), Mask(valid=valid, causal=True), Mask(valid=valid, window=2)):
        ours, theirs = (attn(attn.queries(y), *attn.keys_values(y), mask)[valid] for y in (x, noisy))
        assert_close(ours, theirs, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 7, 90])
@pytest.mark.parametrize("padded", [False, True])
def test_a_window_in_pieces_is_the_window_as_a_mask_and_so_are_its_gradients(
    causal: bool, window: int, padded: bool
) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 401, 4, requires_grad=True) for heads in (4, 2, 2))
    valid = torch.arange(401) < torch.tensor([[401], [130]]) if padded else None
    mask = Mask(causal=causal, valid=valid, window=window)
    assert mask.is_narrow(401)
    ours, theirs = local(q, k, v, mask, scale=0.5), readable(q, k, v, mask, scale=0.5)[0]
    assert_close(ours, theirs, **CLOSE)
    wanted = [torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (ours, theirs)]
    for one, other in zip(*wanted, strict=True):
        assert_close(one, other, **CLOSE)


def test_a_window_while_decoding_reads_only_the_keys_that_some_row_may_see() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, n, 4) for n in (1, 100, 100))
    k[:, :, :40] = v[:, :, :40] = torch.nan  # before every window
    mask = Mask(causal=True, window=9, positions=torch.tensor([[90], [50]]))
    ours = local(q, k, v, mask, scale=0.5)
    assert_close(ours, readable(q, k.nan_to_num(), v.nan_to_num(), mask, scale=0.5)[0], **CLOSE)


@pytest.mark.parametrize("n_keys", [1, 3, 65, 130])
@pytest.mark.parametrize("rules", [{}, {"causal": True}, {"window": 2}])
@pytest.mark.parametrize("broken", ["q", "k", "v"])
def test_nan_is_never_taken_for_nothing_to_attend_to(n_keys: int, rules: dict[str, Any], broken: str) -> None:
    torch.manual_seed(0)
    given = {name: torch.randn(2, 2, n_keys, 8) for name in "qkv"}
    given[broken][..., 0] = torch.nan
    with torch.no_grad():
        out = attend(*given.values(), Mask(**rules), scale=0.5, bias=None, dropout=Dropout(0.0))
    assert out.isnan().any(-1).all()
