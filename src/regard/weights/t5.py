"""T5 on disk, v1.0 and v1.1: the relative bias of a whole stack is stored with its first block."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import pick
from regard.models.transformer import Transformer, TransformerConfig
from regard.weights.layout import Architecture, Key, Layout

_FEED_FORWARD = {
    "relu": ("relu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-relu": ("relu", True),
    "gated-silu": ("silu", True),
    "gelu": ("gelu", False),
    "gelu_new": ("gelu_tanh", False),
    "silu": ("silu", False),
}


def _read(theirs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    activation, gated = pick(theirs.get("feed_forward_proj", "relu"), _FEED_FORWARD, "feed_forward_proj")
    scaled = theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True) is not False)
    dropout = theirs.get("dropout_rate", 0.1)
    return {
        "activation": activation,
        "gated": gated,
        # v1.1 has an output layer of its own and scales nothing; transformers tells them apart by the file
        "tie": "sides" if not scaled and "lm_head.weight" in names else "all",
        "scale_logits": scaled,
        "attn_dropout": dropout,
        "ffn_dropout": dropout,
    }


def _write(config: TransformerConfig) -> dict[str, Any]:
    choice = (config.activation, config.gated)
    names = {value: name for name, value in _FEED_FORWARD.items()}
    return {
        "feed_forward_proj": names.get(choice, "relu"),  # what cannot be expressed is found by Layout.check
        "tie_word_embeddings": config.tie == "all",
        "scale_decoder_outputs": config.scale_logits,
        "is_encoder_decoder": True,
    }


def _stack(side: str, *, cross: bool) -> dict[str, str]:
    theirs, ours = f"{side}.block.{{}}.layer", f"{side}.blocks.{{}}"
    table = {
        f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias": f"{side}.relative.table",
        f"{theirs}.0.layer_norm": f"{ours}.attn_residual.norm",
        f"{theirs}.{2 if cross else 1}.layer_norm": f"{ours}.ffn_residual.norm",
        f"{theirs}.{2 if cross else 1}.DenseReluDense.wo": f"{ours}.ffn.down",
        f"{side}.final_layer_norm": f"{side}.norm",
    }
    table |= {f"{theirs}.0.SelfAttention.{part}": f"{ours}.attn.{part}" for part in "qkvo"}
    if cross:
        table |= {f"{theirs}.1.EncDecAttention.{part}": f"{ours}.cross.{part}" for part in "qkvo"}
        table[f"{theirs}.1.layer_norm"] = f"{ours}.cross_residual.norm"
    return table


def _feed_forward(config: TransformerConfig) -> dict[str, str]:
    table = {}
    for side, layer in (("encoder", 1), ("decoder", 2)):
        theirs, ours = f"{side}.block.{{}}.layer.{layer}.DenseReluDense", f"{side}.blocks.{{}}.ffn"
        if config.gated:
            table |= {f"{theirs}.wi_0": f"{ours}.gate", f"{theirs}.wi_1": f"{ours}.up"}
        else:
            table[f"{theirs}.wi"] = f"{ours}.up"
    return table


T5 = Layout(
    model_type="t5",
    config_class=TransformerConfig,
    build=Transformer,
    keys={
        "vocab_size": Key("vocab_size", 32_128),
        "d_model": Key("d_model", 512),
        "d_kv": Key("d_head", 64),
        "d_ff": Key("d_ff", 2048),
        "num_layers": Key("n_layers", 6),
        "num_decoder_layers": Key("n_decoder_layers"),
        "num_heads": Key("n_heads", 8),
        "relative_attention_num_buckets": Key("n_buckets", 32),
        "relative_attention_max_distance": Key("max_distance", 128),
        "dropout_rate": Key("dropout", 0.1),
        "layer_norm_epsilon": Key("norm_eps", 1e-6),
        "n_positions": Key("max_len", 512),
        "pad_token_id": Key("pad_id", 0),
        "decoder_start_token_id": Key("start_id", 0),
        "bos_token_id": Key("bos_id"),
    },
    fixed={
        "norm": "rms",
        "norm_order": "pre",
        "final_norm": True,
        "position": "relative",
        "qkv_bias": False,
        "out_bias": False,
        "ffn_bias": False,
        "scaled": False,
        "embed_scale": False,
        "logit_bias": False,
    },
    read_more=_read,
    write_more=_write,
    table={"shared": "encoder.embed.token"} | _stack("encoder", cross=False) | _stack("decoder", cross=True),
    more_tensors=_feed_forward,
    ignored=(
        "encoder.embed_tokens",
        "decoder.embed_tokens",
        "lm_head",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias",  # in the first files, never used
    ),
    architectures={"T5ForConditionalGeneration": Architecture({}, {"lm_head": "unembed"})},
)

LAYOUTS = (T5,)
