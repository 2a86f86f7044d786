"""What the tables of a layout cannot say key by key: a few pairs of reading and writing, and constant tensors."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.config import require
from regard.errors import UserError, pick
from regard.layers.position import sinusoids

Theirs = Mapping[str, Any]


@dataclass(frozen=True)
class Special:
    read: Callable[[Theirs, Collection[str]], dict[str, Any]] = lambda theirs, names: {}
    "From config.json and the names of the tensors to settings of ours."
    write: Callable[[Any], dict[str, Any]] = lambda config: {}
    "From our configuration to keys of config.json."
    constants: Callable[[Any, Mapping[str, Tensor]], dict[str, Tensor]] = lambda config, theirs: {}
    "Tensors that follow from the configuration, or from the others, and are written because transformers expects them."
    implied: Callable[[Any], dict[str, tuple[int, int]]] = lambda config: {}
    "Tables of sinusoids, by their shape: a file that holds other numbers there is another model."
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    "What a model is for -> its settings, where not a class of theirs says so but a key."


_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip


CODECS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "activation": (
        lambda name: pick(name, _ACTIVATIONS, "activation in config.json:"),
        lambda name: next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == name),
    ),
    "image_size": (
        lambda size: size if isinstance(size, list) else [size, size],
        lambda size: size[0] if size[0] == size[1] else list(size),
    ),
}
"Fields of ours that are spelt otherwise in config.json: how to read and to write them."
CODECS["decoder_activation"] = CODECS["activation"]


def _read_classifier_dropout(theirs: Theirs, _names: Collection[str]) -> dict[str, Any]:
    own = theirs.get("classifier_dropout")
    return {"pooled_heads_dropout": theirs.get("hidden_dropout_prob", 0.1) if own is None else own}


def _bert(unused_bias: str = "") -> Special:
    """Untied, transformers has two output biases, of which it uses the one inside the output layer."""

    def constants(config: Any, _theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        unused = bool(unused_bias) and not config.tie and "masked_lm" in config.heads
        return {unused_bias: torch.zeros(config.vocab_size)} if unused else {}

    return Special(_read_classifier_dropout, lambda ours: {"classifier_dropout": ours.pooled_heads_dropout}, constants)


def _read_gpt2(theirs: Theirs, _names: Collection[str]) -> dict[str, Any]:
    width = theirs.get("n_inner")
    return {"d_ff": 4 * theirs.get("n_embd", 768) if width is None else width}


def _read_gpt(theirs: Theirs, names: Collection[str]) -> dict[str, Any]:
    approximate = {"activation": "gelu_tanh"} if theirs.get("afn", "gelu") == "gelu" else {}  # so it was called in 2018
    return _read_gpt2(theirs, names) | approximate


_ROPE = {key: key for key in ("factor", "low_freq_factor", "high_freq_factor")}
_ROPE["original_max_position_embeddings"] = "original_max_len"


def _read_rope(theirs: Theirs, _names: Collection[str]) -> dict[str, Any]:
    """Transformers 5 writes `rope_parameters`, earlier ones `rope_theta` and `rope_scaling`."""
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise UserError("config.json: the rotary parameters are not a table")
    theta = rope.get("rope_theta", theirs.get("rope_theta", 10_000.0))
    for key, value in {"rope_scaling": rope, "rope_theta": theta}.items():
        require(theirs.get(key) in (None, value), f"config.json: {key} contradicts rope_parameters", "keep one of them")
    kind = rope.get("rope_type") or rope.get("type") or "default"
    scaling = {"kind": kind} | {ours: rope[key] for key, ours in _ROPE.items() if key in rope}
    return {"rope_theta": theta, "rope_scaling": None if kind == "default" else scaling}


def _write_rope(config: Any) -> dict[str, Any]:
    rope = {"rope_theta": config.rope_theta, "rope_type": "default"}
    if (scaling := config.rope_scaling) is not None:
        keys = _ROPE if scaling.kind == "llama3" else ["factor"]
        rope |= {"rope_type": scaling.kind} | {key: getattr(scaling, _ROPE[key]) for key in keys}
    return {"rope_parameters": rope}


def _read_llama(theirs: Theirs, names: Collection[str]) -> dict[str, Any]:
    bias = theirs.get("attention_bias", False)
    return _read_rope(theirs, names) | {"qkv_bias": bias, "out_bias": bias}


_FEED_FORWARD = {
    "relu": ("relu", False), "gated-gelu": ("gelu_tanh", True), "gated-relu": ("relu", True),
    "gated-silu": ("silu", True), "gelu": ("gelu", False), "gelu_new": ("gelu_tanh", False), "silu": ("silu", False),
}  # fmt: skip


def _read_t5(theirs: Theirs, names: Collection[str]) -> dict[str, Any]:
    activation, gated = pick(theirs.get("feed_forward_proj", "relu"), _FEED_FORWARD, "feed_forward_proj")
    scaled = theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True) is not False)
    # v1.1 has an output layer of its own and scales nothing; transformers tells them apart by the file
    tie = "sides" if not scaled and "lm_head.weight" in names else "all"
    dropout = dict.fromkeys(("attn_dropout", "ffn_dropout"), theirs.get("dropout_rate", 0.1))
    return {"activation": activation, "gated": gated, "tie": tie, "scale_logits": scaled, **dropout}


def _write_t5(config: Any) -> dict[str, Any]:
    names = {choice: name for name, choice in _FEED_FORWARD.items()}
    return {
        "feed_forward_proj": names.get((config.activation, config.gated), "relu"),  # Layout.check finds the lost ones
        "tie_word_embeddings": config.tie == "all",
        "scale_decoder_outputs": config.scale_logits,
        "is_encoder_decoder": True,
    }


def _read_bart(theirs: Theirs, _names: Collection[str]) -> dict[str, Any]:
    sides = bool(theirs.get("share_encoder_decoder_embeddings", True))
    # Untied, transformers 5 shares nothing; a file of earlier ones holds only the table that both sides shared.
    output = bool(theirs.get("tie_word_embeddings", True))
    return {"tie": ("all" if sides else "target") if output else "none"}


def _write_bart(config: Any) -> dict[str, Any]:
    return {"tie_word_embeddings": config.tie in ("all", "target"), "is_encoder_decoder": True}


def _unused_table(config: Any, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"model.shared.weight": theirs["model.encoder.embed_tokens.weight"].clone()} if config.tie == "none" else {}


def _read_marian(theirs: Theirs, names: Collection[str]) -> dict[str, Any]:
    return _read_bart(theirs, names) | {"target_vocab_size": theirs.get("decoder_vocab_size")}


def _write_marian(config: Any) -> dict[str, Any]:
    shared = config.tie == "all"
    return _write_bart(config) | {"share_encoder_decoder_embeddings": shared, "decoder_vocab_size": config.out_size}


_PEGASUS = {"normalize_before": True, "normalize_embedding": False, "forced_eos_token_id": None}
"What CTranslate2 asks the file for, and no end that transformers would force where ours has another number."


def _positions(config: Any) -> dict[str, tuple[int, int]]:
    return {f"model.{side}.embed_positions.weight": (config.max_len, config.d_model) for side in ("encoder", "decoder")}


def _read_captioner(theirs: Theirs, _names: Collection[str]) -> dict[str, Any]:
    width, inner = theirs.get("encoder.hidden_size", 768), theirs.get("decoder.n_inner")
    found = f"the decoder is {theirs.get('decoder.n_embd', 768)} wide, the encoder {width}"
    require(theirs.get("decoder.n_embd", 768) == width, found, "only models of one width are supported")
    return {"d_decoder_ff": 4 * width if inner is None else inner}


def _write_captioner(config: Any) -> dict[str, Any]:
    drops = {f"decoder.{name}": config.dropout for name in ("resid_pdrop", "embd_pdrop")}
    return drops | {
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # the halves have tables of their own; the decoder ties its own two
        "encoder.model_type": "vit",
        "decoder.model_type": "gpt2",
        "decoder.n_embd": config.d_model,
        "decoder.n_inner": config.d_decoder_ff,
        "decoder.attn_pdrop": config.attn_dropout,
        "decoder.is_decoder": True,
        "decoder.add_cross_attention": True,
        "decoder.eos_token_id": config.eos_ids[0] if config.eos_ids else None,
        "decoder.pad_token_id": config.pad_id,
    }


def _unused_pooler(config: Any, _theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    wide = config.d_model
    return {"encoder.pooler.dense.weight": torch.zeros(wide, wide), "encoder.pooler.dense.bias": torch.zeros(wide)}


SPECIAL: dict[str, Special] = {
    "deit": Special(heads={"classify": {"head": "teacher", "pooler": "none"}}),
    "regard-convnet": Special(heads={"classify": {}}),
    "regard-perceiver": Special(heads={"classify": {}}),
    "vision-encoder-decoder": Special(_read_captioner, _write_captioner, _unused_pooler),
    "bert": replace(
        _bert("cls.predictions.bias"),
        heads={"pre_training": {"heads": ["masked_lm", "next_sentence"], "pooler": "tanh"}},
    ),
    "roberta": _bert("lm_head.bias"),
    "electra": _bert(),
    "gpt2": Special(_read_gpt2, lambda config: {"n_inner": config.d_ff, "embd_pdrop": config.dropout}),
    "openai-gpt": Special(_read_gpt, lambda config: {"afn": "gelu"} if config.activation == "gelu_tanh" else {}),
    "llama": Special(_read_llama, lambda config: _write_rope(config) | {"attention_bias": config.qkv_bias}),
    "qwen2": Special(_read_rope, _write_rope),
    "t5": Special(_read_t5, _write_t5),
    "bart": Special(_read_bart, _write_bart, _unused_table),
    "marian": Special(_read_marian, _write_marian, implied=_positions),
    "pegasus": Special(
        _read_bart,
        lambda config: _write_bart(config) | _PEGASUS,
        lambda config, theirs: (
            _unused_table(config, theirs)
            | {name: sinusoids(*shape, interleaved=False) for name, shape in _positions(config).items()}
        ),
        _positions,
    ),
    "regard-recurrent": Special(
        heads={
            "classify": {"kind": "classifier", "attention": "none"},
            "language_model": {"kind": "language_model", "attention": "none", "bidirectional": False},
        }
    ),
}
