"""The Llama family on disk: Hugging Face directories (llama, qwen2) and GGUF files."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.models.gpt import Gpt, GptConfig
from regard.weights.keymap import Edit
from regard.weights.layout import Architecture, Key, Layout, activation

_BLOCK, _LAYER = "decoder.blocks.{}", "model.layers.{}"


def _read_rope(theirs: Mapping[str, Any], _names: Collection[str] = ()) -> dict[str, Any]:
    """Transformers 5 writes `rope_parameters`, earlier ones `rope_theta` and `rope_scaling`."""
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise UserError("config.json: the rotary parameters are not a table")
    theta = rope.get("rope_theta") or theirs.get("rope_theta") or 10_000.0
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return {"rope_theta": theta, "rope_scaling": None}
    names = {
        "factor": "factor",
        "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor",
        "original_max_position_embeddings": "original_max_len",
    }
    scaling = {ours: rope[key] for key, ours in names.items() if key in rope}
    return {"rope_theta": theta, "rope_scaling": {"kind": kind, **scaling}}


def _write_rope(config: GptConfig) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_theta": config.rope_theta, "rope_type": "default"}
    if (scaling := config.rope_scaling) is not None:
        rope |= {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind == "llama3":
            rope |= {
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_len,
            }
    return {"rope_parameters": rope}


def _read_llama(theirs: Mapping[str, Any], _names: Collection[str]) -> dict[str, Any]:
    bias = theirs.get("attention_bias", False)
    return _read_rope(theirs) | {"qkv_bias": bias, "out_bias": bias}


_FIXED = {"norm": "rms", "position": "rotary", "gated": True}

LLAMA = Layout(
    model_type="llama",
    config_class=GptConfig,
    build=Gpt,
    keys={
        "vocab_size": Key("vocab_size", 32_000),
        "hidden_size": Key("d_model", 4096),
        "num_hidden_layers": Key("n_layers", 32),
        "num_attention_heads": Key("n_heads", 32),
        "num_key_value_heads": Key("n_kv_heads"),
        "head_dim": Key("d_head"),
        "intermediate_size": Key("d_ff", 11_008),
        "hidden_act": activation("activation", "silu"),
        "attention_dropout": Key("attn_dropout", 0.0),
        "max_position_embeddings": Key("max_len", 2048),
        "rms_norm_eps": Key("norm_eps", 1e-6),
        "mlp_bias": Key("ffn_bias", False),
        "bos_token_id": Key("bos_id", 1),
        "pad_token_id": Key("pad_id"),
        "tie_word_embeddings": Key("tie", False),
    },
    fixed=_FIXED,
    read_more=_read_llama,
    write_more=lambda config: _write_rope(config) | {"attention_bias": config.qkv_bias},
    table={
        "model.embed_tokens": "decoder.embed.token",
        f"{_LAYER}.input_layernorm": f"{_BLOCK}.attn_residual.norm",
        f"{_LAYER}.self_attn.q_proj": f"{_BLOCK}.attn.q",
        f"{_LAYER}.self_attn.k_proj": f"{_BLOCK}.attn.k",
        f"{_LAYER}.self_attn.v_proj": f"{_BLOCK}.attn.v",
        f"{_LAYER}.self_attn.o_proj": f"{_BLOCK}.attn.o",
        f"{_LAYER}.post_attention_layernorm": f"{_BLOCK}.ffn_residual.norm",
        f"{_LAYER}.mlp.gate_proj": f"{_BLOCK}.ffn.gate",
        f"{_LAYER}.mlp.up_proj": f"{_BLOCK}.ffn.up",
        f"{_LAYER}.mlp.down_proj": f"{_BLOCK}.ffn.down",
        "model.norm": "decoder.norm",
    },
    prefix="model",
    ignored=(f"{_LAYER}.self_attn.rotary_emb.inv_freq", "lm_head"),
    architectures={
        "LlamaForCausalLM": Architecture({"head": "language_model"}, {"lm_head": "unembed"}),
        "LlamaModel": Architecture({"head": "none"}, bare=True),
        "LlamaForSequenceClassification": Architecture({"head": "classify"}, {"score": "classify"}, labelled=True),
    },
)

QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    keys={key: entry for key, entry in LLAMA.keys.items() if key not in ("mlp_bias", "head_dim")}
    | {
        "vocab_size": Key("vocab_size", 151_936),
        "num_key_value_heads": Key("n_kv_heads", 32),
        "intermediate_size": Key("d_ff", 22_016),
        "max_position_embeddings": Key("max_len", 32_768),
        "bos_token_id": Key("bos_id"),
    },
    fixed=_FIXED | {"qkv_bias": True, "out_bias": False, "ffn_bias": False},
    refused={"use_sliding_window": (False, None)},
    read_more=_read_rope,
    write_more=_write_rope,
    architectures={name.replace("Llama", "Qwen2"): architecture for name, architecture in LLAMA.architectures.items()},
)

LAYOUTS = (LLAMA, QWEN2)


def gguf_table(n_heads: int, n_kv_heads: int, *, permuted: bool) -> dict[str, str | Edit]:
    """GGUF's names. llama.cpp turns neighbouring pairs, so its converter permutes the rows of q and k for Llama."""
    q, k = "decoder.blocks.{}.attn.q", "decoder.blocks.{}.attn.k"
    return {
        "token_embd": "decoder.embed.token",
        "blk.{}.attn_norm": f"{_BLOCK}.attn_residual.norm",
        "blk.{}.attn_q": interleaved(q, n_heads) if permuted else q,
        "blk.{}.attn_k": interleaved(k, n_kv_heads) if permuted else k,
        "blk.{}.attn_v": f"{_BLOCK}.attn.v",
        "blk.{}.attn_output": f"{_BLOCK}.attn.o",
        "blk.{}.ffn_norm": f"{_BLOCK}.ffn_residual.norm",
        "blk.{}.ffn_gate": f"{_BLOCK}.ffn.gate",
        "blk.{}.ffn_up": f"{_BLOCK}.ffn.up",
        "blk.{}.ffn_down": f"{_BLOCK}.ffn.down",
        "output_norm": "decoder.norm",
        "output": "unembed",
    }


def interleaved(ours: str, n_heads: int) -> Edit:
    """Rows of each head stored as pairs (0, K/2, 1, K/2 + 1 ...) instead of halves."""

    def split(tensor: Tensor) -> tuple[Tensor, ...]:
        pairs = tensor.unflatten(0, (n_heads, -1, 2))  # (H, K/2, 2, ...)
        return (pairs.transpose(1, 2).flatten(0, 2).contiguous(),)

    def join(tensors: list[Tensor]) -> Tensor:
        halves = tensors[0].unflatten(0, (n_heads, 2, -1))  # (H, 2, K/2, ...)
        return halves.transpose(1, 2).flatten(0, 2).contiguous()

    return Edit((ours,), split, join)
