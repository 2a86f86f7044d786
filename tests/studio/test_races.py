"""Races are shown as they were written; nothing else that lies there is opened."""

import json
import os
from pathlib import Path

from regard.runlog import is_race
from studio import houses


def test_a_race_is_given_back_as_it_was_written(tmp_path: Path) -> None:
    race = houses.race_file(tmp_path / "first.json")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "half.json").write_text('{"race": 1, "sheets": ')
    (tmp_path / "empty.json").write_text('{"race": 1}')
    outside = tmp_path.parent / "outside.json"
    houses.race_file(outside)
    (tmp_path / "link.json").symlink_to(outside)
    with houses.client(houses.studio("pt-en", runs=tmp_path)) as client:
        rows = {row["name"]: row["id"] for row in client.get("/api/races").json()["races"]}
        assert set(rows) == {"first", "half", "empty"}
        found = client.get(f"/api/races/{rows['first']}").json()
        assert {key: found[key] for key in found if key not in ("id", "name")} == json.loads(race.json())
        assert found["sheets"]["training"]["curves"]["logarithmic"] is True
        assert found["sheets"]["training"]["curves"]["series"]["transformer"] == [6.5, 8.0, None]
        assert [client.get(f"/api/races/{rows[name]}").status_code for name in ("half", "empty")] == [400, 400]
        assert client.get("/api/races/..%2Foutside").status_code == 404
        assert client.get("/api/races/first").status_code == 404


def test_one_file_may_be_given_by_itself_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    houses.race_file(tmp_path / "first.json")
    os.mkfifo(tmp_path / "pipe.json")
    assert not is_race(tmp_path / "pipe.json")
    assert not is_race(tmp_path)
    with houses.client(houses.studio("pt-en", runs=tmp_path / "first.json")) as client:
        assert [row["name"] for row in client.get("/api/races").json()["races"]] == ["first"]
        assert client.get("/api/runs").json()["runs"] == []
