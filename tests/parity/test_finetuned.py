"""What a run saves says the same of a hundred real texts here and in transformers, whatever head it has."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.cli.main import run
from regard.data.windows import windows_of
from regard.tasks.tagger import Tagger
from training.toys import TOYS, toy_run, train

transformers = pytest.importorskip("transformers")

COUNT = 100
pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def texts(data_dir: Path) -> list[str]:
    """Sentences that the tiny vocabularies spell letter by letter, short enough to be read whole."""
    with gzip.open(data_dir / "tatoeba_pt_en" / "valid.pt-en.tsv.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[1] for line in file]
    return [line for line in lines if 8 < len(line) < 40][:COUNT]


@pytest.fixture(scope="module", params=list(TOYS))
def tuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Each kind of head, after a few steps."""
    folder = tmp_path_factory.mktemp(request.param)
    train(toy_run(folder, request.param, count=60, epochs=2), folder / "run")
    return request.param, folder / "run" / "model"


def opened(folder: Path, kind: str) -> tuple[Any, Any]:
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def labels_of(model: Any, tokenizer: Any, rows: list[tuple[str, ...]]) -> Iterator[Any]:
    for row in rows:
        logits = model(**tokenizer(*row, return_tensors="pt")).logits[0]
        yield logits.item() if len(logits) == 1 else model.config.id2label[int(logits.argmax())]


@torch.inference_mode()
def test_a_hundred_predictions_are_the_same(tuned: tuple[str, Path], texts: list[str]) -> None:
    name, folder = tuned
    assert len(texts) == COUNT
    ours, theirs = SAID[name](regard.load(folder, precision="fp32"), folder, texts)
    assert len(ours) == COUNT
    assert ours == theirs


def classified(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    rows = [(text,) for text in texts]
    return [each.label for each in task(texts)], list(labels_of(*opened(folder, "SequenceClassification"), rows))


def paired(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    rows = list(zip(texts, reversed(texts), strict=True))
    return [each.label for each in task(rows)], list(labels_of(*opened(folder, "SequenceClassification"), rows))


def measured(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    theirs = labels_of(*opened(folder, "SequenceClassification"), [(text,) for text in texts])
    return [round(each.score, 4) for each in task(texts)], [round(value, 4) for value in theirs]


def tagged(task: Tagger, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    """The tag of a word is theirs at its first token, which the characters of the text name."""
    model, tokenizer = opened(folder, "TokenClassification")
    ours, theirs = [], []
    for found, text in zip(task.many(texts), texts, strict=True):
        shown = tokenizer(text, return_tensors="pt")
        best = model(**shown).logits[0].argmax(-1).tolist()
        ours.append([word.tag for word in found.words])
        at = [shown.char_to_token(word.start) for word in found.words]
        theirs.append(["O" if place is None else model.config.id2label[best[place]] for place in at])
    return ours, theirs


def answered(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    """Their scores at our places: the best span of whole words is the one that we found."""
    model, tokenizer = opened(folder, "QuestionAnswering")
    ours, theirs = [], []
    for text in texts:
        found = task("what is it ?", text)
        shown = tokenizer("what is it ?", text, return_tensors="pt")
        (window,) = windows_of(task.tokenizer, text, "what is it ?", max_len=task.max_len)
        assert window.ids == shown["input_ids"][0].tolist()
        said = model(**shown)
        table = said.start_logits[0][:, None] + said.end_logits[0][None]  # (T, T)
        inside = torch.zeros(len(table), dtype=torch.bool)
        inside[window.text_ids.start : window.text_ids.stop] = True
        places = [shown.token_to_chars(i) if inside[i] else None for i in range(len(table))]
        starts = torch.tensor([place is not None and is_between(text, place.start) for place in places])
        ends = torch.tensor([place is not None and is_between(text, place.end) for place in places])
        table = table.masked_fill(~(starts[:, None] & ends[None]).triu(), -torch.inf)
        first, last = divmod(int(table.argmax()), len(table))
        theirs.append((shown.token_to_chars(first).start, shown.token_to_chars(last).end))
        ours.append((found.start, found.end))
    return ours, theirs


def is_between(text: str, at: int) -> bool:
    """Whether no word is cut there."""
    return not (text[at - 1 : at].isalnum() and text[at : at + 1].isalnum())


def filled(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    model, tokenizer = opened(folder, "MaskedLM")
    ours, theirs = [], []
    for text in texts:
        hidden = f"{text} {tokenizer.mask_token}"
        shown = tokenizer(hidden, return_tensors="pt")
        at = shown["input_ids"][0] == tokenizer.mask_token_id
        theirs.append(int(model(**shown).logits[0, at].argmax()))
        ours.append(task(hidden, top=1).gaps[0][0].id)
    return ours, theirs


def written(task: Any, folder: Path, texts: list[str]) -> tuple[list[Any], list[Any]]:
    model, tokenizer = opened(folder, "CausalLM")
    ours, theirs = [], []
    for text in texts:
        ids = torch.tensor([task.tokenizer.encode(text).ids])
        assert tokenizer(text, return_tensors="pt")["input_ids"].tolist() == ids.tolist()
        theirs.append(int(model(ids).logits[0, -1].argmax()))
        ours.append(int(task.model(ids).logits[0, -1].argmax()))
    return ours, theirs


SAID = {
    "classify": classified,
    "pairs": paired,
    "numbers": measured,
    "tag": tagged,
    "answer": answered,
    "fill": filled,
    "generate": written,
}


def test_every_equality_is_verified_on_it(tuned: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Also how it learns: none of the heads that a run makes is left out."""
    assert run(["verify", str(tuned[1])]) == 0
    shown = capsys.readouterr().out
    assert "ok    accumulated = whole" in shown
    assert "ok    interrupted = uninterrupted" in shown
    assert "ok    ours = transformers" in shown
