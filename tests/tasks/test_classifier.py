"""Labels and their probabilities are those of transformers, and no text depends on its mates."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

import regard
from faults.refusal import refused
from parity import tiny
from regard.models.recurrent import RecurrentConfig, build
from regard.tasks.classifier import Classification, Classifier
from regard.tasks.embedder import Embedder
from regard.tasks.load import load_task
from regard.weights.store import load_model, save_model
from tasks import readers
from tasks.translators import tokenizer

LONG = "The quick brown fox jumps over the lazy dog, and then it does so again and again until evening falls. "
TEXTS = ["A dog.", LONG * 2, "one", "Nothing is as it was", LONG]
PAIRS = [("A man sleeps.", "Someone is asleep."), (LONG, "no"), ("no", LONG), (LONG, LONG), ("a", "b")]
FAMILIES = ["bert", "roberta", "distilbert", "electra", "gpt2", "llama"]
CLOSE = 1e-5
Both = tuple[Classifier, Any, Any]


@pytest.fixture(scope="module", params=FAMILIES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Our classifier, their tokenizer and their model."""
    name, folder = f"{request.param} classification", tmp_path_factory.mktemp("model")
    model = readers.save(folder, name, request.getfixturevalue(readers.vocabulary_of(name)))
    return regard.load(folder), AutoTokenizer.from_pretrained(folder), model


@pytest.mark.parity
@pytest.mark.parametrize("rows", [[(text,) for text in TEXTS], PAIRS], ids=["texts", "pairs"])
def test_probabilities_are_those_of_transformers(both: Both, rows: list[tuple[str, ...]]) -> None:
    """Texts and pairs, some too long; BERT and ELECTRA are told which text is the second, the others are not."""
    classify, theirs, model = both
    ours = classify([row if len(row) == 2 else row[0] for row in rows])  # type: ignore[arg-type, misc]
    for row, found in zip(rows, ours, strict=True):
        given = theirs(*row, truncation=True, max_length=tiny.LENGTH, return_tensors="pt")
        with torch.no_grad():
            expected = model(**given).logits[0].softmax(-1)
        torch.testing.assert_close(torch.tensor(list(found.scores.values())), expected, rtol=0, atol=CLOSE)
        assert found.label == model.config.id2label[int(expected.argmax())]
        assert found.score == max(found.scores.values())


def test_the_second_text_of_a_pair_is_marked_where_the_model_takes_segments(both: Both) -> None:
    classify, _, model = both
    expected = model.config.model_type in ("bert", "electra")
    assert classify._takes_segments == expected


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("recurrent")
    sizes: dict[str, Any] = {"vocab_size": tokenizer().vocab_size, "pad_id": None, "start_id": None, "d_model": 8}
    save_model(build(RecurrentConfig(kind="classifier", labels=("x", "y"), bidirectional=True, **sizes)), folder)
    tokenizer().save(folder)
    return regard.load(folder)


def test_no_text_depends_on_its_mates_or_on_the_order(both: Both, recurrent: Classifier) -> None:
    chance = random.Random(0)
    for classify in (both[0], recurrent):
        texts = [" ".join(chance.choices(["The", "table", "is", "small"], k=chance.randint(1, 18))) for _ in range(40)]
        alone = [classify([text])[0] for text in texts]
        order = chance.sample(range(len(texts)), len(texts))
        together = classify([texts[i] for i in order])
        for i, found in zip(order, together, strict=True):
            assert list(found.scores.values()) == pytest.approx(list(alone[i].scores.values()), abs=1e-6)
            assert found.label == alone[i].label


def test_a_recurrent_classifier_says_what_its_model_says(recurrent: Classifier) -> None:
    ids = torch.tensor([tokenizer().encode("The table").ids])
    with torch.no_grad():
        expected = recurrent.model(ids).logits[0].softmax(-1)
    (found,) = recurrent(["The table"])
    assert list(found.scores.values()) == pytest.approx(expected.tolist(), abs=1e-6)
    assert list(found.scores) == ["x", "y"]


@pytest.mark.parametrize(
    ("options", "function"),
    [
        ({"num_labels": 1}, lambda logits: logits),
        ({"num_labels": 1, "problem_type": "regression"}, lambda logits: logits),
        ({"num_labels": 3, "problem_type": "regression"}, lambda logits: logits),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, torch.sigmoid),
        ({"num_labels": 3, "problem_type": "single_label_classification"}, lambda logits: logits.softmax(-1)),
    ],
    ids=["one", "value", "values", "several", "best"],
)
def test_what_a_score_means_is_as_config_json_says(
    bert_dir: Path, tmp_path: Path, options: dict[str, Any], function: Any
) -> None:
    model = readers.save(tmp_path, "bert classification", bert_dir, **options)
    (found,) = regard.load(tmp_path)(["A dog."])
    with torch.no_grad():
        logits = model(torch.tensor([regard.load(tmp_path).tokenizer.encode("A dog.").ids])).logits[0]
    assert list(found.scores.values()) == pytest.approx(function(logits).tolist(), abs=CLOSE)
    save_model(load_model(tmp_path), tmp_path / "new")
    kept = json.loads((tmp_path / "new" / "config.json").read_text())
    assert kept.get("problem_type") == options.get("problem_type")


def test_labels_that_stand_for_themselves_are_all_or_none() -> None:
    several = Classification({"a": 0.6, "b": 0.1, "c": 0.9}, "multi_label_classification")
    assert several.labels == ("c", "a")
    assert Classification({"a": 0.2, "b": 0.1}, "multi_label_classification").labels == ()
    assert Classification({"a": 0.4, "b": 0.3, "c": 0.3}).labels == ("a",)
    assert several.best(2) == [("c", 0.9), ("a", 0.6)]
    assert [str(several), str(Classification({"value": 2.5}, "regression"))] == ["c, a", "2.5"]


def test_mistakes_name_the_line(both: Both) -> None:
    classify = both[0]
    with refused("one text was given"):
        classify("a text")
    with refused("input line 12 has 2 texts"):
        classify(["a", ("b", "c")], first=11)  # type: ignore[list-item]
    with refused("input line 1 has 3 texts"):
        classify([("a", "b", "c")])  # type: ignore[list-item]
    assert classify([]) == []
    if not classify.tokenizer.encode(""):
        with refused("input line 8 is empty"):
            classify(["a", ""], first=7)


def test_weights_that_give_no_number_are_an_error_that_names_the_line(bert_dir: Path, tmp_path: Path) -> None:
    readers.save(tmp_path, "bert classification", bert_dir)
    classify = regard.load(tmp_path)
    with torch.no_grad():
        classify.model.encoder.embed.token.weight[classify.tokenizer.id_of("dog")] = torch.nan
    with refused("input line 3: the model's weights give no number"):
        classify(["a", "b", "dog"])


def test_two_labels_of_one_name_are_refused(bert_dir: Path, tmp_path: Path) -> None:
    readers.save(tmp_path, "bert classification", bert_dir, id2label={0: "a", 1: "b", 2: "a"})
    with refused("two labels have the same name"):
        regard.load(tmp_path)


def test_a_classifier_s_encoder_still_embeds(bert_dir: Path, tmp_path: Path) -> None:
    readers.save(tmp_path, "bert classification", bert_dir)
    assert isinstance(regard.load(tmp_path), Classifier)
    assert load_task(tmp_path, Embedder)(["A dog."]).shape == (1, 16)
