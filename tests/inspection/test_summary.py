"""What `regard summary` says about sizes is arithmetic that can be checked by hand."""

import json

import pytest
from click.testing import CliRunner

from regard.cli.main import cli
from regard.inspection.families import choices_table
from regard.inspection.summary import family_of, human, summarise
from regard.models.registry import FAMILIES, build_preset


def test_parts_add_up_to_the_whole_for_every_preset() -> None:
    for family in FAMILIES.values():
        for name in family.presets:
            summary = summarise(build_preset(name, device="meta"))
            assert sum(summary.parts.values()) == summary.n_parameters, name
            assert "other" not in summary.parts, name


def test_gpt2_costs_two_operations_a_matrix_weight() -> None:
    summary = summarise(build_preset("gpt2", device="meta"))
    blocks = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert summary.flops_per_token == 2 * (blocks + 50_257 * 768)
    assert summary.attention_flops_per_token == 4 * 12 * 768


def test_gpt3_would_not_fit_here() -> None:
    summary = summarise(build_preset("gpt3", device="meta"))
    assert summary.n_parameters > 174e9
    assert not summary.fits
    out = CliRunner().invoke(cli, ["summary", "gpt3"]).output
    assert "would not fit here" in out


def test_json_is_one_object_with_the_same_numbers() -> None:
    result = CliRunner().invoke(cli, ["summary", "bert-base", "--json"])
    assert json.loads(result.output)["n_parameters"] == build_preset("bert-base", device="meta").n_parameters


@pytest.mark.parametrize(
    ("name", "has", "has_not"),
    [
        ("gpt2", {"max_len", "tie", "bos_id"}, {"n_buckets", "max_distance", "rope_theta", "labels", "layout"}),
        ("llama3.1-8b", {"rope_theta", "rope_scaling", "n_kv_heads"}, {"n_buckets", "max_distance", "tie"}),
        ("t5-small", {"n_buckets", "max_distance", "tie", "pad_id", "start_id"}, {"rope_theta"}),
        ("minilm-l6", {"n_segments", "pad_id"}, {"pooled_heads_dropout", "tie", "heads", "rope_theta"}),
        ("vit-base", {"channels", "labels"}, {"max_len", "rope_theta", "n_buckets", "vocab_size"}),
        ("recurrent-gru-lm", {"cell", "tie"}, {"attention", "labels", "bidirectional"}),
        ("recurrent-gru-dot", {"attention", "bidirectional"}, set()),
    ],
)
def test_only_choices_that_matter_are_shown(name: str, has: set[str], has_not: set[str]) -> None:
    choices = summarise(build_preset(name, device="meta")).choices.keys()
    assert has <= choices
    assert not has_not & choices


def test_the_positions_of_patches_are_learned() -> None:
    assert summarise(build_preset("vit-base", device="meta")).choices["position"] == "learned"


def test_a_summary_names_the_family_that_the_preset_is_listed_under() -> None:
    for name, family in FAMILIES.items():
        for preset, config in family.presets.items():
            assert (family_of(config.layout), preset) == (name, preset)


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999"), (1500, "1.5 k"), (124e6, "124 M"), (175e9, "175 B"), (2.8e12, "2.8 T")]
)
def test_numbers_are_short(count: float, text: str) -> None:
    assert human(count) == text


def test_the_table_of_choices_has_a_row_for_each_family() -> None:
    lines = choices_table().splitlines()
    assert len(lines) == 2 + 8
    assert len({line.count("|") for line in lines}) == 1
