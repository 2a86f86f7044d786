"""A race gives the same table twice, keeps what is done after Ctrl-C, and can be repeated from its file."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.files import write_json
from regard.lab.race import copying
from regard.lab.race.practice import Pupil, practise
from regard.lab.race.race import QUESTIONS, Race, read_plan, run
from regard.lab.race.racers import RACERS, Racer, Size, config_of
from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet

SIZE = Size(width=8, n_heads=2)


def tiny(asked: list[str], **choices: Any) -> Race:
    return run(Race(Setting(size=SIZE, longest=128, **choices), asked, minutes=5))


def plain(race: Race) -> dict[str, list[Row]]:
    """What the same seed and the same steps give again."""
    return {
        sheet.name: [{key: value for key, value in row.items() if key not in sheet.timed} for row in sheet.rows]
        for sheet in race.sheets
    }


@pytest.fixture(scope="module")
def whole() -> Race:
    return tiny(list(QUESTIONS), steps=3, seed=5)


def test_the_same_seed_and_steps_give_the_same_tables_times_aside(whole: Race) -> None:
    again = tiny(list(QUESTIONS), steps=3, seed=5)
    assert plain(again) == plain(whole)
    names = [
        "training",
        "kept",
        "writing",
        "state",
        "parallel",
        "gradient",
        "copy",
        "rank",
        "entropy",
        "heads",
        "around",
    ]
    assert list(plain(whole)) == [*names, "paths", "parity", "brackets"]
    assert plain(tiny(["rank"], seed=6))["rank"] != plain(whole)["rank"]


def test_a_race_by_the_clock_is_repeated_from_its_json(tmp_path: Path) -> None:
    setting = Setting(size=SIZE, longest=128)
    first = run(Race(setting, ["limits"], minutes=0.05))
    assert all(steps > 0 for steps in setting.done.values())
    (tmp_path / "first.json").write_text(first.json())
    plan = read_plan(tmp_path / "first.json")
    again = run(
        Race(Setting(plan["seed"], Size(**plan["size"]), plan["longest"], plan=plan["steps"]), plan["asked"], 5)
    )
    assert plain(again) == plain(first)


def test_side_by_side_all_get_the_same_time_of_the_processor() -> None:
    def batch(racer: Racer, step: int) -> Any:
        return racer.batch(*copying.texts(4, 9, seed=step), copying.QUESTIONS)

    setting = Setting(size=SIZE)
    size = replace(SIZE, vocab_size=copying.VOCABULARY)
    pupils = [Pupil(name, Racer(name, config_of(name, size), 0), batch) for name in RACERS]
    assert practise(pupils, setting, time.monotonic() + 2.0)
    spent = [pupil.seconds for pupil in pupils]
    assert min(spent) >= 0.3
    assert max(spent) - min(spent) < 0.3  # less than a turn
    assert {pupil.name: pupil.steps for pupil in pupils} == setting.done


def pressing(rows: int) -> Callable[[Setting], Any]:
    def ask(setting: Setting) -> Any:
        yield from ({"n": n} for n in range(rows))
        raise KeyboardInterrupt

    return ask


def test_ctrl_c_keeps_every_row_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
        return [Sheet("some", "Some", rows)]

    pressed, rank = Question("some", 1.0, pressing(2), answer), QUESTIONS["rank"][0]
    monkeypatch.setitem(QUESTIONS, "race", (rank, pressed, rank))  # type: ignore[attr-defined]
    found = tiny(["race"])
    assert found.stopped
    assert [sheet.name for sheet in found.sheets] == ["rank", "some"]
    assert found.sheets[1].rows == [{"n": 0}, {"n": 1}]
    monkeypatch.setitem(QUESTIONS, "race", (replace(pressed, ask=pressing(0)), rank))  # type: ignore[attr-defined]
    assert tiny(["race"]).sheets == []


def test_ctrl_c_in_a_training_still_tries_what_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = Pupil.learn, list[int]()

    def learn(self: Pupil, seed: int) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        honest(self, seed)

    monkeypatch.setattr(Pupil, "learn", learn)
    found = tiny(["limits"], steps=9)
    assert found.stopped
    assert [sheet.name for sheet in found.sheets] == ["paths", "parity"]
    assert found.setting.done == {"parity, lstm": 2, "parity, transformer": 0}


def test_json_figures_and_page_hold_every_sheet(whole: Race, tmp_path: Path) -> None:
    found = json.loads(whole.json(), parse_constant=pytest.fail)
    assert list(found["sheets"]) == [sheet.name for sheet in whole.sheets]
    assert len(whole.draw(tmp_path)) == len(whole.sheets)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(found["sheets"])
    assert all(path.read_text().startswith("<svg") for path in tmp_path.iterdir())
    page = whole.html()
    assert page.count("<figure>") == len(whole.sheets)
    assert "<script" not in page


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"ladder": 1}, "is no race"),
        ({"race": 1, "seed": 0, "longest": 128, "steps": {"copy": "many"}, "asked": ["race"]}, "is no race"),
        ({"race": 1, "seed": 0, "longest": 128, "steps": {}, "asked": ["walk"]}, "asks for"),
        ({"race": 1, "seed": 0, "longest": 128, "steps": {}, "asked": ["race"], "minutes": 5}, "has size None"),
    ],
)
def test_a_file_that_is_no_race_is_refused(content: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", content)
    with pytest.raises(UserError, match=told):
        read_plan(tmp_path / "file.json")
