"""Recurrent language models, translators and classifiers: what may and what may not change their numbers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from regard.config import build as build_config
from regard.config import to_dict
from regard.errors import UserError
from regard.layers.recurrent import AttentionKind, CellKind, RecurrentState
from regard.layers.state import DecodingState
from regard.models.recurrent import (
    RecurrentClassifier,
    RecurrentConfig,
    RecurrentLanguageModel,
    RecurrentTranslator,
    build,
)
from regard.models.registry import FAMILIES

PRESETS = FAMILIES["recurrent"].presets
VOCAB, MAX_LEN = 11, 12
CLOSE: dict[str, Any] = {"rtol": 0.0, "atol": 1e-5}

CELLS: list[CellKind] = ["rnn", "lstm", "gru"]
ATTENTIONS: list[AttentionKind] = ["none", "dot", "additive"]
WRITERS = [("language_model", cell, "none") for cell in CELLS]
WRITERS += [("translator", cell, attention) for cell in CELLS for attention in ATTENTIONS]

writers = st.sampled_from(WRITERS)
texts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6)
batches = st.lists(texts, min_size=1, max_size=4)
seeds = st.integers(0, 2**16)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """These tensors are too small to share; threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(kind: str, cell: CellKind = "lstm", attention: AttentionKind = "none", **more: Any) -> Any:
    """A model of a few numbers, large ones so that mistakes show."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        kind=kind,  # type: ignore[arg-type]
        cell=cell,
        attention=attention,
        vocab_size=VOCAB,
        d_model=8,
        d_embed=6,
        n_layers=2,
        bidirectional=kind != "language_model",
        labels=("no", "yes"),
    )
    model = build(replace(config, **more))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def pad(rows: list[list[int]], left: list[int], right: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and what of them is real: `left[i]` tokens of garbage before row i, at least `right` after each."""
    width = max(before + len(row) for before, row in zip(left, rows, strict=True)) + right
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (len(rows), width), generator=generator)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (before, row) in enumerate(zip(left, rows, strict=True)):
        ids[i, before : before + len(row)] = torch.tensor(row)
        valid[i, before : before + len(row)] = True
    return ids, valid


@torch.no_grad()
def from_scratch(model: Any, src: list[int], text: list[int]) -> Tensor:
    """Scores (T, V) of one text alone, without padding and without a state."""
    ids = torch.tensor([text])
    output = model(ids) if isinstance(model, RecurrentLanguageModel) else model(torch.tensor([src]), ids)
    return output.logits[0]


@torch.no_grad()
def state_for(model: Any, sources: list[list[int]], max_len: int = MAX_LEN) -> RecurrentState:
    if isinstance(model, RecurrentLanguageModel):
        return model.new_state(len(sources), max_len)
    src, valid = pad(sources, [0] * len(sources))
    return model.new_state(model.encode(src, valid), valid, max_len)


@torch.no_grad()
def feed(model: Any, state: RecurrentState, news: list[list[int]], left: int = 0) -> Tensor:
    """Append a text of its own to each row, perhaps an empty one."""
    ids, valid = pad([row or [0] for row in news], [left] * len(news))
    valid &= torch.tensor([bool(row) for row in news])[:, None]
    return model.step(ids, state, valid)


