"""openapi.json, made from the routes themselves: what is checked and what is promised cannot differ."""

from collections.abc import Sequence
from typing import Any

from regard import __version__
from regard.studio.fields import schema_of
from regard.studio.guard import FORM, FORMS
from regard.studio.routes import Route

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code", "hint"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
                "hint": {"type": "string"},
            },
        }
    },
}
REFUSALS = ("400", "401", "403", "404", "405", "408", "413", "415", "422", "429", "503", "504")
PLAIN = {"/livez", "/readyz", "/metrics"}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in routes:
        paths[route.path] = {route.method.lower(): _operation(route)}
    info = {"title": "regard studio", "version": __version__, "description": "Transformers on this computer."}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "responses": {"Refusal": {"description": "What is wrong, and what to do", "content": _json("Error")}},
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _operation(route: Route) -> dict[str, Any]:
    refusals = {code: {"$ref": "#/components/responses/Refusal"} for code in REFUSALS}
    found: dict[str, Any] = {
        "summary": route.about,
        "operationId": route.path.strip("/").replace("/", "_").replace("{", "").replace("}", ""),
        "responses": {"200": {"description": "The answer", "content": _content(route)}, **refusals},
    }
    parameters = [_parameter(name, "path", {"type": "string"}, True) for name in _names(route.path)]
    if route.method == "GET":
        parameters += [_parameter(name, "query", each.schema, each.is_needed) for name, each in route.fields.items()]
    else:
        kinds = ["application/json", *([FORM] if route.path in FORMS else [])]
        body = {"schema": schema_of(route.fields)}
        found["requestBody"] = {"required": True, "content": dict.fromkeys(kinds, body)}
    return found | ({"parameters": parameters} if parameters else {})


def _content(route: Route) -> dict[str, Any]:
    if route.binary:
        return {"application/octet-stream": {}}
    if route.path in PLAIN:
        return {"text/plain": {}}
    return {"application/json": {}} | ({"text/event-stream": {}} if "stream" in route.fields else {})


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _parameter(name: str, place: str, schema: dict[str, Any], needed: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": needed, "schema": schema}
