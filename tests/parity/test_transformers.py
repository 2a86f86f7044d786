"""Ours equals transformers, both ways: theirs opened here, ours opened there, every family and every option."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.testing import assert_close

from parity import tiny
from regard.layers.block import Block
from regard.models.base import Model
from regard.weights.store import load_model, save_model

pytestmark = pytest.mark.parity
CLOSE = {"rtol": 0.0, "atol": 1e-5}


def make_theirs(name: str) -> Any:
    torch.manual_seed(sum(map(ord, name)))
    cls, config = tiny.ALL[name]
    model = getattr(hf, cls)(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():  # no zero bias, no unit norm: each must be in its place
            if "embed_positions" not in key or cls.startswith("Bart"):  # sinusoids are not to be learned
                parameter.add_(torch.randn_like(parameter) * 0.1)
        if name == "t5 v1.1":
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model


def inputs_of(name: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    if name in tiny.IMAGES:
        return {"pixels": torch.randn(3, 3, 12, 12, generator=generator)}
    valid = torch.ones(3, 11, dtype=torch.bool)
    valid[1, 7:] = valid[2, 4:] = False
    ids = torch.randint(3, tiny.VOCAB - 2, (3, 11), generator=generator).where(valid, 1 if "roberta" in name else 0)
    if name in tiny.SEQ2SEQ:
        return {"src": ids, "tgt": torch.randint(3, tiny.VOCAB - 2, (3, 6), generator=generator), "src_valid": valid}
    return {"ids": ids, "valid": valid}


def run_theirs(model: Any, name: str, inputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Their outputs under our names, and the hidden states after every block."""
    renamed = {
        "pixels": "pixel_values",
        "ids": "input_ids",
        "valid": "attention_mask",
        "src": "input_ids",
        "tgt": "decoder_input_ids",
        "src_valid": "attention_mask",
    }
    with torch.no_grad():
        out = model(**{renamed[key]: value for key, value in inputs.items()}, output_hidden_states=True)
    outputs = {}
    for key, ours in {
        "logits": "logits",
        "prediction_logits": "logits",
        "seq_relationship_logits": "next_sentence",
        "pooler_output": "pooled",
        "last_hidden_state": "hidden",
    }.items():
        if getattr(out, key, None) is not None:
            outputs[ours] = getattr(out, key)
    if hasattr(out, "start_logits"):
        outputs["logits"] = torch.stack([out.start_logits, out.end_logits], dim=-1)
    if name in tiny.SEQ2SEQ:
        return outputs, [*out.encoder_hidden_states[1:], *out.decoder_hidden_states[1:]]
    return outputs, list(out.hidden_states[1:])


@contextmanager
def recorded_blocks(model: Model) -> Iterator[list[Tensor]]:
    states: list[Tensor] = []
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    handles = [block.register_forward_hook(lambda _m, _i, out: states.append(out)) for block in blocks]
    yield states
    for handle in handles:
        handle.remove()


def run_ours(model: Model, inputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
    with torch.no_grad(), recorded_blocks(model) as states:
        out = model(**inputs)
    outputs = {"logits": out.logits, "hidden": out.hidden, **out.heads}
    return outputs | ({} if out.pooled is None else {"pooled": out.pooled}), states


def assert_same(name: str, ours: Model, theirs: Any) -> None:
    inputs = inputs_of(name)
    our_outputs, our_states = run_ours(ours, inputs)
    their_outputs, their_states = run_theirs(theirs, name, inputs)
    assert their_outputs
    for key, value in their_outputs.items():
        assert_close(real(our_outputs[key], inputs), real(value, inputs), **CLOSE, msg=lambda m, k=key: f"{k}: {m}")
    assert len(our_states) == len(their_states)
    for layer, (mine, other) in enumerate(zip(our_states, their_states, strict=True)):
        final = final_norm_of(ours, layer)
        mine = final(mine) if final and not torch.allclose(mine, other, atol=1e-5) else mine
        assert_close(real(mine, inputs), real(other, inputs), **CLOSE, msg=lambda m, n=layer: f"layer {n}: {m}")


def final_norm_of(model: Model, layer: int) -> Any:
    """transformers reports the last hidden state after the final norm, ours stops at the block."""
    stacks = [getattr(model, side) for side in ("encoder", "decoder") if hasattr(model, side)]
    ends = {sum(len(s.blocks) for s in stacks[: i + 1]) - 1: stack.norm for i, stack in enumerate(stacks)}
    return ends.get(layer)


def real(tensor: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Only the real tokens: what stands at padding is nobody's business."""
    valid = inputs.get("valid", inputs.get("src_valid"))
    if valid is not None and tensor.dim() >= 2 and tensor.shape[:2] == valid.shape:
        return tensor[valid]
    return tensor


@pytest.mark.parametrize("name", tiny.ALL)
def test_theirs_opened_here_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    theirs = make_theirs(name)
    theirs.save_pretrained(tmp_path)
    assert_same(name, load_model(tmp_path), theirs)


@pytest.mark.parametrize("name", tiny.ALL)
def test_ours_opened_there_gives_the_same_numbers_and_no_key_is_missing(name: str, tmp_path: Path) -> None:
    make_theirs(name).save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    save_model(ours, tmp_path / "ours")
    cls = getattr(hf, tiny.ALL[name][0])
    theirs, report = cls.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert_same(name, ours, theirs.eval())


@pytest.mark.parametrize("name", tiny.DECODERS)
def test_greedy_tokens_through_our_state_equal_theirs(name: str, tmp_path: Path) -> None:
    theirs = make_theirs(name)
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    prompt = torch.randint(3, tiny.VOCAB, (2, 5))
    expected = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=12,
        min_new_tokens=12,
        do_sample=False,
        pad_token_id=0,
    )
    state = ours.new_state(2, 17)
    with torch.no_grad():
        tokens = [without_end(ours.step(prompt, state), ours).argmax(-1)]
        for _ in range(11):
            tokens.append(without_end(ours.step(tokens[-1][:, None], state), ours).argmax(-1))
    assert torch.equal(torch.stack(tokens, 1), expected[:, 5:])


@pytest.mark.parametrize("name", tiny.SEQ2SEQ)
def test_greedy_translations_through_our_state_equal_theirs(name: str, tmp_path: Path) -> None:
    theirs = make_theirs(name)
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    inputs = inputs_of(name)
    src, valid = inputs["src"], inputs["src_valid"]
    expected = theirs.generate(
        src, attention_mask=valid.long(), max_new_tokens=10, min_new_tokens=10, do_sample=False, num_beams=1
    )
    with torch.no_grad():
        state = ours.new_state(ours.encode(src, valid), valid, 12)
        token = torch.full((3,), ours.config.start_id)
        tokens = [token]
        for _ in range(10):
            token = without_end(ours.step(token[:, None], state), ours).argmax(-1)
            tokens.append(token)
    assert torch.equal(torch.stack(tokens, 1), expected)


def without_end(logits: Tensor, model: Model) -> Tensor:
    """min_new_tokens forbids the end of the text."""
    return logits.index_fill(-1, torch.tensor(model.config.eos_ids), -torch.inf)
