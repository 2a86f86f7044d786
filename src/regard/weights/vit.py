"""ViT and DeiT on disk."""

from dataclasses import replace
from typing import Any

from regard.models.vit import Vit, VitConfig
from regard.weights.layout import Architecture, Key, Layout, activation


def _pair(size: Any) -> tuple[int, int]:
    height, width = size if isinstance(size, list) else (size, size)
    return height, width


def _one_if_square(size: tuple[int, int]) -> int | list[int]:
    return size[0] if size[0] == size[1] else list(size)


def _body(name: str) -> dict[str, str]:
    layer, block = f"{name}.encoder.layer.{{}}", "encoder.blocks.{}"
    return {
        f"{name}.embeddings.cls_token": "embed.first",
        f"{name}.embeddings.distillation_token": "embed.distil",
        f"{name}.embeddings.position_embeddings": "embed.position",
        f"{name}.embeddings.patch_embeddings.projection": "embed.project",
        f"{layer}.layernorm_before": f"{block}.attn_residual.norm",
        f"{layer}.attention.attention.query": f"{block}.attn.q",
        f"{layer}.attention.attention.key": f"{block}.attn.k",
        f"{layer}.attention.attention.value": f"{block}.attn.v",
        f"{layer}.attention.output.dense": f"{block}.attn.o",
        f"{layer}.layernorm_after": f"{block}.ffn_residual.norm",
        f"{layer}.intermediate.dense": f"{block}.ffn.up",
        f"{layer}.output.dense": f"{block}.ffn.down",
        f"{name}.layernorm": "encoder.norm",
    }


VIT = Layout(
    model_type="vit",
    config_class=VitConfig,
    build=Vit,
    keys={
        "hidden_size": Key("d_model", 768),
        "num_hidden_layers": Key("n_layers", 12),
        "num_attention_heads": Key("n_heads", 12),
        "intermediate_size": Key("d_ff", 3072),
        "hidden_act": activation("activation", "gelu"),
        "hidden_dropout_prob": Key("dropout", 0.0),
        "attention_probs_dropout_prob": Key("attn_dropout", 0.0),
        "layer_norm_eps": Key("norm_eps", 1e-12),
        "image_size": Key("image_size", (224, 224), _pair, _one_if_square),
        "patch_size": Key("patch_size", 16),
        "num_channels": Key("channels", 3),
        "qkv_bias": Key("qkv_bias", True),
    },
    table=_body("vit"),
    prefix="vit",
    architectures={
        "ViTForImageClassification": Architecture(
            {"head": "classify", "pooler": None}, {"classifier": "classify"}, labelled=True
        ),
        "ViTModel": Architecture({"head": "none", "pooler": "tanh"}, {"vit.pooler.dense": "pooler.dense"}, bare=True),
    },
)

DEIT = replace(
    VIT,
    model_type="deit",
    fixed={"distil": True},
    table=_body("deit"),
    prefix="deit",
    architectures={
        "DeiTForImageClassificationWithTeacher": Architecture(
            {"head": "teacher", "pooler": None},
            {"cls_classifier": "classify", "distillation_classifier": "classify_distil"},
            labelled=True,
        ),
        "DeiTForImageClassification": Architecture(
            {"head": "classify", "pooler": None}, {"classifier": "classify"}, labelled=True
        ),
        "DeiTModel": Architecture({"head": "none", "pooler": "tanh"}, {"deit.pooler.dense": "pooler.dense"}, bare=True),
    },
)

LAYOUTS = (VIT, DEIT)
