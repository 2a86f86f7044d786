"""The Llama family (Touvron et al. 2023): GPT with rotary positions, RMS norm, gated feed-forward, shared keys.

SmolLM2, TinyLlama and Qwen2 are configurations of it; Qwen2 has biases on queries, keys and values.
"""

from dataclasses import replace

from regard.layers.position import RopeScaling
from regard.models.gpt import GptConfig

_LLAMA = GptConfig(
    layout="llama",
    vocab_size=32_000,
    bos_id=1,
    eos_ids=(2,),
    d_model=4096,
    n_heads=32,
    d_ff=11_008,
    n_layers=32,
    max_len=4096,
    activation="silu",
    gated=True,
    norm="rms",
    position="rotary",
    qkv_bias=False,
    out_bias=False,
    ffn_bias=False,
    tie=False,
)
_SMOL = replace(_LLAMA, vocab_size=49_152, eos_ids=(2,), max_len=8192, rope_theta=100_000.0, tie=True, norm_eps=1e-5)

PRESETS: dict[str, GptConfig] = {
    "llama2-7b": _LLAMA,
    "llama3.1-8b": replace(
        _LLAMA,
        vocab_size=128_256,
        bos_id=128_000,
        eos_ids=(128_001,),
        n_kv_heads=8,
        d_ff=14_336,
        max_len=131_072,
        rope_theta=500_000.0,
        rope_scaling=RopeScaling(),
    ),
    "tinyllama-1.1b": replace(_LLAMA, d_model=2048, n_kv_heads=4, d_ff=5632, n_layers=22, max_len=2048),
    "smollm2-135m": replace(_SMOL, d_model=576, n_heads=9, n_kv_heads=3, d_ff=1536, n_layers=30),
    "smollm2-360m": replace(_SMOL, d_model=960, n_heads=15, n_kv_heads=5, d_ff=2560, n_layers=32),
    "qwen2-0.5b": replace(
        _LLAMA,
        layout="qwen2",
        vocab_size=151_936,
        bos_id=151_643,
        eos_ids=(151_643,),
        d_model=896,
        n_heads=14,
        n_kv_heads=2,
        d_ff=4864,
        n_layers=24,
        max_len=32_768,
        rope_theta=1_000_000.0,
        qkv_bias=True,
        norm_eps=1e-6,
        tie=True,
    ),
}
