"""T5 (Raffel et al. 2020): every task as text to text; relative positions, no biases, unscaled attention."""

from dataclasses import replace

from regard.models.transformer import TransformerConfig

_T5 = TransformerConfig(
    layout="t5",
    vocab_size=32_128,
    pad_id=0,
    eos_ids=(1,),
    start_id=0,
    d_head=64,
    norm="rms",
    norm_order="pre",
    norm_eps=1e-6,
    final_norm=True,
    position="relative",
    qkv_bias=False,
    out_bias=False,
    ffn_bias=False,
    scaled=False,
    embed_scale=False,
    ffn_dropout=0.1,
    attn_dropout=0.1,
    logit_bias=False,
    logit_scale=512**-0.5,
)
_V1_1 = replace(_T5, activation="gelu_tanh", gated=True, tie="sides", logit_scale=1.0)

PRESETS: dict[str, TransformerConfig] = {
    "t5-small": _T5,
    "t5-base": replace(_T5, d_model=768, n_heads=12, d_ff=3072, n_layers=12, logit_scale=768**-0.5),
    "t5-large": replace(_T5, d_model=1024, n_heads=16, d_ff=4096, n_layers=24, logit_scale=1024**-0.5),
    "t5-v1.1-small": replace(_V1_1, d_ff=1024, n_heads=6, n_layers=8),
    "t5-v1.1-base": replace(_V1_1, d_model=768, n_heads=12, d_ff=2048, n_layers=12),
}
