"""The recurrence, its readable twins, the two attentions over a source, and the state."""

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from regard.errors import UserError
from regard.layers.recurrent import (
    NETS,
    AdditiveAttention,
    CellKind,
    DotAttention,
    Recurrence,
    RecurrentState,
    Source,
    gru_cell,
    lstm_cell,
    rnn_cell,
    weigh,
)

KINDS: list[CellKind] = ["rnn", "lstm", "gru"]
D_IN, D, LAYERS = 5, 6, 2
EXACT = {"rtol": 0.0, "atol": 1e-6}
CLOSE = {"rtol": 0.0, "atol": 1e-5}

kinds = st.sampled_from(KINDS)
seeds = st.integers(0, 2**16)
patterns = st.integers(1, 7).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1))
"Rows of real tokens and padding in any order, empty rows among them."


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """These tensors are too small to share; threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(kind: CellKind, *, bidirectional: bool = False, seed: int = 0, dropout: float = 0.0) -> Recurrence:
    torch.manual_seed(seed)
    net = Recurrence(kind, D_IN, D, LAYERS, dropout=dropout, bidirectional=bidirectional, learnt_start=True)
    assert net.start is not None
    nn.init.normal_(net.start)
    return net


def torch_state(net: Recurrence, batch: int) -> Tensor | tuple[Tensor, ...]:
    """The learnt start written out for PyTorch: (layers · directions, B, width) for h, and for c."""
    assert net.start is not None
    parts = tuple(
        torch.cat(
            [layer.chunk(net.directions)[way].expand(1, batch, -1) for layer in part for way in range(net.directions)]
        )
        for part in net.start
    )
    return parts if net.kind == "lstm" else parts[0]


class TestCells:
    def test_the_readable_rnn_equals_torch(self) -> None:
        theirs = nn.RNNCell(D_IN, D)
        x, h = torch.randn(3, D_IN), torch.randn(3, D)
        assert_close(rnn_cell(x, h, *theirs.parameters()), theirs(x, h), **EXACT)

    def test_the_readable_lstm_equals_torch(self) -> None:
        theirs = nn.LSTMCell(D_IN, D)
        x, h, c = torch.randn(3, D_IN), torch.randn(3, D), torch.randn(3, D)
        assert_close(lstm_cell(x, h, c, *theirs.parameters()), theirs(x, (h, c)), **EXACT)

    def test_the_readable_gru_equals_torch(self) -> None:
        theirs = nn.GRUCell(D_IN, D)
        x, h = torch.randn(3, D_IN), torch.randn(3, D)
        assert_close(gru_cell(x, h, *theirs.parameters()), theirs(x, h), **EXACT)

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_step_is_the_readable_cell_of_each_layer(self, kind: CellKind) -> None:
        net, x = make(kind), torch.randn(3, D_IN)
        carry = torch.randn(3, *net.shape)
        ours, expected = net.step(x, carry), []
        for layer, weights in enumerate(net.layers.all_weights):
            h = carry[:, 0, layer]
            if kind == "lstm":
                x, c = lstm_cell(x, h, carry[:, 1, layer], *weights)
                expected.append(torch.stack([x, c], dim=1))
            else:
                x = (rnn_cell if kind == "rnn" else gru_cell)(x, h, *weights)
                expected.append(x[:, None])
        assert_close(ours, torch.stack(expected, dim=2), **EXACT)


class TestRecurrence:
    @pytest.mark.parametrize("bidirectional", [False, True])
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_whole_text_equals_torch(self, kind: CellKind, bidirectional: bool) -> None:
        net, x = make(kind, bidirectional=bidirectional), torch.randn(3, 4, D_IN)
        width = D // 2 if bidirectional else D
        theirs = NETS[kind](D_IN, width, LAYERS, batch_first=True, bidirectional=bidirectional)
        theirs.load_state_dict(net.layers.state_dict())
        out, last = theirs(x, torch_state(net, 3))
        ours, carry = net(x)
        assert_close(ours, out, **EXACT)
        for part, expected in enumerate(last if kind == "lstm" else (last,)):
            assert_close(carry[:, part, -1], torch.cat(list(expected[-net.directions :]), dim=-1), **EXACT)

    @pytest.mark.parametrize("kind", KINDS)
    def test_steps_equal_the_whole_text(self, kind: CellKind) -> None:
        net, x = make(kind), torch.randn(3, 5, D_IN)
        out, last = net(x)
        carry = net.first(3)
        for t in range(5):
            carry = net.step(x[:, t], carry)
            assert_close(carry[:, 0, -1], out[:, t], **EXACT)
        assert_close(carry, last, **EXACT)

    @settings(max_examples=60)
    @given(kinds, st.booleans(), patterns, st.sampled_from([0.0, 50.0, math.nan]), seeds)
    def test_padding_anywhere_with_garbage_in_it_changes_nothing(
        self, kind: CellKind, bidirectional: bool, pattern: list[list[bool]], garbage: float, seed: int
    ) -> None:
        net, valid = make(kind, bidirectional=bidirectional, seed=seed), torch.tensor(pattern)
        x = torch.randn(*valid.shape, D_IN)
        out, last = net(torch.where(valid[..., None], x, x * garbage), valid=valid)
        assert not out[~valid].any()
        for row, real in enumerate(valid):
            if real.any():
                alone, carry = net(x[row : row + 1, real])
                assert_close(out[row, real], alone[0], **CLOSE)
                assert_close(last[row], carry[0], **CLOSE)
            else:
                assert_close(last[row], net.start, **EXACT)

    @pytest.mark.parametrize("kind", KINDS)
    def test_gradients_are_finite_whatever_the_padding_holds(self, kind: CellKind) -> None:
        net, valid = make(kind), torch.tensor([[False, True, True], [True, False, False], [False, False, False]])
        x = torch.full((3, 3, D_IN), math.nan).masked_fill(valid[..., None], 0.5).requires_grad_()
        out, last = net(x, valid=valid)
        (out.sum() + last.sum()).backward()
        assert x.grad is not None
        assert not x.grad[~valid].any()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())

    @pytest.mark.parametrize("padded", [False, True])
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient_reaches_the_learnt_start(self, kind: CellKind, padded: bool) -> None:
        net = make(kind, bidirectional=True)
        valid = torch.tensor([[False, True, True], [True, True, True]]) if padded else None
        net(torch.randn(2, 3, D_IN), valid=valid)[0].sum().backward()
        assert net.start is not None
        assert net.start.grad is not None
        assert net.start.grad.abs().min() > 0

    def test_without_a_learnt_start_the_first_state_is_zero(self) -> None:
        net = Recurrence("lstm", D_IN, D, LAYERS)
        assert net.start is None
        assert not net.first(2).any()

    @pytest.mark.parametrize("kind", KINDS)
    def test_mixed_precision_leaves_the_recurrence_exact(self, kind: CellKind) -> None:
        net, x = make(kind), torch.randn(2, 4, D_IN)
        exact, carry = net(x)
        with torch.autocast("cpu", torch.bfloat16):
            out, _ = net(x)
            step = net.step(x[:, 0], net.first(2))
        out.sum().backward()
        assert_close(out, exact, **EXACT)
        assert step.dtype == carry.dtype

    def test_dropout_acts_between_layers_in_both_paths(self) -> None:
        net, x = make("gru", dropout=0.5), torch.randn(2, 1, D_IN)
        assert not torch.equal(net(x)[0], net(x)[0])
        assert not torch.equal(net.step(x[:, 0], net.first(2)), net.step(x[:, 0], net.first(2)))
        net.eval()
        assert_close(net(x)[0][:, 0], net.step(x[:, 0], net.first(2))[:, 0, -1], **EXACT)


def source_of(attention: DotAttention | AdditiveAttention, states: Tensor, valid: Tensor) -> Source:
    return Source(states, attention.keys(states), valid)


def softmax_by_hand(scores: list[float]) -> list[float]:
    exponents = [math.exp(score - max(scores)) for score in scores]
    return [each / sum(exponents) for each in exponents]


class TestAttention:
    @pytest.mark.parametrize("kind", ["dot", "additive"])
    def test_attention_equals_the_formula_written_out(self, kind: str) -> None:
        torch.manual_seed(0)
        attention = (DotAttention() if kind == "dot" else AdditiveAttention(D)).double()
        q, states = torch.randn(2, 3, D, dtype=torch.float64), torch.randn(2, 4, D, dtype=torch.float64)
        valid = torch.tensor([[True, True, True, True], [False, True, True, False]])
        context, weights = attention(q, source_of(attention, states, valid))
        for b in range(2):
            real = [s for s in range(4) if valid[b, s]]
            for t in range(3):
                scores = [self._score(attention, q[b, t], states[b, s]).item() for s in real]
                by_hand = softmax_by_hand(scores)
                assert weights[b, t, real].tolist() == pytest.approx(by_hand, abs=1e-12)
                mean = sum(w * states[b, s] for w, s in zip(by_hand, real, strict=True))
                assert_close(context[b, t], mean, rtol=0.0, atol=1e-12)
            assert not weights[b, :, ~valid[b]].any()

    @staticmethod
    def _score(attention: DotAttention | AdditiveAttention, q: Tensor, k: Tensor) -> Tensor:
        if isinstance(attention, DotAttention):
            return (q * k).sum()
        return (attention.v.weight[0] * torch.tanh(attention.w.weight @ q + attention.u.weight @ k)).sum()

    def test_single_precision_stays_close_to_double(self) -> None:
        torch.manual_seed(0)
        attention, q, states = AdditiveAttention(D), torch.randn(2, 3, D), torch.randn(2, 4, D)
        valid = torch.ones(2, 4, dtype=torch.bool)
        ours = attention(q, source_of(attention, states, valid))
        attention = attention.double()
        exact = attention(q.double(), source_of(attention, states.double(), valid))
        assert_close(ours, tuple(each.float() for each in exact), **EXACT)

    @pytest.mark.parametrize("attention", [DotAttention(), AdditiveAttention(D)], ids=["dot", "additive"])
    def test_nothing_to_attend_to_gives_zeros_and_finite_gradients(self, attention: DotAttention) -> None:
        q, states = torch.randn(2, 3, D, requires_grad=True), torch.randn(2, 4, D, requires_grad=True)
        valid = torch.tensor([[True, True, False, False], [False] * 4])
        context, weights = attention(q, source_of(attention, states, valid))
        (context.sum() + weights.square().sum()).backward()
        assert not context[1].any()
        assert not weights[1].any()
        assert q.grad is not None
        assert states.grad is not None
        assert q.grad.isfinite().all()
        assert states.grad.isfinite().all()

    def test_a_source_without_tokens_gives_zeros(self) -> None:
        nothing = torch.zeros(2, 0, D)
        context, weights = weigh(torch.zeros(2, 3, 0), Source(nothing, nothing, nothing[..., 0].bool()))
        assert context.shape == (2, 3, D)
        assert weights.shape == (2, 3, 0)
        assert not context.any()


class TestState:
    @staticmethod
    def filled(lengths: list[int], max_len: int = 6) -> tuple[RecurrentState, Tensor]:
        """A state with that many tokens a row, and every carry that was appended."""
        carries = torch.arange(1.0, 1 + len(lengths) * (max_len + 1) * 2 * D).view(len(lengths), max_len + 1, 2, 1, D)
        state = RecurrentState(carries[:, 0], max_len)
        for t in range(max(lengths)):
            state.append(carries[:, t + 1], torch.tensor([t < length for length in lengths]))
        return state, carries

    def test_each_row_is_where_its_own_length_says(self) -> None:
        state, carries = self.filled([3, 0, 5])
        assert state.lengths.tolist() == [3, 0, 5]
        assert_close(state.carry, torch.stack([carries[0, 3], carries[1, 0], carries[2, 5]]))

    def test_reorder_may_change_the_number_of_rows(self) -> None:
        state, carries = self.filled([3, 0, 5])
        state.reorder(torch.tensor([2, 2, 0, 1]))
        assert state.lengths.tolist() == [5, 5, 3, 0]
        assert_close(state.carry[0], carries[2, 5])
        state.reorder(torch.tensor([3]))
        assert_close(state.carry, carries[1:2, 0])

    def test_truncate_goes_back_never_forward_and_leaves_zeros(self) -> None:
        state, carries = self.filled([3, 0, 5])
        state.truncate(torch.tensor([2, 4, 0]))
        assert state.lengths.tolist() == [2, 0, 0]
        assert_close(state.carry, torch.stack([carries[0, 2], carries[1, 0], carries[2, 0]]))
        assert not state.history[0, 3:].any()
        assert not state.history[2, 1:].any()

    def test_free_empties_one_row_and_keeps_its_start(self) -> None:
        state, carries = self.filled([3, 0, 5])
        before = state.lengths
        state.free(2)
        assert state.lengths.tolist() == [3, 0, 0]
        assert before.tolist() == [3, 0, 5]  # what a caller took is theirs
        assert_close(state.carry[2], carries[2, 0])
        assert not state.history[2, 1:].any()

    def test_insert_takes_text_start_and_a_longer_source(self) -> None:
        state, _ = self.filled([3, 0])
        states = torch.randn(1, 4, D)
        other = RecurrentState(
            torch.ones(1, 2, 1, D), 9, Source(states, 2 * states, torch.ones(1, 4, dtype=torch.bool))
        )
        other.append(torch.full((1, 2, 1, D), 7.0))
        state.insert(0, other)
        assert state.lengths.tolist() == [1, 0]
        assert_close(state.history[0, :3, 0, 0, 0], torch.tensor([1.0, 7.0, 0.0]))
        assert_close(state.source.keys[0], 2 * states[0])
        assert state.source.valid.tolist() == [[True] * 4, [False] * 4]

    def test_insert_leaves_the_callers_memory_alone(self) -> None:
        states = torch.ones(2, 3, D)
        source = Source(states, states, torch.ones(2, 3, dtype=torch.bool))
        state = RecurrentState(torch.zeros(2, 1, 1, D), 4, source)
        state.insert(1, RecurrentState(torch.zeros(1, 1, 1, D), 4))
        assert states.all()
        assert not state.source.valid[1].any()

    def test_too_long_a_text_is_refused_before_anything_is_written(self) -> None:
        state, _ = self.filled([3, 0, 5])
        with pytest.raises(UserError, match="grows to 7 tokens, the decoding state holds 6"):
            state.open(2)
        state.open(2, torch.tensor([[True, True], [True, True], [True, False]]))

    @pytest.mark.parametrize("row", [0, 1])
    def test_a_longer_text_makes_all_rows_longer(self, row: int) -> None:
        long, carries = self.filled([6], max_len=8)
        short, _ = self.filled([1], max_len=5)
        before = short.lengths
        short.insert(row, long)
        assert before.tolist() == [1]
        assert short.capacity == 8
        assert short.lengths.tolist() == [1, 6][1 - row :]
        assert_close(short.carry[row], carries[0, 6])
        short.append(short.carry + 1)
        assert_close(short.carry[row], carries[0, 6] + 1)
