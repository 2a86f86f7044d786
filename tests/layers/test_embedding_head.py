"""What comes before the first block and after the last one."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.layers.choices import StackConfig
from regard.layers.embedding import Embedding, PatchEmbedding
from regard.layers.head import MaskedLmHead, Pooler, ReplacedTokenHead, Unembed, pool

CLOSE = {"rtol": 0.0, "atol": 1e-5}
VOCAB = 11


def make_embedding(*, tied: bool = False, **choices: object) -> Embedding:
    torch.manual_seed(0)
    embed = Embedding(StackConfig(**{"d_model": 8, "n_heads": 2, "position": "none"} | choices), VOCAB, tied=tied)
    with torch.no_grad():
        for parameter in embed.parameters():
            parameter.normal_()
    return embed


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randint(0, VOCAB, (2, 5)), torch.arange(5)[None]


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_an_embedding_is_the_sum_of_token_position_and_segment() -> None:
    embed, (ids, places) = make_embedding(position="learned", n_segments=3, max_len=9), inputs()
    segments = torch.tensor([[0, 0, 1, 1, 2], [2, 1, 0, 0, 0]])
    ours = embed(ids, places, segments=segments)
    for b in range(2):
        for t in range(5):
            expected = embed.token.weight[ids[b, t]] + embed.position.weight[t] + embed.segment.weight[segments[b, t]]
            assert_close(ours[b, t], expected, **CLOSE)


def test_without_segments_all_tokens_belong_to_the_first() -> None:
    embed, (ids, places) = make_embedding(n_segments=2), inputs()
    assert torch.equal(embed(ids, places), embed(ids, places, segments=torch.zeros_like(ids)))
    assert not torch.allclose(embed(ids, places), embed(ids, places, segments=torch.ones_like(ids)))


def test_the_scale_of_2017_multiplies_tokens_and_not_positions() -> None:
    plain, scaled = (make_embedding(position="learned", embed_scale=flag) for flag in (False, True))
    scaled.load_state_dict(plain.state_dict())
    ids, places = inputs()
    expected = plain(ids, places) + plain.token(ids) * (math.sqrt(8) - 1)
    assert_close(scaled(ids, places), expected, **CLOSE)


def test_a_narrow_embedding_is_normed_then_projected_up() -> None:
    embed, (ids, places) = make_embedding(d_embed=3, embed_norm=True, position="learned", n_segments=2), inputs()
    assert embed.token.weight.shape == (VOCAB, 3)
    assert embed.position.weight.size(1) == embed.segment.weight.size(1) == 3
    summed = embed.token(ids) + embed.position.weight[:5] + embed.segment.weight[0]
    assert_close(embed(ids, places), embed.project(embed.norm(summed)), **CLOSE)
    assert embed(ids, places).shape == (2, 5, 8)


def test_an_embedding_of_full_width_has_no_projection() -> None:
    assert make_embedding(d_embed=8).project is None


def test_a_tied_embedding_reads_the_table_it_is_handed() -> None:
    own, tied, (ids, places) = make_embedding(), make_embedding(tied=True), inputs()
    assert not list(tied.parameters())
    assert torch.equal(tied(ids, places, table=own.token.weight), own(ids, places))


# --- patches --------------------------------------------------------------------------------------------------------


def make_patches(*, distil: bool = False) -> PatchEmbedding:
    torch.manual_seed(0)
    patches = PatchEmbedding(StackConfig(d_model=8, n_heads=2), (2, 3), 4, 3, distil=distil)
    with torch.no_grad():
        for parameter in patches.parameters():
            parameter.normal_()
    return patches


def test_patches_equal_cutting_the_image_by_hand() -> None:
    patches, pixels = make_patches(), torch.randn(2, 3, 8, 12)
    ours = patches(pixels)
    assert ours.shape == (2, 1 + 6, 8)
    matrix = patches.project.weight.flatten(1)  # (D, channels · 4 · 4)
    for row in range(2):
        for column in range(3):  # line by line, from the top left
            patch = pixels[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten(1)
            place = 1 + 3 * row + column
            expected = patch @ matrix.T + patches.project.bias + patches.position[0, place]
            assert_close(ours[:, place], expected, **CLOSE)


@pytest.mark.parametrize("distil", [False, True])
def test_class_and_distillation_tokens_come_first_and_know_nothing_of_the_image(distil: bool) -> None:
    patches, pixels = make_patches(distil=distil), torch.randn(2, 3, 8, 12)
    ours = patches(pixels)
    assert patches.n_leading == 1 + distil
    assert ours.shape == (2, 6 + patches.n_leading, 8)
    for place, token in enumerate([patches.first, patches.distil][: patches.n_leading]):
        assert_close(ours[:, place], (token[0, 0] + patches.position[0, place]).expand(2, -1), **CLOSE)


# --- words out ------------------------------------------------------------------------------------------------------


def test_a_tied_output_layer_is_the_token_table_turned_around() -> None:
    table, x = torch.randn(VOCAB, 8), torch.randn(2, 5, 8)
    tied = Unembed(8, VOCAB, tied=True)
    assert not list(tied.parameters())
    assert_close(tied(x, table), x @ table.T, **CLOSE)


def test_scale_and_bias_of_an_output_layer_of_its_own() -> None:
    unembed, x = Unembed(8, VOCAB, tied=False, bias=True, scale=0.5), torch.randn(2, 5, 8)
    with torch.no_grad():
        unembed.bias.normal_()
    assert_close(unembed(x, None), 0.5 * x @ unembed.weight.T + unembed.bias, **CLOSE)


@pytest.mark.parametrize("tied", [False, True])
def test_the_masked_word_head_is_dense_activation_norm_vocabulary(tied: bool) -> None:
    head = MaskedLmHead(8, 3, VOCAB, activation="gelu", norm_eps=1e-12, tied=tied)
    table, x = torch.randn(VOCAB, 3), torch.randn(2, 5, 8)
    ours = head(x, table).dense()
    assert ours.shape == (2, 5, VOCAB)
    inner = head.norm(torch.nn.functional.gelu(head.dense(x)))
    assert_close(ours, inner @ (table if tied else head.unembed.weight).T + head.unembed.bias, **CLOSE)


def test_the_replaced_token_head_gives_one_score_a_token() -> None:
    head, x = ReplacedTokenHead(8, "gelu"), torch.randn(2, 5, 8)
    assert head(x).shape == (2, 5)
    assert_close(head(x), head.out(torch.nn.functional.gelu(head.dense(x)))[..., 0], **CLOSE)


# --- one vector for a text ------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=4), st.integers(0, 99))
def test_pooling_counts_real_tokens_only_wherever_the_padding_stands(rows: list[tuple[int, int]], seed: int) -> None:
    """Each row is (real tokens, padding before them); what is left of the width is padding behind."""
    width = max(length + before for length, before in rows)
    x = torch.randn(len(rows), width, 4, generator=torch.Generator().manual_seed(seed)) * 50
    valid = torch.tensor([[before <= t < before + length for t in range(width)] for length, before in rows])
    for b, (length, before) in enumerate(rows):
        real = x[b, before : before + length]
        assert torch.equal(pool(x, valid, "first")[b], real[0])
        assert torch.equal(pool(x, valid, "last")[b], real[-1])
        assert_close(pool(x, valid, "mean")[b], real.mean(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["first", "last", "mean"])
def test_pooling_without_padding_needs_no_mask(kind: str) -> None:
    x = torch.randn(3, 5, 4)
    assert_close(pool(x, None, kind), pool(x, torch.ones(3, 5).bool(), kind), **CLOSE)


@pytest.mark.parametrize("kind", ["first", "last", "mean"])
def test_pooling_an_empty_text_is_finite(kind: str) -> None:
    assert pool(torch.randn(2, 3, 4), torch.zeros(2, 3).bool(), kind).isfinite().all()


def test_nan_in_padding_does_not_reach_the_mean() -> None:
    x = torch.ones(1, 3, 4)
    x[0, 2] = torch.nan
    assert torch.equal(pool(x, torch.tensor([[True, True, False]]), "mean"), torch.ones(1, 4))


def test_the_pooler_reads_the_first_real_token() -> None:
    pooler, x = Pooler(4, "tanh"), torch.randn(2, 5, 4)
    valid = torch.tensor([[True] * 5, [False, False, True, True, True]])
    expected = torch.tanh(pooler.dense(torch.stack([x[0, 0], x[1, 2]])))
    assert_close(pooler(x, valid), expected, **CLOSE)
