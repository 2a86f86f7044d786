"""Each promise is broken by one changed line of the library, and caught by its own name alone."""

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

from lab.tiny import saved
from regard.decoding import beam
from regard.lab import verify as lab
from regard.layers import attention, decoder, embedding, feedforward, mask, recurrent, state
from regard.models import recurrent as recurrent_models
from regard.training import checkpoint, step
from regard.weights import permute, tensorfile

ENCODER_DECODER, DECODERS, RECURRENT = ["transformer", "t5"], ["gpt2", "llama"], ["gru-additive", "lstm-lm"]
ATTENTIVE = [*ENCODER_DECODER, *DECODERS]
WRITERS = [*ATTENTIVE, *RECURRENT]


class Mutant(NamedTuple):
    row: str
    function: Callable[..., Any]
    line: str
    becomes: str
    models: list[str]


MUTANTS = [
    Mutant(
        "cached = uncached",
        state.KeyValueState.open,
        "Mask(causal=n_tokens > 1)",
        "Mask()",  # the tokens of one piece see those behind them
        ATTENTIVE,
    ),
    Mutant(
        "cached = uncached",
        state.KeyValueState.open,
        "torch.arange(start, end",
        "torch.arange(start + 1, end + 1",
        ["transformer", "gpt2"],
    ),
    Mutant(
        "cached = uncached",
        recurrent.RecurrentState.carry.fget,  # type: ignore[attr-defined]
        ", self.lengths]",
        ", (self.lengths - 1).clamp(min=0)]",
        RECURRENT,
    ),
    Mutant(
        "batch 1 = batch N",
        mask.positions_of,
        "valid.long()",
        "valid[:1].long()",  # all rows stand where the first does
        ["transformer", *DECODERS, "bert"],
    ),
    Mutant(
        "batch 1 = batch N",
        recurrent.realign,
        "positions_of(valid,",
        "positions_of(valid[:1].expand_as(valid),",
        RECURRENT,
    ),
    Mutant(
        "batch 1 = batch N",
        embedding.PatchEmbedding.forward,
        "self.project(pixels)",
        "self.project(pixels - pixels.mean(0) * (len(pixels) > 1 and not torch.is_grad_enabled()))",
        ["vit"],
    ),
    Mutant(
        "padding left = right = none",
        mask.Mask._build,
        "rules.append(self.valid[:, None, :])",
        "rules.append((keys < self.valid.sum(-1, keepdim=True))[:, None, :])",  # as if it were always on the right
        [*ATTENTIVE, "bert"],
    ),
    Mutant("padding left = right = none", recurrent.align, ".gather(1, order[..., None].expand_as(x))", "", RECURRENT),
    Mutant(
        "causal",
        decoder.Decoder.forward,
        "Mask(causal=True, valid=valid",
        "Mask(causal=not self.training, valid=valid",
        ATTENTIVE,
    ),
    Mutant(
        "causal",
        recurrent_models.Decoder.forward,
        "self.embed(ids)",
        "self.embed(ids.roll(-1, 1) if self.training else ids)",  # the answer is the question
        RECURRENT,
    ),
    Mutant("beam 1 = greedy", beam._Search.advance, "scores.float().unflatten", "(-scores.float()).unflatten", WRITERS),
    Mutant(
        "beam 1 = greedy",
        state.KeyValueState.reorder,
        "index_select(2, index[moved])",
        "index_select(2, moved)",
        ["transformer", "llama"],
    ),
    Mutant(
        "beam 1 = greedy",
        recurrent.RecurrentState.reorder,
        "self.history[index]",
        "self.history[: len(index)]",
        ["gru-additive"],
    ),
    Mutant(
        "fused = readable",
        attention.fused,  # for short texts its twin is the faster one, so nobody else goes through these lines
        "is_causal=True, scale=scale",
        "is_causal=True, scale=2 * scale",
        ["gpt2"],
    ),
    Mutant(
        "fused = readable",
        attention.fused,
        "repeat_heads(v, n_heads), allowed, scale=scale",
        "repeat_heads(v, n_heads), allowed, scale=2 * scale",
        ["bert", "vit"],
    ),
    Mutant("fused = readable", recurrent.gru_cell, "(1 - z) * n + z * h", "z * n + (1 - z) * h", ["gru-additive"]),
    Mutant("fused = readable", recurrent.lstm_cell, "o.sigmoid() * c.tanh()", "o.sigmoid() * c", ["lstm-lm"]),
    Mutant(
        "saved = loaded",
        tensorfile._write_file,
        "tensor.contiguous()",
        "tensor.half().float().contiguous()",
        [*WRITERS, "bert", "vit"],
    ),
    Mutant("saved = loaded", permute.halves_first, "tensor[:, order]", "tensor", ["transformer"]),
    Mutant("accumulated = whole", step.step, "/ max(count, 1)", "/ max(batch.n_targets, 1)", WRITERS),
    Mutant("interrupted = uninterrupted", checkpoint.restore, "[kind] = tensor", "[kind] = tensor * 0", WRITERS),
    Mutant(
        "interrupted = uninterrupted", step.step, "torch.manual_seed(seed)", "pass", ["transformer", "gpt2", "lstm-lm"]
    ),
    Mutant(
        "ours = transformers",
        feedforward.FeedForward.forward,
        "self.down(self.dropout(inner))",
        "self.down(self.dropout(inner)) * 1.01",
        [*ATTENTIVE, "bert", "vit"],
    ),
]
CASES = [pytest.param(mutant, name, id=f"{mutant.row}-{mutant.function.__qualname__}-{name}")
         for mutant in MUTANTS for name in mutant.models]  # fmt: skip


def mutate(mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
    """The same function with one line changed, for whoever has imported it already."""
    source = textwrap.dedent(inspect.getsource(mutant.function))
    assert source.count(mutant.line) == 1, f"{mutant.function.__qualname__} has changed; the mutant must too"
    module = compile(source.replace(mutant.line, mutant.becomes), "mutant", "exec")
    codes = [each for each in module.co_consts if isinstance(each, CodeType)]
    patch.setattr(mutant.function, "__code__", next(each for each in codes if each.co_name == mutant.function.__name__))


@pytest.mark.parametrize(("mutant", "name"), CASES)
def test_a_broken_promise_is_caught_by_its_name_alone(
    mutant: Mutant, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, directory = saved(name, tmp_path)
    mutate(mutant, monkeypatch)
    assert [row.name for row in lab.verify(model, directory) if not row.passed] == [mutant.row]


def test_every_promise_is_broken_by_some_mutant() -> None:
    assert {mutant.row for mutant in MUTANTS} == set(lab.CHECKS)
