"""The words for a gap and their probabilities are those of transformers; texts stay as they were written."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, FillMaskPipeline

import regard
from faults.refusal import refused
from parity import tiny
from regard.tasks.embedder import Embedder
from regard.tasks.filler import Filler
from regard.tasks.load import load_task
from tasks import readers

MODELS = ["bert masked lm, relu", "roberta masked lm", "distilbert masked lm", "electra generator"]
TEXTS = ["My dog is {0}.", "{0} of the King is {0} , and {0}!", "naïve {0}"]


@pytest.fixture(scope="module", params=MODELS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Filler, Any]:
    folder = tmp_path_factory.mktemp("model")
    model = readers.save(folder, request.param, request.getfixturevalue(readers.vocabulary_of(request.param)))
    return regard.load(folder), FillMaskPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))


@pytest.fixture(scope="module")
def fill(bert_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Filler:
    """A BERT for which some words are likelier than others, whatever stands around."""
    folder = tmp_path_factory.mktemp("model")
    readers.save(folder, "bert masked lm, relu", bert_dir)
    made = regard.load(folder)
    with torch.no_grad():
        for strength, word in enumerate(["##ing", "cute", "old", "big"]):
            made.model.heads["masked_lm"].unembed.bias[made.tokenizer.id_of(word)] += 10 + 2 * strength
    return made


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_tokens_and_probabilities_are_those_of_transformers(both: tuple[Filler, Any], text: str) -> None:
    fill, theirs = both
    text = text.format(theirs.tokenizer.mask_token)
    found = theirs(text, top_k=7)
    found = found if isinstance(found[0], list) else [found]
    ours = fill(text, top=7)
    assert len(ours.gaps) == len(found)
    for mine, other in zip(ours.gaps, found, strict=True):
        assert [each.id for each in mine] == [each["token"] for each in other]
        assert [each.score for each in mine] == pytest.approx([each["score"] for each in other], abs=1e-6)


@pytest.mark.parity
def test_targets_have_the_probabilities_that_transformers_gives_them(both: tuple[Filler, Any]) -> None:
    fill, theirs = both
    space = "Ġ" if "roberta" in theirs.model.config.model_type else ""
    words = ["red", "green", "blue"]
    found = theirs(f"The door is {theirs.tokenizer.mask_token}.", targets=[space + word for word in words])
    (ours,) = fill("The door is ___.", targets=words).gaps
    assert [each.id for each in ours] == [each["token"] for each in found]
    assert [each.score for each in ours] == pytest.approx([each["score"] for each in found], abs=1e-6)


def test_a_gap_may_be_written_in_three_ways(both: tuple[Filler, Any]) -> None:
    fill, theirs = both
    own = fill(f"My dog is {theirs.tokenizer.mask_token}.")
    for other in ("My dog is [MASK].", "My dog is ___.", "My dog is _______."):
        assert fill(other) == own


def test_many_texts_are_each_as_if_alone_and_in_order(both: tuple[Filler, Any]) -> None:
    fill, _ = both
    texts = ["a ___", "The ___ of the house is very ___ and so is ours.", "___", "one two three ___"] * 3
    heard: list[int] = []
    together = fill.many(texts, top=2, first=11, heard=heard.append)
    assert heard[-1] == 10 + len(texts)
    for text, found in zip(texts, together, strict=True):
        alone = fill(text, top=2)
        assert found.text == alone.text
        assert [[each.id for each in gap] for gap in found.gaps] == [[each.id for each in gap] for gap in alone.gaps]


def test_the_surest_gap_is_filled_first_and_the_others_are_looked_at_again(both: tuple[Filler, Any]) -> None:
    fill, _ = both
    text = "The ___ of the house is ___ and ___."
    ids = torch.tensor(fill.tokenizer.encode(text.replace("___", fill.tokenizer.special["mask"])).ids)
    chances, words = [], {}
    while (places := (ids == fill.tokenizer.mask_id).nonzero()[:, 0]).numel():
        with torch.no_grad():
            best = fill.model(ids[None]).heads["masked_lm"][0, places].softmax(-1).max(-1)
        surest = int(best.values.argmax())
        chances.append(float(best.values[surest]))
        words[int(places[surest])] = ids[places[surest]] = best.indices[surest]
    found = fill(text)
    assert found.score == pytest.approx(math.prod(chances), rel=1e-4)
    for _, id in sorted(words.items()):
        assert fill.tokenizer.decode([int(id)], skip_special=False).strip(" #") in found.text


def test_the_text_stays_as_it_was_written_around_the_gap(fill: Filler) -> None:
    assert fill("My  Dog's   ___ , ÉTÉ\tend").text == "My  Dog's   big , ÉTÉ\tend"
    assert [each.text for each in fill("un___ it ___!", top=1).gaps[0]] == ["unbig it ___!"]


@settings(max_examples=50)
@given(st.text(max_size=6), st.text(max_size=6))
def test_no_letter_around_a_gap_is_changed(fill: Filler, before: str, after: str) -> None:
    assume("__" not in before + after)
    assume(not (before.endswith("_") or after.startswith("_")))
    (gap,) = fill(f"{before}___{after}", top=4).gaps
    for each in gap:
        assert each.text.endswith(after)
        assert each.text.startswith(before.rstrip() if each.token.startswith("##") else before)
        assert each.text.removesuffix(after).endswith(each.token.removeprefix("##"))


def test_what_continues_a_word_stands_close_to_it(fill: Filler) -> None:
    (gap,) = fill("We are walk ___ home.", top=4).gaps
    assert [(each.token, each.text) for each in gap] == [
        ("big", "We are walk big home."),
        ("old", "We are walk old home."),
        ("cute", "We are walk cute home."),
        ("##ing", "We are walking home."),
    ]


@pytest.mark.parametrize(
    ("text", "targets", "error"),
    [
        ("My dog is cute.", None, "text 4 has no gap to fill: My dog is cute."),
        ("My dog is __.", None, "has no gap"),
        ("word " * 30 + "___", None, f"tokens, the model takes {tiny.LENGTH}"),
        ("My dog is ___.", ["cute", "antidisestablishment"], "the target 'antidisestablishment' is"),
        ("My dog is ___.", ["😀"], "the target '😀' is not in the vocabulary"),
        ("My dog is ___.", [], "there are no targets"),
    ],
    ids=str,
)
def test_mistakes_say_what_to_do(fill: Filler, text: str, targets: list[str] | None, error: str) -> None:
    with refused(error):
        fill.many([text], targets=targets, first=4)


def test_targets_are_found_whole_words_in_their_place(fill: Filler) -> None:
    gaps = fill("A ___ dog and a ___ cat", targets=["Old", " cute"]).gaps
    assert [[each.token for each in gap] for gap in gaps] == [["old", "cute"]] * 2
    assert fill("A ___ dog and a ___ cat", targets=["old"]).text == "A old dog and a old cat"


def test_weights_that_give_no_number_are_an_error_that_names_the_line(bert_dir: Path, tmp_path: Path) -> None:
    readers.save(tmp_path, "bert masked lm, relu", bert_dir)
    fill = regard.load(tmp_path)
    with torch.no_grad():
        fill.model.encoder.embed.position.weight[9] = torch.nan  # only long texts meet it
    with refused("input line 2: the model's weights give no number"):
        fill.many(["a ___", "one two three four five six seven eight nine ___"])


def test_a_masked_language_model_still_embeds_and_vectors_come_first_where_its_files_say_so(
    bert_dir: Path, tmp_path: Path
) -> None:
    readers.save(tmp_path, "bert masked lm, relu", bert_dir)
    assert isinstance(regard.load(tmp_path), Filler)
    assert load_task(tmp_path, Embedder)(["a"]).shape == (1, 16)
    (tmp_path / "modules.json").write_text("[]")
    with refused("modules.json"):  # it is read: the model is taken for one of sentence-transformers
        regard.load(tmp_path)
