"""BART, Marian and Pegasus on disk: one naming, three kinds of positions and norms."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.layers.position import sinusoids
from regard.models.transformer import Transformer, TransformerConfig
from regard.weights.keymap import Edit, unsqueezed
from regard.weights.layout import Architecture, Key, Layout, activation

_CONFIG = {
    "vocab_size": Key("vocab_size", 50_265),
    "d_model": Key("d_model", 1024),
    "encoder_layers": Key("n_layers", 12),
    "decoder_layers": Key("n_decoder_layers", 12),
    "encoder_attention_heads": Key("n_heads", 16),
    "decoder_attention_heads": Key("n_decoder_heads", 16),
    "encoder_ffn_dim": Key("d_ff", 4096),
    "decoder_ffn_dim": Key("d_decoder_ff", 4096),
    "activation_function": activation("activation", "gelu"),
    "dropout": Key("dropout", 0.1),
    "attention_dropout": Key("attn_dropout", 0.0),
    "activation_dropout": Key("ffn_dropout", 0.0),
    "max_position_embeddings": Key("max_len", 1024),
    "scale_embedding": Key("embed_scale", False),
    "pad_token_id": Key("pad_id", 1),
    "bos_token_id": Key("bos_id", 0),
    "decoder_start_token_id": Key("start_id", 2),
}


def _stack(side: str) -> dict[str, str]:
    theirs, ours = f"model.{side}.layers.{{}}", f"{side}.blocks.{{}}"
    table = {
        f"{theirs}.self_attn_layer_norm": f"{ours}.attn_residual.norm",
        f"{theirs}.fc1": f"{ours}.ffn.up",
        f"{theirs}.fc2": f"{ours}.ffn.down",
        f"{theirs}.final_layer_norm": f"{ours}.ffn_residual.norm",
        f"model.{side}.layer_norm": f"{side}.norm",
        f"model.{side}.layernorm_embedding": f"{side}.embed.norm",
    }
    kinds = {"self_attn": "attn", "encoder_attn": "cross"} if side == "decoder" else {"self_attn": "attn"}
    for their_kind, our_kind in kinds.items():
        table |= {f"{theirs}.{their_kind}.{part}_proj": f"{ours}.{our_kind}.{part}" for part in "qkv"}
        table[f"{theirs}.{their_kind}.out_proj"] = f"{ours}.{our_kind}.o"
    if side == "decoder":
        table[f"{theirs}.encoder_attn_layer_norm"] = f"{ours}.cross_residual.norm"
    return table


_TABLE: dict[str, str | Edit] = {
    **_stack("encoder"),
    **_stack("decoder"),
    "final_logits_bias": unsqueezed("unembed.bias"),
    "lm_head": "unembed",
}


def _read_tie(theirs: Mapping[str, Any], _names: Collection[str]) -> dict[str, Any]:
    sides, output = (theirs.get("share_encoder_decoder_embeddings", True), theirs.get("tie_word_embeddings", True))
    return {"tie": {(1, 1): "all", (0, 1): "target", (1, 0): "sides", (0, 0): "none"}[bool(sides), bool(output)]}


def _write_tie(config: TransformerConfig) -> dict[str, Any]:
    return {"tie_word_embeddings": config.tie in ("all", "target"), "is_encoder_decoder": True}


def _embeddings(config: TransformerConfig) -> dict[str, str]:
    if config.tie in ("all", "sides"):
        return {"model.shared": "encoder.embed.token"}
    return {"model.encoder.embed_tokens": "encoder.embed.token", "model.decoder.embed_tokens": "decoder.embed.token"}


BART = Layout(
    model_type="bart",
    config_class=TransformerConfig,
    build=Transformer,
    keys=_CONFIG,
    fixed={"position": "learned", "position_offset": 2, "embed_norm": True},
    read_more=_read_tie,
    write_more=_write_tie,
    table={
        **_TABLE,
        "model.encoder.embed_positions": "encoder.embed.position",
        "model.decoder.embed_positions": "decoder.embed.position",
    },
    more_tensors=_embeddings,
    ignored=("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"),
    architectures={"BartForConditionalGeneration": Architecture({})},
)


def _read_marian(theirs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return _read_tie(theirs, names) | {"target_vocab_size": theirs.get("decoder_vocab_size")}


def _write_marian(config: TransformerConfig) -> dict[str, Any]:
    return _write_tie(config) | {
        "share_encoder_decoder_embeddings": config.tie in ("all", "sides"),
        "decoder_vocab_size": config.out_size,
    }


MARIAN = replace(
    BART,
    model_type="marian",
    keys=_CONFIG
    | {
        "vocab_size": Key("vocab_size", 58_101),
        "pad_token_id": Key("pad_id", 58_100),
        "decoder_start_token_id": Key("start_id", 58_100),
        "bos_token_id": Key("bos_id"),
    },
    fixed={"position": "sinusoidal_halves"},
    read_more=_read_marian,
    write_more=_write_marian,
    table=_TABLE,
    ignored=(*BART.ignored, "model.encoder.embed_positions", "model.decoder.embed_positions", "model.shared"),
    architectures={"MarianMTModel": Architecture({})},
)


def _pegasus_positions(config: TransformerConfig) -> dict[str, Tensor]:
    table = sinusoids(config.max_len, config.d_model, interleaved=False)
    return {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}


PEGASUS = replace(
    BART,
    model_type="pegasus",
    keys=_CONFIG
    | {"pad_token_id": Key("pad_id", 0), "decoder_start_token_id": Key("start_id", 0), "bos_token_id": Key("bos_id")},
    fixed={"position": "sinusoidal_halves", "norm_order": "pre", "final_norm": True},
    table=_TABLE,
    ignored=(*BART.ignored, "model.encoder.embed_positions", "model.decoder.embed_positions"),
    constants=_pegasus_positions,
    architectures={"PegasusForConditionalGeneration": Architecture({})},
)

LAYOUTS = (BART, MARIAN, PEGASUS)
