"""A run's model, its optimizer and its precision: what [model] and [train] ask for."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import build
from regard.errors import UserError, pick
from regard.layers.block import Block, Context
from regard.models.base import Model, initialise, without_memory
from regard.models.registry import Family, find_preset
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.ranks import Ranks
from regard.training.step import seed_of
from regard.weights.layout import LAYOUTS

DEFAULT_PRESET = "transformer-small"


def new_model(config: RunConfig, blank: Callable[[], Model]) -> Model:
    torch.manual_seed(seed_of(config.seed, -1))
    model = blank()
    initialise(model, config.train.init)
    for module in model.modules():
        if isinstance(module, Block):
            module.register_forward_pre_hook(_memory_of_its_own)
    return model


def _memory_of_its_own(_: nn.Module, inputs: tuple[Tensor, Context]) -> tuple[Tensor, Context]:
    """The gradient of a memory that many blocks read is summed in each block first, and then over the blocks.

    FSDP must do it so, since it looks at a block's inputs; done by all, one process gets the same sum to the last bit.
    """
    x, context = inputs
    memory = context.memory
    return x, context if memory is None else dataclasses.replace(context, memory=memory.view_as(memory))


def blank_model(config: RunConfig, tokenizer: Tokenizer) -> Model:
    ids = {"pad_id": tokenizer.pad_id, "start_id": tokenizer.pad_id, "eos_ids": (tokenizer.eos_id,)}
    return _built(config, {"vocab_size": tokenizer.vocab_size, **ids})


def _built(config: RunConfig, ids: dict[str, Any]) -> Model:
    family, settings = model_settings(config)
    return family.build(build(family.config, {**settings, "max_len": max(config.data.max_len, 8), **ids}, "model"))


def check_model(config: RunConfig) -> None:
    """Before any work, and without memory: does [model] hold together, and does it translate?"""
    name = str(config.model.get("preset", DEFAULT_PRESET))
    family, preset = find_preset(name)
    with without_memory():
        if not hasattr(family.build(preset), "encode"):
            hint = "choose a preset with an encoder and a decoder; `regard list presets` shows all"
            raise UserError(f"{name} does not translate", hint)
        last = config.text.vocab_size - 1
        model = _built(config, {"vocab_size": last + 1, "pad_id": last, "start_id": last, "eos_ids": (0,)})
        check_layout(model)


def check_layout(model: Model) -> None:
    """Could it be saved? Better known before the first step than after the last."""
    config = model.config
    if getattr(config, "position", None) == "sinusoidal":  # saved in the other order
        config = dataclasses.replace(config, position="sinusoidal_halves")
    layout = pick(config.layout, LAYOUTS, "layout")
    try:
        names = [source.theirs for source in layout.keymap(config).sources(model.state_dict())]
    except AssertionError as error:
        raise UserError(f"the layout '{config.layout}' cannot hold this model: {error}", "change [model]") from error
    layout.check(config, names)


def model_settings(config: RunConfig) -> tuple[Family, dict[str, Any]]:
    """The preset's family and its settings with the run's own laid over them."""
    own = dict(config.model)
    family, preset = find_preset(str(own.pop("preset", DEFAULT_PRESET)))
    settings = {field.name: getattr(preset, field.name) for field in dataclasses.fields(preset)}
    return family, {**settings, **own}


def keep_padding_zero(model: Model, pad_id: int | None, ranks: Ranks) -> None:
    """Decoding starts from padding, whose vector other engines take to be zero; it stays so."""
    if pad_id is None:
        return

    def clear(weight: torch.Tensor) -> None:
        if weight.grad is not None:
            ranks.row(weight.grad, pad_id).zero_()

    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and module.num_embeddings > pad_id:
            with torch.no_grad():
                ranks.row(module.weight, pad_id).zero_()
            module.weight.register_post_accumulate_grad_hook(clear)


def new_optimizer(config: RunConfig, model: Model) -> torch.optim.Optimizer:
    train = config.train
    kind = torch.optim.AdamW if train.optimizer == "adamw" else torch.optim.Adam
    return kind(
        model.parameters(), lr=train.lr, betas=(train.beta1, train.beta2), eps=train.eps,
        weight_decay=train.weight_decay, fused=True,
    )  # fmt: skip


def autocast_type(config: RunConfig) -> torch.dtype | None:
    wanted = config.train.precision
    on_cpu = torch.ops.mkldnn._is_mkldnn_bf16_supported  # elsewhere it is emulated, and slow
    has_bf16 = torch.cuda.is_bf16_supported() if config.train.device == "cuda" else on_cpu()
    return torch.bfloat16 if wanted == "bf16" or (wanted == "auto" and has_bf16) else None