class TestWriters:
    @settings(max_examples=40)
    @given(writers, batches, st.data())
    def test_padding_on_either_side_with_garbage_in_it_changes_nothing(
        self, writer: Any, rows: list[list[int]], data: st.DataObject
    ) -> None:
        model, n = tiny(*writer), len(rows)
        sources = data.draw(st.lists(texts, min_size=n, max_size=n))
        lefts = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        ids, valid = pad(rows, lefts, data.draw(st.integers(0, 2)), data.draw(seeds))
        if writer[0] == "language_model":
            output = model(ids, valid)
        else:
            src, src_valid = pad(sources, lefts[::-1], 1, data.draw(seeds))
            output = model(src, ids, src_valid, valid)
        for i, row in enumerate(rows):
            assert_close(output.logits[i, valid[i]], from_scratch(model, sources[i], row), **CLOSE)

    @settings(max_examples=40)
    @given(writers, batches, st.data())
    def test_any_split_of_the_text_gives_the_scores_of_the_whole(
        self, writer: Any, rows: list[list[int]], data: st.DataObject
    ) -> None:
        model = tiny(*writer)
        sources = data.draw(st.lists(texts, min_size=len(rows), max_size=len(rows)))
        cuts = [sorted(data.draw(st.tuples(st.integers(0, len(row)), st.integers(0, len(row))))) for row in rows]
        state, starts = state_for(model, sources), [0] * len(rows)
        for ends in (*zip(*cuts, strict=True), [len(row) for row in rows]):
            scores = feed(model, state, [row[a:b] for row, a, b in zip(rows, starts, ends, strict=True)], left=1)
            for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if end > start:
                    assert_close(scores[i], from_scratch(model, sources[i], rows[i][:end])[-1], **CLOSE)
            starts = list(ends)
        assert state.lengths.tolist() == [len(row) for row in rows]

    @pytest.mark.parametrize("writer", WRITERS)
    def test_the_forward_pass_equals_token_by_token(self, writer: Any) -> None:
        model, ids = tiny(*writer), torch.randint(VOCAB, (3, 7))
        sources = [[1, 2, 3], [4], [5, 6]]
        state, src = state_for(model, sources), pad(sources, [0] * 3)
        whole = model(ids) if writer[0] == "language_model" else model(src[0], ids, src[1])
        with torch.no_grad():
            steps = [model.step(ids[:, t : t + 1], state) for t in range(7)]
        assert_close(torch.stack(steps, dim=1), whole.logits, **CLOSE)

    @pytest.mark.parametrize("writer", WRITERS)
    def test_later_tokens_do_not_change_earlier_scores(self, writer: Any) -> None:
        model = tiny(*writer)
        one, other = from_scratch(model, [1, 2], [3, 4, 5, 6]), from_scratch(model, [1, 2], [3, 4, 9, 0])
        assert_close(one[:2], other[:2], **CLOSE)
        assert not torch.allclose(one[2:], other[2:])

    @settings(max_examples=30)
    @given(writers, st.lists(st.tuples(texts, texts), min_size=2, max_size=4), seeds)
    def test_batch_mates_do_not_matter(self, writer: Any, pairs: list[tuple[list[int], list[int]]], seed: int) -> None:
        model = tiny(*writer)
        order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed)).tolist()
        state = state_for(model, [pairs[i][0] for i in order])
        scores = feed(model, state, [pairs[i][1] for i in order])
        for place, i in enumerate(order):
            assert_close(scores[place], from_scratch(model, *pairs[i])[-1], **CLOSE)

    @pytest.mark.parametrize("writer", WRITERS)
    def test_greedy_through_the_state_equals_greedy_by_recomputation(self, writer: Any) -> None:
        model, sources = tiny(*writer), [[1, 2, 3], [4, 5]]
        state, written = state_for(model, sources), [[7], [8]]
        slow = [[7], [8]]
        scores = feed(model, state, written)
        for _ in range(6):
            best = scores.argmax(-1)
            for row, token in zip(written, best.tolist(), strict=True):
                row.append(token)
            for row, source in zip(slow, sources, strict=True):
                row.append(int(from_scratch(model, source, row)[-1].argmax()))
            with torch.no_grad():
                scores = model.step(best[:, None], state)
        assert written == slow

    @pytest.mark.parametrize("writer", WRITERS)
    def test_every_parameter_gets_a_gradient(self, writer: Any) -> None:
        model, ids = tiny(*writer), torch.randint(VOCAB, (2, 4))
        output = model(ids) if writer[0] == "language_model" else model(ids, ids)
        functional.cross_entropy(output.logits.flatten(0, 1), ids.flatten()).backward()
        missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert missing == []

    @pytest.mark.parametrize("writer", WRITERS)
    def test_mixed_precision_trains(self, writer: Any) -> None:
        model, ids = tiny(*writer), torch.randint(VOCAB, (2, 4))
        with torch.autocast("cpu", torch.bfloat16):
            output = model(ids) if writer[0] == "language_model" else model(ids, ids)
        output.logits.float().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


