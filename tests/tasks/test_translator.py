"""From text to text: order, layout and length are kept, and what is shown is what the model computed."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.errors import UserError
from regard.pretrained import bundled
from regard.tasks import translator as module
from regard.tasks.batching import batches, chunks
from regard.tasks.load import load_task
from regard.tasks.translation import Translation
from regard.tasks.translator import Translator
from tasks.translators import MAX_LEN, save, tokenizer, translator

KINDS = ["marian", "pegasus", "t5", "recurrent"]
SENTENCES = ["O livro está em cima da mesa.", "A casa", "é grande e a mesa é pequena", "mesa", "a casa é", "O"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_model_is_a_translator(tmp_path: Path, name: str) -> None:
    loaded = regard.load(save(tmp_path, name))
    assert isinstance(loaded, Translator)
    ours = translator(name)(SENTENCES[0])
    again = loaded(SENTENCES[0])
    assert (again.text, str(again)) == (ours.text, ours.text)
    assert again.score == pytest.approx(ours.score, abs=1e-4)
    assert loaded.summary().n_parameters == loaded.model.n_parameters


def test_without_a_model_the_error_says_how_to_give_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    with pytest.raises(UserError, match="the bundled model pt-en is not in this copy") as caught:
        load_task(None, Translator)
    assert "hf:owner/name" in caught.value.hint


def test_the_score_is_that_of_a_second_reading() -> None:
    translate = translator()
    for length_penalty in (0.0, 1.0):
        found = translate(SENTENCES[0], beam=3, length_penalty=length_penalty)
        for each in (found, *found.alternatives):
            assert each.inside is not None
            ids = each.inside.hypothesis.ids
            src = torch.tensor([list(each.inside.src_ids)])
            with torch.no_grad():
                scores = translate.model(src, torch.tensor([[translate.model.config.start_id, *ids[:-1]]])).logits[0]
            scores[:, -1] = -torch.inf  # padding is no word
            total = float(scores.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum())
            assert each.log_probability == pytest.approx(total, abs=1e-4)
            assert each.score == pytest.approx(total / len(ids) ** length_penalty, abs=1e-4)


def test_the_alternatives_are_as_many_as_the_beam_is_wide_and_ever_worse() -> None:
    found = translator()(SENTENCES[0], beam=4)
    scores = [each.score for each in (found, *found.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert translator()(SENTENCES[0], beam=4, n_best=2).alternatives[0].text == found.alternatives[0].text


def test_padding_and_the_start_are_never_written() -> None:
    silent = translator().model.config.pad_id
    for found in translator().many(SENTENCES, beam=2, n_best=2):
        assert found.inside is not None
        assert silent not in found.inside.hypothesis.ids


# Many


@pytest.mark.parametrize("name", KINDS)
def test_order_is_kept_and_mates_do_not_matter(name: str) -> None:
    """Unless the best two are as good, which is counted."""
    translate = translator(name)
    texts = [f"{SENTENCES[i % 6]} {'mesa ' * (i % 5)}".strip() for i in range(64)]
    alone = [translate(text, beam=2) for text in texts]
    assert len({each.text for each in alone}) > 10  # there is something to confuse
    close = 0
    for budget in (1, 300, 100_000):
        together = list(translate.many(texts, beam=2, batch_tokens=budget))
        assert [each.source for each in together] == texts
        for ours, other in zip(alone, together, strict=True):
            if ours.text != other.text:
                assert ours.score - ours.alternatives[0].score < 1e-3
                close += 1
    assert close <= 2


def test_texts_are_read_a_chunk_at_a_time() -> None:
    asked = 0

    def endless() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield "O"

    results = translator().many(endless(), beam=1, max_new=1)
    for _ in range(40):
        next(results)
    assert asked <= module.FIRST_CHUNK * 3
    sizes = [len(chunk) for chunk in chunks(range(20_000), module.FIRST_CHUNK, module.LAST_CHUNK)]
    assert sizes[:3] == [32, 64, 128]
    assert max(sizes) == module.LAST_CHUNK
    assert sum(sizes) == 20_000


def test_a_batch_holds_no_more_than_its_budget() -> None:
    lengths = [5, 1, 9, 3, 3, 30, 2]
    groups = list(batches(lengths, 12))
    assert sorted(i for group in groups for i in group) == list(range(7))
    assert all(len(group) == 1 or len(group) * max(lengths[i] for i in group) <= 12 for group in groups)


@pytest.mark.parametrize("text", ["", " ", "\n", "\t \n\n"])
def test_nothing_stays_nothing(text: str) -> None:
    found = translator()(text, split=True)
    assert (found.text, found.score, found.sentences) == (text, 0.0, ())
    with pytest.raises(UserError, match="empty"):
        found.attention()


def test_empty_texts_keep_their_place() -> None:
    found = [each.text for each in translator().many(["", "mesa", "  ", "casa"], beam=1)]
    assert (found[0], found[2]) == ("", "  ")
    assert found[1] == translator()("mesa", beam=1).text


@pytest.mark.parametrize("call", [lambda t: t(["a"]), lambda t: t.many("a")])
def test_one_text_and_several_are_not_confused(call: Any) -> None:
    with pytest.raises(UserError, match="expected"):
        call(translator())


@pytest.mark.parametrize(
    "options",
    [{"beam": 0}, {"max_new": 0}, {"n_best": 0}, {"length_penalty": math.inf}, {"prefix": [10_000]}, {"prefix": [-1]}],
)
def test_senseless_wishes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        translator()("mesa", **options)
    if "prefix" not in options:
        with pytest.raises(UserError):  # before the first text is read
            translator().many([], **options)


def test_a_prefix_begins_the_translation() -> None:
    ids = tokenizer().encode("The book", special=False).ids
    assert translator()("O livro", prefix=ids).text.startswith("The book")


# Layout


def test_a_document_keeps_its_layout() -> None:
    translate = translator()
    text = "# O livro\n\n  - A casa. O livro!\n\n\t2) mesa\r\n   \nA casa é grande."
    ours = translate.document(text, beam=2)
    one = {key: translate(key, beam=2).text for key in ("O livro", "A casa.", "O livro!", "mesa", "A casa é grande.")}
    assert ours == (
        f"# {one['O livro']}\n\n  - {one['A casa.']} {one['O livro!']}\n\n\t2) {one['mesa']}\r\n   \n"
        f"{one['A casa é grande.']}"
    )


def test_several_sentences_are_one_translation_in_pieces() -> None:
    found = translator()("O livro. A mesa.", beam=3, split=True)
    first, second = found.pieces
    assert found.text == f"{first.text} {second.text}"
    assert found.log_probability == pytest.approx(first.log_probability + second.log_probability)
    assert found.score == pytest.approx(found.log_probability / (first.n_tokens + second.n_tokens))
    assert found.alternatives[1].text == f"{first.alternatives[1].text} {second.alternatives[1].text}"
    assert found.sentences == found.pieces
    with pytest.raises(UserError, match="2 pieces"):
        found.attention()
    assert not translator()("O livro. A mesa.").pieces


def test_a_text_with_layout_around_it_can_be_looked_into() -> None:
    found = translator()("  - O livro ", split=True)
    assert found.text == f"  - {translator()('O livro').text} "
    assert found.alignment(words=True).source == ("O", "livro", "</s>")


def test_a_line_stays_a_line() -> None:
    """The tiny vocabulary has a token with a line end, and some texts get it."""
    line_end = tokenizer().id_of("\n")
    assert line_end is not None
    found = translator()("O livro", prefix=[line_end + 3, line_end, line_end + 3], beam=1)
    assert found.inside is not None
    assert "\n" in tokenizer().decode(found.inside.hypothesis.ids)
    assert "\n" not in found.text


# Length


def test_a_long_text_is_cut_at_its_punctuation_and_nothing_is_lost() -> None:
    translate = translator()
    text = "O livro está em cima da mesa. " * 6 + "A casa, a mesa."
    found = translate(text, beam=1)
    assert len(found.pieces) > 1
    assert "".join(piece.source for piece in found.pieces).replace(" ", "") == text.replace(" ", "")
    assert all(piece.source.endswith(".") for piece in found.pieces)
    assert all(piece.inside and len(piece.inside.src_ids) <= MAX_LEN for piece in found.pieces)
    assert found.note == ""


@pytest.mark.parametrize("text", ["mesa " * 60, "x" * 200])
def test_a_sentence_that_must_be_cut_in_the_middle_is_noted(text: str) -> None:
    found = translator()(text, beam=1)
    assert "".join(piece.source for piece in found.pieces).replace(" ", "") == text.replace(" ", "")
    assert f"more than {MAX_LEN} tokens was cut" in found.note


def test_what_the_tokenizers_file_calls_the_longest_is_cut_though_the_model_could_take_more(tmp_path: Path) -> None:
    text = "O livro está em cima, a casa é grande"
    assert not regard.load(save(tmp_path))(text, beam=1).pieces
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 16}))
    found = regard.load(tmp_path)(text, beam=1)
    assert [piece.source for piece in found.pieces] == ["O livro está em cima,", "a casa é grande"]
    assert found.note == ""


def test_a_model_too_short_for_anything_says_so() -> None:
    with pytest.raises(UserError, match="too few for one letter"):
        translator(max_len=1)("mesa")


def test_what_is_written_ends_at_the_limit() -> None:
    for found in translator().many(SENTENCES, max_new=3):
        assert 1 <= found.n_tokens <= 3
    for found in translator().many(SENTENCES):
        assert found.inside is not None
        assert found.n_tokens <= min(MAX_LEN, 2 * len(found.inside.src_ids) + 10)


# Looking inside


@pytest.mark.parametrize("name", KINDS)
def test_attention_has_a_row_for_each_written_token_with_the_sum_one(name: str) -> None:
    found = translator(name)(SENTENCES[0])
    weights = found.attention()
    assert weights.shape == (len(found.target_tokens), len(found.source_tokens))
    assert_close(weights.sum(-1), torch.ones(len(weights)), rtol=0, atol=1e-5)
    assert_close(found.alignment().weights, weights)
    words = found.alignment(words=True)
    assert_close(words.weights.sum(-1), torch.ones(len(words.target)), rtol=0, atol=1e-5)
    assert words.source == ("O", "livro", "está", "em", "cima", "da", "mesa.", "</s>")
    assert " ".join(words.target).removesuffix(" </s>") == found.text


def test_layers_and_heads_are_told_apart_and_average_to_the_default() -> None:
    found = translator("t5")(SENTENCES[0])
    config = translator("t5").model.config.decoder
    each = [found.attention(layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)]
    assert len({tuple(weights.flatten().tolist()) for weights in each}) == len(each) > 2
    assert_close(torch.stack(each).mean(0), found.attention())
    for layer, head in [(config.n_layers, 0), (0, config.n_heads), (-1, 0)]:
        with pytest.raises(UserError, match="has no"):
            found.attention(layer, head)


@pytest.mark.parametrize("name", KINDS)
def test_a_written_word_is_explained_number_by_number(name: str) -> None:
    found = translator(name)(SENTENCES[0])
    at = len(found.target_tokens) // 2
    word = f"#{at}"
    best = found.explain(word)
    assert (best.kind, best.query) == ("cross", at)
    assert_close(best.weights, found.attention(best.layer, best.head)[at], rtol=0, atol=1e-5)
    assert best.error <= 1e-5
    assert best.ending is not None
    assert_close(found.explain(word, layer=0, head=0).weights, found.attention(0, 0)[at], rtol=0, atol=1e-5)
    assert best._repr_html_().startswith("<iframe")
    with pytest.raises(UserError, match="there is no token 'nowhere'"):
        found.explain("nowhere")
    with pytest.raises(UserError, match="has no layer 9"):
        found.explain(word, layer=9)


def test_without_a_place_the_most_decided_head_is_explained() -> None:
    found = translator("t5")(SENTENCES[0])
    best = found.explain("#0")
    config = translator("t5").model.config.decoder
    rows = [found.attention(layer, head)[0, :-1] for layer in range(config.n_layers) for head in range(config.n_heads)]
    assert float(best.weights[:-1].max()) == pytest.approx(max(float(row.max()) for row in rows))


def test_words_are_asked_for_as_they_were_written() -> None:
    found = translator()("O livro está em cima da mesa.")
    first = found.alignment(words=True).target[0]
    assert found.explain(first).query == 0


def test_a_tree_is_kept_when_asked_for() -> None:
    found = translator()(SENTENCES[0], beam=3, tree=True)
    assert found.tree is not None
    assert found.inside is not None
    assert tuple(found.tree.path(found.tree.best)) == found.inside.hypothesis.ids
    assert translator()(SENTENCES[0], beam=3).tree is None
    nodes = found.to_dict()["tree"]["nodes"]
    assert nodes[0]["text"] is None
    assert isinstance(nodes[1]["text"], str)


def test_a_translation_is_plain_data() -> None:
    found = translator()("O livro. " + "A mesa " * 60, beam=2, split=True, tree=True)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["text"] == found.text
    assert plain["pieces"][0]["source"] == "O livro."
    assert plain["note"]
    assert len(plain["alternatives"]) == 1


def test_results_compare_by_what_they_say() -> None:
    assert translator()("mesa") == translator()("mesa")
    assert translator()("mesa") != Translation("mesa", "table")
