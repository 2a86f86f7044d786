"""The files of the page: small, whole, in every language, and with no way out of this machine. No browser is needed."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STATIC = ROOT / "src" / "regard" / "studio" / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
STRINGS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (STATIC / "strings").glob("*.json")}
MAX_SCRIPT, MAX_LINES = 400_000, 300
NAMESPACES = "http://www.w3.org/"
UPLOT = "https://github.com/leeoniya/uPlot"  # in the licence that its file begins with


def test_the_whole_page_is_small() -> None:
    assert sum(path.stat().st_size for path in SCRIPTS) < MAX_SCRIPT
    own = [path for path in SCRIPTS if path.parent.name != "vendor"]
    assert [path.name for path in own if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES] == []


@pytest.mark.parametrize("path", [p for p in STATIC.rglob("*") if p.is_file() and p.suffix != ".LICENSE"], ids=str)
def test_no_file_names_an_address_outside(path: Path) -> None:
    found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`)]*", path.read_text(encoding="utf-8"))
    assert [each for each in found if not each.startswith((NAMESPACES, UPLOT))] == []


def test_every_language_says_the_same_things() -> None:
    assert set(STRINGS) >= {"en", "de"}
    for language, strings in STRINGS.items():
        assert set(strings) == set(STRINGS["en"]), language
        for key, text in strings.items():
            assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", STRINGS["en"][key])), (language, key)


def test_every_string_that_is_asked_for_is_there_and_none_is_left_over() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS if path.parent.name != "vendor")
    plain = set(re.findall(r"\b(?:t|said)\(\s*\"([^\"]+)\"", source))
    begun = set(re.findall(r"\b(?:t|said)\(\s*`([^`$]*)\$\{", source))
    quoted = set(re.findall(r"\"([a-z][a-zA-Z.]*)\"", source))  # names that are chosen before they are looked up
    assert plain <= set(STRINGS["en"])
    assert {start for start in begun if not any(key.startswith(start) for key in STRINGS["en"])} == set()
    left = {key for key in STRINGS["en"] if key not in plain | quoted and not key.startswith(tuple(begun))}
    assert left == set()


def test_every_import_names_a_file_that_is_there() -> None:
    for path in SCRIPTS:
        for name in re.findall(r"from \"studio/([^\"]+)\"", path.read_text(encoding="utf-8")):
            assert (STATIC / name).is_file(), f"{path.name}: {name}"


def test_what_others_wrote_is_what_they_published() -> None:
    spec = importlib.util.spec_from_file_location("vendor", ROOT / "tools" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    vendor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vendor)
    for folder in vendor.FOLDERS:
        assert vendor.wrong(folder) == []