class TestStateContract:
    """Against texts kept beside the state: whatever was done to it, the next scores are those from scratch."""

    def check(self, model: Any, state: RecurrentState, rows: list[tuple[list[int], list[int]]]) -> None:
        news = [[(i + 3) % VOCAB, i] for i in range(len(rows))]
        scores = feed(model, state, news)
        for i, (source, text) in enumerate(rows):
            assert_close(scores[i], from_scratch(model, source, text + news[i])[-1], **CLOSE)
        assert state.lengths.tolist() == [len(text) + 2 for _, text in rows]

    def ragged(self, writer: Any) -> tuple[Any, RecurrentState, list[tuple[list[int], list[int]]]]:
        model = tiny(*writer)
        rows = [([1, 2, 3], [4]), ([5], [6, 7, 8]), ([9, 10], [1, 2])]
        state = state_for(model, [source for source, _ in rows])
        feed(model, state, [text for _, text in rows], left=2)
        return model, state, rows

    @pytest.mark.parametrize("index", [[2, 0, 1], [1, 1, 0, 2, 2], [2], [1, 1]])
    @pytest.mark.parametrize("writer", WRITERS)
    def test_reorder(self, writer: Any, index: list[int]) -> None:
        model, state, rows = self.ragged(writer)
        state.reorder(torch.tensor(index))
        self.check(model, state, [rows[i] for i in index])

    @pytest.mark.parametrize("lengths", [[1, 1, 1], [0, 2, 9], [0, 0, 0]])
    @pytest.mark.parametrize("writer", WRITERS)
    def test_truncate(self, writer: Any, lengths: list[int]) -> None:
        model, state, rows = self.ragged(writer)
        state.truncate(torch.tensor(lengths))
        self.check(model, state, [(source, text[:n]) for (source, text), n in zip(rows, lengths, strict=True)])

    @pytest.mark.parametrize("new", [([2, 4, 6, 8, 10], [3, 5]), ([7], [0, 1, 2, 3, 4])])
    @pytest.mark.parametrize("writer", WRITERS)
    def test_insert(self, writer: Any, new: tuple[list[int], list[int]]) -> None:
        model, state, rows = self.ragged(writer)
        other = state_for(model, [new[0]], max_len=20)
        feed(model, other, [new[1]])
        state.insert(1, other)
        self.check(model, state, [rows[0], new, rows[2]])

    @pytest.mark.parametrize("writer", WRITERS)
    def test_free(self, writer: Any) -> None:
        model, state, rows = self.ragged(writer)
        state.free(1)
        self.check(model, state, [rows[0], (rows[1][0], []), rows[2]])

    @settings(max_examples=25)
    @given(writers, st.data())
    def test_anything_in_any_order(self, writer: Any, data: st.DataObject) -> None:
        model, state, rows = self.ragged(writer)
        for _ in range(data.draw(st.integers(1, 6))):
            what, row = data.draw(st.sampled_from(["reorder", "truncate", "insert", "free", "feed"])), len(rows) - 1
            if what == "reorder":
                index = data.draw(st.lists(st.integers(0, row), min_size=1, max_size=4))
                state.reorder(torch.tensor(index))
                rows = [rows[i] for i in index]
            elif what == "truncate":
                lengths = data.draw(st.lists(st.integers(0, 5), min_size=row + 1, max_size=row + 1))
                state.truncate(torch.tensor(lengths))
                rows = [(source, text[:n]) for (source, text), n in zip(rows, lengths, strict=True)]
            elif what == "insert":
                source, text = data.draw(texts), data.draw(texts)
                other = state_for(model, [source])
                feed(model, other, [text])
                state.insert(row, other)
                rows[row] = (source, text)
            elif what == "free":
                state.free(row)
                rows[row] = (rows[row][0], [])
            elif all(len(text) < 4 for _, text in rows):
                news = [data.draw(st.lists(st.integers(0, VOCAB - 1), max_size=2)) for _ in rows]
                feed(model, state, news)
                rows = [(source, text + new) for (source, text), new in zip(rows, news, strict=True)]
        self.check(model, state, rows)

    def test_a_full_state_refuses_and_stays_as_it_was(self) -> None:
        model = tiny("language_model")
        state = model.new_state(1, 3)
        feed(model, state, [[1, 2]])
        with pytest.raises(UserError, match="grows to 4 tokens"):
            feed(model, state, [[3, 4]])
        assert_close(feed(model, state, [[5]])[0], from_scratch(model, [], [1, 2, 5])[-1], **CLOSE)

    def test_the_types_keep_the_contract(self) -> None:
        model: Any = tiny("language_model")
        state: DecodingState = tiny("language_model").new_state(2, 3)
        assert state.lengths.tolist() == [0, 0]
        assert callable(model.step)


