"""A run that cannot be is refused by the key that is wrong, and before its data is read."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from faults.refusal import refused
from regard.text.train import Kind, TokenizerConfig
from regard.training.sources import Sources
from training.runs import tiny_run, write_pairs


@pytest.mark.parametrize(
    ("kind", "spells", "least"),
    [("bpe", True, 260), ("unigram", True, 260), ("char", True, 260), ("byte-bpe", True, 259), ("bpe", False, 4)],
)
def test_a_vocabulary_without_room_is_refused_with_the_least_that_is_possible(
    tmp_path: Path, kind: Kind, spells: bool, least: int
) -> None:
    run = tiny_run(tmp_path)  # its files do not exist
    with refused(f"text.vocab_size is {least - 1}", f"the kind {kind} needs at least {least}"):
        replace(run, text=TokenizerConfig(kind, least - 1, byte_fallback=spells))
    replace(run, text=TokenizerConfig(kind, least, byte_fallback=spells))


@pytest.mark.parametrize(("name", "what"), [("folder", "a folder"), ("pipe", "a pipe"), (os.devnull, "a device")])
def test_what_is_there_but_no_file_is_called_what_it_is(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    write_pairs(tmp_path)
    run = tiny_run(tmp_path)
    run = replace(run, data=replace(run.data, train=(str(tmp_path / name), run.data.train[1])))
    with refused(f"data.train: {tmp_path / name} is {what}, not a file", "data.train"):
        Sources(run).paths("train")
    with refused(f"there is no file {tmp_path / 'nowhere'}"):
        Sources(replace(run, data=replace(run.data, valid=(str(tmp_path / "nowhere"),)))).paths("valid")
