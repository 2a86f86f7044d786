"""A card's numbers agree with each other, and only like is compared with like."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from faults.refusal import refused
from models import tiny
from regard.config import build, to_dict
from regard.errors import UserError
from regard.files import write_json
from regard.lab.bench import Bench, Wanted
from regard.lab.card import Card, Computer, Settings, Speed, Spread, compare, read_card, refuse_unlike
from regard.machine import cpu_name, peak_memory_bytes
from regard.models.elmo import Elmo, ElmoConfig
from regard.training.energy import Energy, Meter
from regard.weights.store import save_model
from tasks import generators, planted, translators

WANTED = Wanted(batch=3, length=7, new=5, rounds=4, threads=1)


def reader(directory: Path, name: str, **choices: Any) -> Path:
    save_model(tiny.make(name, vocab_size=translators.tokenizer().vocab_size, max_len=40, **choices), directory)
    translators.tokenizer().save(directory)
    return directory


DIRECTORIES: dict[str, Callable[[Path], Path]] = {
    "translate": translators.save,
    "generate": lambda folder: generators.save(folder, generators.model()),
    "embed": lambda folder: reader(folder, "bert", heads=()),
    "classify": lambda folder: reader(folder, "gpt2", head="classify", labels=("x", "y")),
}
SILENT = ("embed", "classify")


def opened(task: str, folder: Path, **changes: Any) -> Bench:
    return Bench(DIRECTORIES[task](folder), task, replace(WANTED, **changes))


@pytest.mark.parametrize("task", DIRECTORIES)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_tokens_a_second_times_seconds_are_the_tokens(task: str, precision: str, tmp_path: Path) -> None:
    card = opened(task, tmp_path, precision=precision).run()
    assert (card.settings.task, card.settings.precision) == (task, precision)
    assert card.read.tokens == 3 * 7
    assert (card.write is None, card.first_token_seconds is None) == (task in SILENT, task in SILENT)
    assert card.write is None or card.write.tokens == 3 * (5 - 1)
    for speed in filter(None, (card.read, card.write)):
        rates = sorted(speed.tokens / seconds for seconds in speed.seconds)
        assert len(rates) == WANTED.rounds
        found = speed.tokens_per_second
        assert rates[0] <= found.low <= found.median <= found.high <= rates[-1]


def test_energy_is_told_for_every_token_and_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = opened("generate", tmp_path)
    monkeypatch.setattr(Meter, "read", lambda self: Energy(96.0, "estimated", "a guess"))
    card = bench.run()
    assert (card.joules_per_token, card.energy) == (96.0 / (3 * (7 + 5) * 4), "estimated")


@pytest.mark.parametrize("task", ["translate", "generate"])
def test_every_round_writes_all_tokens_though_the_model_would_end_the_text(task: str, tmp_path: Path) -> None:
    bench = opened(task, tmp_path)
    steps: list[int] = []
    bench.subject.model.decoder.blocks[0].register_forward_hook(lambda *_: steps.append(1))
    bench.run()
    assert len(steps) == (WANTED.rounds + 1) * WANTED.new  # one round to warm up


def test_the_first_token_comes_after_the_reading_and_is_part_of_no_other_number(tmp_path: Path) -> None:
    card = opened("translate", tmp_path / "one", rounds=1).run()
    assert card.first_token_seconds is not None
    assert card.read.seconds[0] < card.first_token_seconds.median
    card = opened("generate", tmp_path / "other", rounds=1).run()
    assert card.first_token_seconds == Spread.of(card.read.seconds)


def test_parameters_are_those_of_the_file_at_every_precision(tmp_path: Path) -> None:
    sizes = {opened("generate", tmp_path, precision=name).summary.n_parameters for name in ("fp32", "bf16", "int8")}
    assert sizes == {generators.model().n_parameters}


def test_threads_are_as_asked_and_as_before_afterwards(tmp_path: Path) -> None:
    before, seen = torch.get_num_threads(), set()
    bench = opened("embed", tmp_path, threads=before + 1)
    bench.run(lambda done: seen.add(torch.get_num_threads()))
    assert (seen, torch.get_num_threads()) == ({before + 1}, before)


@pytest.mark.parametrize(
    ("task", "changes"), [("generate", {"length": 60}), ("translate", {"new": 41}), ("embed", {"length": 41})]
)
def test_what_has_no_room_in_the_model_is_refused(task: str, changes: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tokens"):
        opened(task, tmp_path, **changes)


def test_what_has_no_room_in_memory_is_refused(tmp_path: Path) -> None:
    with refused("1,000,000,000,000 texts need more than", "--batch"):
        opened("generate", tmp_path, batch=10**12)


def test_a_card_is_read_back_as_it_was(tmp_path: Path) -> None:
    card = opened("generate", tmp_path).run()
    write_json(tmp_path / "card.json", to_dict(card))
    assert read_card(tmp_path / "card.json") == card


SETTINGS = Settings(task="generate", precision="fp32", threads=2, batch=1, length=8, new=4, rounds=5)
COMPUTER = Computer(cpu="Z80", instructions="none", cores=2, memory_bytes=1 << 16)


def made(seconds: float = 2.0, settings: Settings = SETTINGS, computer: Computer = COMPUTER) -> Card:
    return Card(
        model="tiny",
        layout="gpt2",
        parameters=10,
        settings=settings,
        read=Speed.of(8, [seconds]),
        write=Speed.of(3, [2 * seconds]),
        first_token_seconds=Spread.of([seconds]),
        peak_bytes=int(1000 * seconds),
        above_import_bytes=500,
        joules_per_token=None,
        computer=computer,
        versions={"regard": "0.1.0"},
        date="2026-11-16",
    )


def test_twice_as_fast_and_half_the_memory_is_told_as_that() -> None:
    assert compare(made(2.0), made(1.0)) == {"read": 2.0, "write": 2.0, "first_token": 2.0, "memory": 2.0}


def test_more_rounds_are_no_other_setting() -> None:
    refuse_unlike(made(), replace(SETTINGS, rounds=50), COMPUTER)


UNLIKE = {"task": "embed", "precision": "int8", "threads": 1, "batch": 8, "length": 9, "new": 5}


@pytest.mark.parametrize(("name", "value"), UNLIKE.items())
def test_other_settings_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"compared: {name} was {getattr(SETTINGS, name)} and is {value}\n"):
        refuse_unlike(made(), replace(SETTINGS, **{name: value}), COMPUTER)


def test_all_that_differs_is_named_at_once_the_machine_too() -> None:
    with pytest.raises(UserError, match="threads was 2 and is 1, batch was 1 and is 8, cpu was Z80 and is 6502"):
        refuse_unlike(made(), replace(SETTINGS, threads=1, batch=8), replace(COMPUTER, cpu="6502"))


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON", '{"card": 2}'])
def test_what_is_no_card_is_told_as_that(text: str, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(UserError, match="is no card"):
        read_card(tmp_path / "card.json")


def test_the_peak_of_memory_grows_with_what_is_held() -> None:
    before = peak_memory_bytes()
    held = torch.ones(64 << 20, dtype=torch.uint8)
    after = peak_memory_bytes()
    assert before is not None
    assert after is not None
    assert after >= before >= held.numel() // 64
    assert cpu_name()


@pytest.mark.parametrize("median", [0.0, -1.0])
def test_a_card_that_took_no_time_is_none(median: float) -> None:
    with pytest.raises(UserError, match="median of"):
        build(Spread, {"median": median, "low": 1.0, "high": 2.0})


def test_vectors_are_measured_and_pictures_refused(tmp_path: Path) -> None:
    words = Bench(planted.save(tmp_path / "words"), "words", WANTED).run()
    assert (words.settings.task, words.read.tokens, words.write) == ("embed", 3 * 7, None)
    save_model(Elmo(ElmoConfig(vocab_size=translators.tokenizer().vocab_size, d_model=16, heads=())), tmp_path / "elmo")
    translators.tokenizer().save(tmp_path / "elmo")
    assert Bench(tmp_path / "elmo", "elmo", WANTED).run().read.tokens == 3 * 7
    save_model(tiny.make("vit"), tmp_path / "vit")
    with pytest.raises(UserError, match="reads pictures, not tokens"):
        Bench(tmp_path / "vit", "vit", WANTED)