class TestTranslator:
    @pytest.mark.parametrize("cell", CELLS)
    @pytest.mark.parametrize("attention", ["dot", "additive"])
    def test_the_alignment_is_a_distribution_over_real_source_tokens(self, cell: Any, attention: Any) -> None:
        model = tiny("translator", cell, attention)
        src, src_valid = pad([[1, 2, 3], [4]], [0, 1])
        tgt, tgt_valid = pad([[5, 6], [7, 8, 9]], [2, 0])
        weights = model.attention(src, tgt, src_valid, tgt_valid)
        assert weights.shape == (2, tgt.size(1), src.size(1))
        assert_close(weights.sum(-1), tgt_valid.float(), **CLOSE)
        assert not weights.masked_select(~src_valid[:, None]).any()

    @pytest.mark.parametrize("attention", ["dot", "additive"])
    def test_the_alignment_does_not_depend_on_padding(self, attention: Any) -> None:
        model = tiny("translator", "gru", attention)
        src, src_valid = pad([[1, 2, 3]], [2], 1)
        tgt, tgt_valid = pad([[5, 6]], [1], 2)
        ours = model.attention(src, tgt, src_valid, tgt_valid)[tgt_valid][:, src_valid[0]]
        assert_close(ours, model.attention(torch.tensor([[1, 2, 3]]), torch.tensor([[5, 6]]))[0], **CLOSE)

    def test_additive_attention_asks_with_the_last_state_and_dot_with_the_new_one(self) -> None:
        src, one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[4]]), torch.tensor([[5]])
        before, after = tiny("translator", "gru", "additive"), tiny("translator", "gru", "dot")
        assert_close(before.attention(src, one), before.attention(src, other))
        assert not torch.allclose(after.attention(src, one), after.attention(src, other))

    def test_without_attention_there_is_nothing_to_show(self) -> None:
        with pytest.raises(UserError, match="no attention"):
            tiny("translator").attention(torch.tensor([[1]]), torch.tensor([[2]]))

    @pytest.mark.parametrize("attention", ATTENTIONS)
    def test_an_empty_source_is_finite_forward_and_backward(self, attention: Any) -> None:
        model, ids = tiny("translator", "lstm", attention), torch.tensor([[1, 2, 3], [4, 5, 6]])
        valid = torch.tensor([[False] * 3, [True] * 3])
        output = model(ids, ids, valid)
        output.logits.sum().backward()
        assert output.logits.isfinite().all()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())

    @pytest.mark.parametrize("attention", ATTENTIONS)
    def test_the_decoder_starts_where_the_encoder_ended(self, attention: Any) -> None:
        model, src = tiny("translator", "lstm", attention), torch.tensor([[1, 2, 3]])
        memory = model.encode(src)
        assert_close(model.new_state(memory, None, 4).carry, memory.last)
        assert memory.states.shape == (1, 3, 8)

    @pytest.mark.parametrize("attention", ATTENTIONS)
    def test_it_learns_to_reverse(self, attention: Any) -> None:
        model = tiny("translator", "gru", attention, d_model=32, n_layers=1)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        src = torch.randint(1, VOCAB, (16, 4), generator=torch.Generator().manual_seed(0))
        tgt = src.flip(1)
        before = functional.pad(tgt, (1, -1))  # 0 starts the text
        optimizer, loss = torch.optim.Adam(model.parameters(), lr=2e-2), torch.tensor(0.0)
        for _ in range(60):
            loss = functional.cross_entropy(model(src, before).logits.flatten(0, 1), tgt.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss.item() < 0.1


class TestClassifier:
    @settings(max_examples=30)
    @given(st.sampled_from(CELLS), st.booleans(), batches, st.data())
    def test_padding_and_batch_mates_change_nothing(
        self, cell: CellKind, bidirectional: bool, rows: list[list[int]], data: st.DataObject
    ) -> None:
        model = tiny("classifier", cell, bidirectional=bidirectional)
        left = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
        output = model(*pad(rows, left, 1, data.draw(seeds)))
        assert output.logits.shape == (len(rows), 2)
        for i, row in enumerate(rows):
            assert_close(output.logits[i], model(torch.tensor([row])).logits[0], **CLOSE)

    def test_it_reads_the_last_state_of_both_directions(self) -> None:
        model, ids = tiny("classifier", "gru"), torch.tensor([[1, 2, 3]])
        output = model(ids)
        assert_close(output.pooled, torch.cat([output.hidden[:, -1, :4], output.hidden[:, 0, 4:]], dim=-1))

    @pytest.mark.parametrize("cell", CELLS)
    def test_gradient_reaches_the_learnt_first_state(self, cell: CellKind) -> None:
        model = tiny("classifier", cell)
        model(torch.tensor([[1, 2, 3]])).logits[:, 0].sum().backward()
        assert model.encoder.recurrence.start.grad.abs().min() > 0


class TestConfig:
    @pytest.mark.parametrize("name", PRESETS)
    def test_presets_build_on_the_meta_device(self, name: str) -> None:
        with torch.device("meta"):
            model = build(PRESETS[name])
        assert all(parameter.is_meta for parameter in model.parameters())
        assert not list(model.buffers())  # nothing that a checkpoint could not fill
        assert 2_000_000 < model.n_parameters < 20_000_000

    def test_each_kind_has_its_class(self) -> None:
        assert isinstance(tiny("language_model"), RecurrentLanguageModel)
        assert isinstance(tiny("translator"), RecurrentTranslator)
        assert isinstance(tiny("classifier"), RecurrentClassifier)

    @pytest.mark.parametrize("writer", WRITERS)
    def test_weights_can_be_assigned_to_a_model_without_storage(self, writer: Any) -> None:
        full = tiny(*writer)
        with torch.device("meta"):
            empty = build(full.config)
        empty.load_state_dict(full.state_dict(), assign=True)
        assert torch.equal(from_scratch(empty.eval(), [1, 2], [3, 4]), from_scratch(full, [1, 2], [3, 4]))

    @pytest.mark.parametrize("kind", ["language_model", "translator", "classifier"])
    def test_the_first_state_is_learnt_only_if_asked_for(self, kind: str) -> None:
        for learnt in (True, False):
            names = [name for name, _ in tiny(kind, learnt_start=learnt).named_parameters()]
            assert any(name.endswith("recurrence.start") for name in names) == learnt

    def test_tied_output_owns_no_matrix(self) -> None:
        tied = tiny("language_model", tie=True, d_embed=None)
        loose = tiny("language_model", tie=False, d_embed=None)
        assert loose.n_parameters - tied.n_parameters == VOCAB * 8
        assert from_scratch(tied, [], [1, 2]).shape == (2, VOCAB)

    def test_configuration_survives_as_plain_data(self) -> None:
        for config in PRESETS.values():
            assert build_config(RecurrentConfig, to_dict(config)) == config

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"d_model": 0}, "d_model is 0"),
            ({"n_layers": 1_001}, "n_layers is 1001"),
            ({"dropout": 1.0}, "dropout is 1.0"),
            ({"bidirectional": True, "d_model": 7}, "two directions"),
            ({"tie": True, "d_embed": 4}, "d_embed 4 is not d_model"),
            ({"kind": "language_model", "attention": "dot"}, "no source"),
            ({"kind": "classifier"}, "names of its labels"),
        ],
    )
    def test_impossible_choices_are_refused(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(UserError, match=message):
            RecurrentConfig(**change)
