"""The catalogue that ships is complete, pins what it names, and fits the recipes and the files we have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import read_toml
from regard.data.catalogue import CATALOGUE, DataSet, PublicModel, RemoteFile, read_catalogue
from regard.data.download import check_address, hash_file

KNOWN = read_catalogue()
FILES = [pytest.param(entry, file, id=file.name) for entry in KNOWN.data.values() for file in entry.files]
RECIPES = Path(CATALOGUE).parent.parent / "recipes"


@pytest.mark.parametrize(("entry", "file"), FILES)
def test_a_file_has_a_safe_address_a_plain_name_and_a_whole_checksum_or_none(entry: DataSet, file: RemoteFile) -> None:
    url = entry.locate(file)
    check_address(url)
    assert url.startswith("https://")
    assert entry.revision in url
    assert re.fullmatch(r"\w[\w.-]*", file.name)
    assert re.fullmatch(r"\w+", entry.folder)
    assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
    assert (file.size is None) == (file.sha256 is None)
    assert file.size is None or file.size <= entry.max_bytes


@pytest.mark.parametrize("entry", KNOWN.data.values(), ids=list(KNOWN.data))
def test_a_revision_is_a_whole_commit_and_a_licence_is_stated(entry: DataSet) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", entry.revision)
    assert entry.licence
    assert len({file.name for file in entry.files}) == len(entry.files)  # none would overwrite another


@pytest.mark.parametrize("entry", KNOWN.models.values(), ids=list(KNOWN.models))
def test_a_model_names_its_repository_and_a_whole_commit_or_none(entry: PublicModel) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.repository)
    assert entry.revision is None or re.fullmatch(r"[0-9a-f]{40}", entry.revision)
    assert entry.licence


def test_no_name_is_both_data_and_model() -> None:
    assert KNOWN.data.keys() & KNOWN.models.keys() == set()


def test_the_multi30k_recipes_read_what_get_writes() -> None:
    entry = KNOWN.data["multi30k"]
    written = {f"data/{entry.folder}/{file.name}" for file in entry.files}
    recipes = sorted(RECIPES.glob("multi30k-*.toml"))
    assert recipes
    for recipe in recipes:
        data = read_toml(recipe)["data"]
        assert {*data["train"], *data["valid"], *data["test"]} == written


def test_the_checksums_of_multi30k_are_those_of_the_files_we_train_on(data_dir: Path) -> None:
    entry = KNOWN.data["multi30k"]
    for file in entry.files:
        path = data_dir / entry.folder / file.name
        assert (path.stat().st_size, hash_file(path)) == (file.size, file.sha256)


def test_reading_the_catalogue_and_fetching_need_no_torch() -> None:
    script = "import sys, regard.data.catalogue as c, regard.data.download\nc.read_catalogue()\n"
    subprocess.run([sys.executable, "-c", script + "assert 'torch' not in sys.modules"], check=True, timeout=60)
