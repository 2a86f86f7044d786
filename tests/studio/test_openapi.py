"""The API's document is true: made from the routes; and no request that it allows or forbids breaks the server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from starlette.testclient import TestClient

import regard.studio
from regard.studio.app import ROUTES
from regard.studio.openapi import document
from regard.studio.routes import Route
from studio import houses

DOCUMENT = document(ROUTES)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
MODES = {"allowed": GenerationMode.POSITIVE, "forbidden": GenerationMode.NEGATIVE}
FORM = "application/x-www-form-urlencoded"


def test_every_route_is_in_the_document_and_in_the_page_about_it() -> None:
    with houses.client(houses.studio("pt-en")) as client:
        found = client.get("/openapi.json").json()
    assert set(found["paths"]) == {route.path for route in ROUTES}
    about = (Path(regard.studio.__file__).parent / "API.md").read_text(encoding="utf-8")
    for route in ROUTES:
        assert route.path in about, f"{route.path} is not in API.md"
    named = set(re.findall(r"`(?:GET|POST) (/[a-z0-9/{}_.]+)", about)) - {"/", "/static/..", "/openapi.json"}
    assert named <= set(found["paths"])


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with houses.client(houses.studio()) as found:
        found.post("/api/load", json={})
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_nothing_that_is_sent_breaks_the_server(client: TestClient, route: Route, data: Any) -> None:
    operation = SCHEMA[route.path][route.method.lower()]
    names = [*MODES] if route.fields else ["allowed"]
    mode = data.draw(st.sampled_from(names))
    case = data.draw(operation.as_strategy(generation_mode=MODES[mode]))
    answer = send(client, case)
    assert answer.status_code < 500, answer.text
    assert str(answer.status_code) in DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    if answer.status_code != 200:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code", "hint"}


def send(client: TestClient, case: Case) -> Any:
    path = case.path
    for name, value in (case.path_parameters or {}).items():
        path = path.replace(f"{{{name}}}", "".join(c for c in str(value) if c.isalnum()) or "x")
    if case.method.upper() == "GET":
        query = case.query if isinstance(case.query, dict) else {}
        return client.get(path, params={str(key)[:50]: str(value)[:50] for key, value in query.items()})
    if case.media_type == FORM:
        fields = case.body if isinstance(case.body, dict) else {"q": str(case.body)}
        return client.post(path, data={key: str(value) for key, value in fields.items()})
    data = json.dumps(case.body, default=str)
    return client.post(path, content=data.encode(), headers={"content-type": "application/json"})
