"""A run's model, its optimizer and its precision: what [model] and [train] ask for."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import build, require
from regard.errors import UserError, pick
from regard.layers.block import Block, Context
from regard.layers.lora import LoraConfig, add_adapters
from regard.models.base import Model, ModelConfig, initialise, without_memory
from regard.models.bert import BertConfig
from regard.models.electra import Electra, ElectraConfig
from regard.models.gpt import Gpt
from regard.models.mimetic import imitate
from regard.models.registry import Family, find_preset
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig, TrainConfig
from regard.training.ranks import Ranks
from regard.training.step import seed_of
from regard.weights.layout import LAYOUTS
from regard.weights.store import load_model

DEFAULT_PRESET = "transformer-small"
_ENCODER = "go on from an encoder: --init minilm, or the directory of a BERT, RoBERTa, DistilBERT or ELECTRA"
STARTS = {
    "classify": "go on from a trained model: --init minilm, or another encoder or decoder",
    **dict.fromkeys(("tag", "span", "masked_lm"), _ENCODER),
    "language_model": "go on from a decoder: --init smollm2, or the directory of a GPT-2, Llama or Qwen2",
}
"Head -> how to come by a model that can have it."


def new_model(config: RunConfig, blank: Callable[[], Model]) -> Model:
    """Fresh weights; where the run goes on from a trained model, only for what that does not have."""
    torch.manual_seed(seed_of(config.seed, -1))
    model = blank()
    if init := config.model.get("init"):
        initialise(model, "normal")
        trained, own = load_model(init).state_dict(), model.state_dict()
        fits = {name for name, tensor in own.items() if name in trained and trained[name].shape == tensor.shape}
        unequal = [name for name in own if name in trained and name not in fits]
        refuse_other_sizes(init, {name: (trained[name], own[name]) for name in unequal})
        model.load_state_dict({name: trained[name] if name in fits else tensor for name, tensor in own.items()})
    else:
        initialise(model, "normal" if config.train.init == "mimetic" else config.train.init)
        if config.train.init == "mimetic":
            imitate(model, getattr(model.config, "grid", (1, 1)))
    for module in model.modules():
        if isinstance(module, Block):
            module.register_forward_pre_hook(_memory_of_its_own)
    freeze(model, config.train.freeze)
    return model


def refuse_other_sizes(init: str, unequal: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    """Only a row a label may differ: anything else would begin anew though it was to go on."""
    for name, (theirs, ours) in unequal.items():
        is_head = any(part.startswith(("classify", "tag")) for part in name.split("."))
        if theirs.shape[1:] != ours.shape[1:] or not is_head:
            what = f"{init} has {name} of size {list(theirs.shape)}, but [model] makes it {list(ours.shape)}"
            raise UserError(what, "leave out of [model] what changes the sizes of a trained model")


def _memory_of_its_own(_: nn.Module, inputs: tuple[Tensor, Context]) -> tuple[Tensor, Context]:
    """The gradient of a memory that many blocks read is summed in each block first, and then over the blocks.

    FSDP must do it so, since it looks at a block's inputs; done by all, one process gets the same sum to the last bit.
    """
    x, context = inputs
    memory = context.memory
    return x, context if memory is None else dataclasses.replace(context, memory=memory.view_as(memory))


def freeze(model: Model, beginnings: tuple[str, ...]) -> None:
    for beginning in beginnings:
        found = [p for name, p in model.named_parameters() if f"{name}.".startswith(f"{beginning.rstrip('.')}.")]
        if not found:
            known = dict.fromkeys(".".join(name.split(".")[:2]) for name, _ in model.named_parameters())
            raise UserError(f"train.freeze: no weight is called {beginning}...", f"they are called {', '.join(known)}")
        for parameter in found:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("train.freeze leaves nothing that learns", "take a name out of it, such as that of the head")


def blank_model(config: RunConfig, head: str, tokenizer: Tokenizer | None, labels: tuple[str, ...]) -> Model:
    """What the run trains, without its weights; `head` is what it is for, nothing for an encoder-decoder."""
    if "init" in config.model:
        model = _family(trained := _trained(config)).build(purposed(_overlaid(config, trained), head, labels))
        return with_adapters(model, config) if config.lora.rank else model
    family, settings = model_settings(config)
    if tokenizer is None:
        return family.build(purposed(build(family.config, settings, "model"), head, labels))
    ends = () if tokenizer.eos_id is None else (tokenizer.eos_id,)
    ids: dict[str, Any] = {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.bos_id, "eos_ids": ends}
    ids |= {"vocab_size": tokenizer.vocab_size, "start_id": None if head else tokenizer.pad_id}
    return _whole(config, family, purposed(_built(config, family, settings | ids), head, labels))


def _whole(config: RunConfig, family: Family, described: ModelConfig) -> Model:
    """What is trained: the model, or where it tells replaced tokens, the pair with the one that replaces them."""
    if not (isinstance(described, BertConfig) and described.heads == ("replaced_token",)):
        return family.build(described)
    given = config.model.get("generator", {})
    require(isinstance(given, dict), f"model.generator is {given!r}", "expected a table, such as { d_model = 64 }")
    width, n_heads = described.d_model // 4, max(described.n_heads // 4, 1)
    own = {"d_model": width, "n_heads": n_heads, "d_ff": described.d_ff // 4, **given}
    own["d_embed"] = described.d_embed or described.d_model
    generator = purposed(
        build(BertConfig, {**vars(described), **own, "d_head": None}, "model.generator"), "masked_lm", ()
    )
    assert isinstance(generator, BertConfig)
    return Electra(ElectraConfig(generator=generator, discriminator=described))


def with_adapters(model: Model, config: RunConfig) -> Model:
    """Only adapters learn, and the parts that the trained model does not have."""
    trained = load_model(config.model["init"], device="meta").state_dict()
    fresh = dict.fromkeys(name.rpartition(".")[0] for name, _ in model.named_parameters() if name not in trained)
    lora = config.lora
    add_adapters(model, LoraConfig(lora.rank, lora.alpha, lora.dropout, lora.targets, tuple(fresh)))
    return model


def described(config: RunConfig, *, pictures: bool) -> ModelConfig:
    """What [model] says; a model that sees must see what the task shows, pictures or texts."""
    family, settings = (None, {}) if "init" in config.model else model_settings(config)
    found = _overlaid(config, _trained(config)) if family is None else build(family.config, settings, "model")
    if hasattr(found, "image_size") != pictures:
        name = config.model.get("init") or config.model.get("preset", DEFAULT_PRESET)
        reads, wants = ("texts", "pictures") if pictures else ("pictures", "texts")
        hint = "`regard list presets` shows all; vit-tiny and convnet-small see pictures, vit-gpt2 says what it sees"
        raise UserError(f"{name} is for {reads}, but the task '{config.task}' is about {wants}", hint)
    return found


def _trained(config: RunConfig) -> ModelConfig:
    found: ModelConfig = load_model(config.model["init"], device="meta").config
    data = config.data
    longest = getattr(found, "max_len", data.max_len + data.memory)
    if data.max_len + data.memory > longest:
        keys = "data.max_len and data.memory are" if data.memory else "data.max_len is"
        what = f"{keys} {data.max_len + data.memory}, but {config.model['init']} reads at most {longest} tokens"
        fits = f"set data.max_len={longest - data.memory} or less" if longest > data.memory else "lower data.memory"
        raise UserError(what, fits)
    return found


def _family(config: ModelConfig) -> Family:
    return LAYOUTS[config.layout].family


def _overlaid(config: RunConfig, trained: ModelConfig) -> ModelConfig:
    own = {key: value for key, value in config.model.items() if key != "init"}
    return build(type(trained), {**vars(trained), **own}, "model")


def purposed(config: ModelConfig, head: str, labels: tuple[str, ...]) -> ModelConfig:
    return pick(config.layout, LAYOUTS, "layout").with_head(config, head, labels) if head else config


def must_serve(config: RunConfig, head: str) -> None:
    """A model of this layout may have no head for the task, and then some other model is needed."""
    if "init" in config.model:
        layout, name = _trained(config).layout, str(config.model["init"])
    else:
        layout, name = model_settings(config)[1]["layout"], str(config.model.get("preset", DEFAULT_PRESET))
    if not head or pick(layout, LAYOUTS, "layout").has_head(head):
        return
    if config.model == {"preset": DEFAULT_PRESET}:
        hint = (
            f"{STARTS.get(head, 'give --init')}; or fresh weights: --set model.preset=..., as in `regard list presets`"
        )
        raise UserError(f"nothing says which model is to learn the task '{config.task}'", hint)
    hint = STARTS.get(head, "give another model; `regard list presets` shows what there is")
    raise UserError(f"{name}, a model of the layout '{layout}', cannot learn the task '{config.task}'", hint)


def _built(config: RunConfig, family: Family, settings: dict[str, Any]) -> ModelConfig:
    longest = config.data.max_len + config.data.memory
    return build(family.config, {**settings, "max_len": max(longest, 8)}, "model")


def check_model(config: RunConfig, head: str, *, pictures: bool = False) -> None:
    """Before any work, and without memory: does [model] hold together, and can it do what the task asks?"""
    labels = ("a", "b") if head in ("classify", "tag") else ()
    if head == "replaced_token" and "init" in config.model:
        hint = "give model.preset; a model is trained on with another task, such as classify"
        raise UserError("generator and discriminator begin together, and not from a trained model", hint)
    with without_memory():
        if not head and "init" not in config.model:
            must_translate(model_settings(config)[0], config)
        described(config, pictures=pictures)
        must_serve(config, head)
        if "init" in config.model:
            model = _family(trained := _trained(config)).build(purposed(_overlaid(config, trained), head, labels))
        else:
            family, settings = model_settings(config)
            last = config.text.vocab_size - 1
            ids = {"vocab_size": last + 1, "pad_id": last, "eos_ids": (0,), **({} if head else {"start_id": last})}
            sized = build(family.config, settings, "model") if pictures and head else None
            own = sized or _built(config, family, settings | ids)
            model = _whole(config, family, purposed(own, head, labels))
        if not head and not hasattr(model, "encode"):
            raise UserError(f"{config.model['init']} does not translate", "give a model with an encoder and a decoder")
        if config.data.memory and not isinstance(model, Gpt):
            raise UserError(f"data.memory is {config.data.memory}, but the model has no attention to look back with")
        for part in model.parts.values():
            check_layout(part)


def must_translate(family: Family, config: RunConfig) -> None:
    name = str(config.model.get("preset", DEFAULT_PRESET))
    if not hasattr(family.build(family.presets[name]), "encode"):
        hint = "choose a preset with an encoder and a decoder; `regard list presets` shows all"
        raise UserError(f"{name} does not translate", hint)


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
    own = {key: value for key, value in config.model.items() if key != "generator"}
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
            if module.weight.requires_grad:
                module.weight.register_post_accumulate_grad_hook(clear)


def new_optimizer(config: RunConfig, model: Model) -> torch.optim.Optimizer:
    train = config.train
    kind = torch.optim.AdamW if train.optimizer == "adamw" else torch.optim.Adam
    groups = list(parameter_groups(model, train))
    return kind(groups, lr=train.lr, betas=(train.beta1, train.beta2), eps=train.eps, fused=True)


def parameter_groups(model: Model, train: TrainConfig) -> Iterator[dict[str, Any]]:
    """Weights that learn alike: `scale` is their share of the learning rate. Biases and norms do not decay."""
    depths = {name: _depth(name) for name, parameter in model.named_parameters() if parameter.requires_grad}
    n_layers = max((depth for depth in depths.values() if depth is not None), default=0)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if name in depths:
            depth = depths[name]
            scale = 1.0 if depth is None else train.layer_decay ** (n_layers + 1 - depth)
            groups.setdefault((scale, train.weight_decay if parameter.dim() > 1 else 0.0), []).append(parameter)
    for (scale, decay), parameters in groups.items():
        yield {"params": parameters, "scale": scale, "weight_decay": decay}


def _depth(name: str) -> int | None:
    """0 for an embedding, 1 for the lowest block; None for what stands on top of them."""
    if found := re.search(r"\.blocks\.(\d+)\.", name):
        return int(found[1]) + 1
    return 0 if ".embed." in name else None


def autocast_type(config: RunConfig) -> torch.dtype | None:
    wanted = config.train.precision
    on_cpu = torch.ops.mkldnn._is_mkldnn_bf16_supported  # elsewhere it is emulated, and slow
    has_bf16 = torch.cuda.is_bf16_supported() if config.train.device == "cuda" else on_cpu()
    return torch.bfloat16 if wanted == "bf16" or (wanted == "auto" and has_bf16) else None
