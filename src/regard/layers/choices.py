"""Every choice that tells one family of Transformers from another. A family is one value of `StackConfig`."""

from dataclasses import dataclass
from typing import Any

from regard.config import require
from regard.layers.feedforward import Activation
from regard.layers.norm import NormKind
from regard.layers.position import PositionKind, RopeScaling
from regard.layers.residual import NormOrder

MAX_LAYERS = 1_000
"More is a mistake or an attack."


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """One block: attention, perhaps cross-attention, feed-forward, each with its residual and norm."""

    d_model: int = 512
    "Width of the residual stream."
    n_heads: int = 8
    "Attention heads; must divide d_model unless d_head is given."
    n_kv_heads: int | None = None
    "Heads of keys and values, fewer than n_heads when queries share them; all of them when absent."
    d_head: int | None = None
    "Width of one head; d_model / n_heads when absent."
    d_ff: int = 2048
    "Inner width of the feed-forward network."
    activation: Activation = "relu"
    "What stands between the two layers of the feed-forward network."
    gated: bool = False
    "Whether a second projection multiplies the activation."
    norm: NormKind = "layer"
    "Layer norm, or RMS norm without mean and shift."
    norm_order: NormOrder = "post"
    "Where the norm sits: post in 2017 and BERT, pre in GPT-2, T5 and ViT."
    norm_eps: float = 1e-5
    "Added to the variance so that nothing is divided by zero."
    qkv_bias: bool = True
    "Whether the projections to queries, keys and values have a bias."
    out_bias: bool = True
    "Whether the projection after the heads has a bias."
    ffn_bias: bool = True
    "Whether the feed-forward layers have a bias."
    scaled: bool = True
    "Whether scores are divided by the square root of d_head; T5 does without."
    window: int | None = None
    "Local attention: how many steps to either side a token sees; all of them when absent."
    dropout: float = 0.0
    "Share of numbers dropped after each sub-layer and after the embedding."
    attn_dropout: float = 0.0
    "Share of attention weights dropped."
    ffn_dropout: float = 0.0
    "Share of inner feed-forward numbers dropped."

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "window"):
            value = getattr(self, name)
            require(value is None or 0 < value <= 2**24, f"{name} is {value}", "expected a sensible positive number")
        for name in ("dropout", "attn_dropout", "ffn_dropout"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"{name} is {value}", "expected a share from 0 up to, not including, 1")
        require(
            self.d_head is not None or self.d_model % self.n_heads == 0,
            f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}",
            "change one of them or give d_head",
        )
        require(
            self.n_heads % (self.n_kv_heads or self.n_heads) == 0,
            f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.n_kv_heads}",
        )
        require(self.norm_eps > 0, f"norm_eps is {self.norm_eps}", "expected a small positive number")

    @property
    def head_width(self) -> int:
        return self.d_head or self.d_model // self.n_heads

    def filled(self) -> dict[str, Any]:
        """All fields, with what the absent ones stand for."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"n_kv_heads": self.n_kv_heads or self.n_heads, "d_head": self.head_width}


@dataclass(frozen=True, kw_only=True)
class StackConfig(BlockConfig):
    """A stack of equal blocks with what comes before it (embedding, positions) and after it (final norm)."""

    n_layers: int = 6
    "Blocks, one above the other."
    final_norm: bool = False
    "A last norm after the blocks; pre-norm stacks need one."
    position: PositionKind = "sinusoidal"
    "How a token learns its place."
    max_len: int = 512
    "The longest text in tokens; learned positions end there, the others only count on it."
    position_offset: int = 0
    "Unused leading rows of the learned positions (BART and RoBERTa keep two)."
    n_buckets: int = 32
    "Relative positions: how many distances have a score of their own."
    max_distance: int = 128
    "Relative positions: all distances beyond share one score."
    rope_theta: float = 10_000.0
    "Rotary positions: the larger, the slower the slowest wave turns (once in about 2π times as many tokens)."
    rope_scaling: RopeScaling | None = None
    "Rotary positions: slower turning for longer texts."
    d_embed: int | None = None
    "Width of a narrow embedding that is projected up to d_model (ELECTRA); d_model when absent."
    embed_scale: bool = False
    "Whether token vectors are multiplied by the square root of d_model, as in 2017."
    embed_norm: bool = False
    "Whether the summed embedding is normalised, as in BERT."
    n_segments: int = 0
    "Kinds of segment (sentence A, sentence B) with a vector of their own."

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.n_layers <= MAX_LAYERS, f"n_layers is {self.n_layers}", f"expected 0 to {MAX_LAYERS}")
        for name in ("max_len", "d_embed", "n_buckets", "max_distance", "rope_theta"):
            value = getattr(self, name)
            require(value is None or 0 < value < 1e12, f"{name} is {value}", "expected a sensible positive number")
        require(0 <= self.n_segments <= 1024, f"n_segments is {self.n_segments}", "expected 0 to 1024")
        require(0 <= self.position_offset <= 1024, f"position_offset is {self.position_offset}")
        require(
            self.position != "rotary" or self.head_width % 2 == 0,
            f"rotary positions turn pairs, but a head is {self.head_width} wide",
        )
        require(
            self.position != "relative" or (self.n_buckets >= 4 and self.max_distance > self.n_buckets // 2),
            f"relative positions with {self.n_buckets} buckets up to distance {self.max_distance}",
            "expected at least 4 buckets, and a distance beyond half of them",
        )

    def filled(self) -> dict[str, Any]:
        return super().filled() | {"d_embed": self.d_embed or self.d_model}
