"""GPT-2 on disk: linear layers are stored (in, out), and queries, keys and values side by side."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.models.gpt import Gpt, GptConfig
from regard.weights.keymap import transposed
from regard.weights.layout import Architecture, Key, Layout, activation


def _inner_width(theirs: Mapping[str, Any], _names: Collection[str]) -> dict[str, Any]:
    width = theirs.get("n_inner")
    return {"d_ff": 4 * theirs.get("n_embd", 768) if width is None else width}


GPT2 = Layout(
    model_type="gpt2",
    config_class=GptConfig,
    build=Gpt,
    keys={
        "vocab_size": Key("vocab_size", 50_257),
        "n_positions": Key("max_len", 1024),
        "n_embd": Key("d_model", 768),
        "n_layer": Key("n_layers", 12),
        "n_head": Key("n_heads", 12),
        "activation_function": activation("activation", "gelu_tanh"),
        "resid_pdrop": Key("dropout", 0.1),
        "attn_pdrop": Key("attn_dropout", 0.1),
        "layer_norm_epsilon": Key("norm_eps", 1e-5),
        "bos_token_id": Key("bos_id", 50_256),
        "pad_token_id": Key("pad_id"),
        "tie_word_embeddings": Key("tie", True),
    },
    refused={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    read_more=_inner_width,
    write_more=lambda config: {"n_inner": config.d_ff, "embd_pdrop": config.dropout},
    table={
        "transformer.wte": "decoder.embed.token",
        "transformer.wpe": "decoder.embed.position",
        "transformer.h.{}.ln_1": "decoder.blocks.{}.attn_residual.norm",
        "transformer.h.{}.attn.c_attn": transposed(
            "decoder.blocks.{}.attn.q", "decoder.blocks.{}.attn.k", "decoder.blocks.{}.attn.v"
        ),
        "transformer.h.{}.attn.c_proj": transposed("decoder.blocks.{}.attn.o"),
        "transformer.h.{}.ln_2": "decoder.blocks.{}.ffn_residual.norm",
        "transformer.h.{}.mlp.c_fc": transposed("decoder.blocks.{}.ffn.up"),
        "transformer.h.{}.mlp.c_proj": transposed("decoder.blocks.{}.ffn.down"),
        "transformer.ln_f": "decoder.norm",
    },
    prefix="transformer",
    ignored=("transformer.h.{}.attn.bias", "transformer.h.{}.attn.masked_bias", "lm_head"),
    architectures={
        "GPT2LMHeadModel": Architecture({"head": "language_model"}, {"lm_head": "unembed"}),
        "GPT2Model": Architecture({"head": "none"}, bare=True),
        "GPT2ForSequenceClassification": Architecture({"head": "classify"}, {"score": "classify"}, labelled=True),
    },
)

LAYOUTS = (GPT2,)
