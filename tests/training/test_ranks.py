"""Many ranks are one run: the same numbers, one opinion, and a name for whoever fails."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import UserError
from regard.training import checkpoint
from training.runs import TINY, tiny_run, write_pairs, write_recipe
from training.spread import command, command_with_a_pause, meet_at_a_taken_port, spread, train

KINDS = ["ddp", "fsdp"]
SETTINGS: dict[str, Any] = {"steps": 20, "precision": "fp32", "average": 1, "timeout_minutes": 1.0}
# The gradient of a key's bias is zero but for rounding, since softmax does not feel it, and Adam makes a whole step of
# any gradient. So where the order of sums differs, these biases do, and nothing else. T5 has none.
QUIET = SETTINGS | {"model": TINY | {"preset": "t5-small", "d_head": 16, "n_decoder_layers": 2}}
SHORT = SETTINGS | {"steps": 6}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_pairs(folder)
    return folder


def weights_in(folder: Path, step: int = 20) -> dict[str, Tensor]:
    return checkpoint.average([checkpoint.path_of(folder / "checkpoints", step)])


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


# ---- the same numbers


@pytest.mark.parametrize(("kind", "settings", "tolerance"), [("ddp", SETTINGS, 0.0), ("fsdp", QUIET, 1e-7)])
def test_two_ranks_end_where_one_does(
    kind: str, settings: dict[str, Any], tolerance: float, data: Path, tmp_path: Path
) -> None:
    """With dropout: a part of a step has its own seed, whoever computes it."""
    [alone] = spread(train, 1, data, tmp_path / "one", settings)
    for rank in spread(train, 2, data, tmp_path / "two", settings | {"parallel": kind}):
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-6)
        assert rank["position"] == alone["position"]
        assert rank["held"] / alone["held"] == pytest.approx(0.5 if kind == "fsdp" else 1.0, abs=0.01)
    one, two = weights_in(tmp_path / "one"), weights_in(tmp_path / "two")
    assert difference(one, two) <= tolerance
    padding = two["encoder.embed.token.weight"][-1]
    assert not padding.any()
    models = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two")]
    assert difference(*models) <= tolerance


def test_a_run_goes_on_with_another_number_of_ranks(data: Path, tmp_path: Path) -> None:
    """Two ranks with a share of the model each, then one, then two with all of it."""
    [through] = spread(train, 1, data, tmp_path / "through", QUIET)
    losses: dict[int, float] = {}
    for size, kind, stop_at in [(2, "fsdp", 6), (1, "none", 13), (2, "ddp", 20)]:
        found = spread(train, size, data, tmp_path / "broken", QUIET | {"parallel": kind}, "", stop_at)[0]
        assert found["step"] == stop_at
        assert not losses.keys() & found["losses"].keys()  # no step twice
        losses |= found["losses"]
    assert found["position"] == through["position"]
    assert losses == pytest.approx(through["losses"], rel=1e-6)
    assert difference(weights_in(tmp_path / "broken"), weights_in(tmp_path / "through")) <= 1e-6


def test_shares_of_two_are_read_by_three(data: Path, tmp_path: Path) -> None:
    settings = QUIET | {"parallel": "fsdp", "steps": 4}
    spread(train, 2, data, tmp_path, settings, "", 3)
    before = weights_in(tmp_path, 3)
    found = spread(train, 3, data, tmp_path, settings, "stop", 0, 2)
    assert [rank["step"] for rank in found] == [4, 4, 4]
    assert 0 < difference(weights_in(tmp_path, 4), before) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_without_a_part_of_a_step_keeps_up(kind: str, data: Path, tmp_path: Path) -> None:
    few = QUIET | {"batch_tokens": 8, "accumulate": 1, "steps": 5}  # one or two sentences a step
    apart = spread(train, 2, data, tmp_path / "apart", few | {"parallel": kind})
    [alone] = spread(train, 1, data, tmp_path / "alone", few | {"accumulate": 2})
    assert all(rank["losses"] == pytest.approx(alone["losses"], rel=1e-6) for rank in apart)


def test_a_recurrent_model_in_shares_ends_where_it_does_alone(data: Path, tmp_path: Path) -> None:
    """It has no blocks to cut, and with teacher forcing the model is called twice for one gradient."""
    model = {"preset": "recurrent-gru-additive", "d_model": 32, "n_layers": 1}
    settings = SHORT | {"model": model, "teacher_forcing": 0.5}
    spread(train, 1, data, tmp_path / "one", settings)
    spread(train, 2, data, tmp_path / "two", settings | {"parallel": "fsdp"})
    assert difference(weights_in(tmp_path / "one", 6), weights_in(tmp_path / "two", 6)) <= 1e-6


# ---- one opinion


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_none_on_one_rank_is_skipped_by_all(kind: str, data: Path, tmp_path: Path) -> None:
    found = spread(train, 2, data, tmp_path, SHORT | {"parallel": kind}, "poison")
    assert [rank["bad"] for rank in found] == [[3], [3]]
    assert all(torch.isfinite(tensor).all() for tensor in weights_in(tmp_path, 6).values())


def test_a_stop_asked_of_one_rank_stops_all_after_the_same_step(data: Path, tmp_path: Path) -> None:
    found = spread(train, 2, data, tmp_path, SHORT | {"parallel": "ddp"}, "stop")
    assert [(rank["how"], rank["step"]) for rank in found] == [("stopped", 3)] * 2
    assert checkpoint.latest(tmp_path / "checkpoints") == checkpoint.path_of(tmp_path / "checkpoints", 3)


@pytest.mark.parametrize(("kind", "where"), [("ddp", 0), ("fsdp", 1)])
def test_a_full_disk_on_one_rank_ends_all_and_leaves_the_old_checkpoint(
    kind: str, where: int, data: Path, tmp_path: Path
) -> None:
    settings = SHORT | {"parallel": kind}
    spread(train, 2, data, tmp_path, settings, "", 2)
    errors = spread(train, 2, data, tmp_path, settings, "full disk", 4, where)
    assert all(isinstance(error, UserError) and "File too large" in str(error) for error in errors), errors
    assert f"rank {where}" in str(errors[1 - where])
    places = tmp_path / "checkpoints"
    assert checkpoint.latest(places) == checkpoint.path_of(places, 2)
    assert not list(places.glob("*.tmp-*"))


# ---- a name for whoever fails


def test_what_one_rank_cannot_read_is_told_by_all(data: Path, tmp_path: Path) -> None:
    errors = spread(train, 2, data, tmp_path, SHORT | {"parallel": "ddp"}, "damage")
    assert str(errors[1]) == "row 7 is impossible"
    assert "rank 1 (on " in str(errors[0])
    assert "reading the data: row 7 is impossible" in str(errors[0])


def test_a_rank_with_other_settings_is_named_with_the_setting(data: Path, tmp_path: Path) -> None:
    errors = spread(train, 2, data, tmp_path, SHORT | {"parallel": "ddp"}, "another rate")
    for error in errors:
        assert isinstance(error, UserError)
        assert error.message.startswith("rank 1 (on ")
        assert "run.train.lr is 0.5, not 0.01" in error.message


@pytest.mark.parametrize(("trouble", "how"), [("hang", "has not answered for 3 s"), ("die", "is gone")])
def test_a_rank_that_falls_silent_is_named_with_the_step(trouble: str, how: str, data: Path, tmp_path: Path) -> None:
    settings = SHORT | {"parallel": "ddp", "timeout_minutes": 0.05}
    error = spread(train, 2, data, tmp_path, settings, trouble)[0]
    assert isinstance(error, UserError), error
    assert error.message.startswith("rank 1 (on ")
    assert f"{how} (after step 2" in error.message


def test_ranks_that_do_not_meet_say_where_they_waited(data: Path) -> None:
    [error] = spread(meet_at_a_taken_port, 1, data)
    assert isinstance(error, UserError), error
    assert error.message.startswith("rank 0 of 2 did not meet the others at 127.0.0.1:")
    assert "address already in use" in error.message


# ---- the command


def test_only_the_first_rank_speaks(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4)
    toml, out = str(recipe), str(tmp_path / "run")
    paths = {key: [str(tmp_path / f"{key}.{side}") for side in ("de", "en")] for key in ("train", "valid")}
    sets = [f"--set=data.{key}={value}" for key, value in paths.items()]
    refused = spread(command, 2, "train", toml, "--out", out, *sets)
    assert [code for code, _, _ in refused] == [2, 2]
    assert '2 ranks were started, but train.parallel is "none"' in refused[0][2]
    first, second = spread(command, 2, "train", toml, "--out", out, "--set=train.parallel=fsdp", *sets)
    assert first[:2] == (0, f"{out}/model\n")
    assert "finished at step 4" in first[2]
    assert second == (0, "", "")
    again = spread(command, 2, "train", toml, "--out", out, "--set=train.parallel=fsdp", *sets)
    assert [code for code, _, _ in again] == [2, 2]
    assert "holds a run already" in again[0][2]
    assert again[1][1:] == ("", "")


@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_that_falls_silent_before_the_first_step_is_named_by_one_other(who: int, tmp_path: Path) -> None:
    """Also the first, which else has the voice."""
    recipe, out = write_recipe(tmp_path, timeout_minutes=0.05), str(tmp_path / "run")
    sets = [
        f"--set=data.{key}={[str(tmp_path / f'{key}.{side}') for side in ('de', 'en')]}" for key in ("train", "valid")
    ]
    ends = spread(command_with_a_pause, 2, who, "train", str(recipe), "--out", out, "--set=train.parallel=ddp", *sets)
    code, _, said = ends[1 - who]
    assert code == 1
    assert f"error: rank {who} (on " in said
    assert "has not answered for 3 s (before the first step; said by rank" in said


def test_a_run_for_many_ranks_runs_alone_too(data: Path, tmp_path: Path) -> None:
    assert tiny_run(data, parallel="fsdp").train.parallel == "fsdp"
    [found] = spread(train, 1, data, tmp_path, SHORT | {"parallel": "fsdp"})
    assert found["how"] == "finished"
