"""What the server answers is what the task says when it is called directly; the page's pictures are the model's."""

import base64
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from inspection.packing import unpacked
from regard.decoding.sample import SampleSettings
from regard.inspection.attention import attention
from regard.inspection.reading import read_text
from regard.studio.solving import on_plane
from studio import houses
from studio.houses import TASKS, TEXT, events


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with houses.client(houses.studio()) as found:
        yield found


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_translation_is_the_task_s_own_with_all_its_numbers(client: TestClient) -> None:
    found, task = ask(client, "/api/translate", text=TEXT, beam=3), TASKS["pt-en"][1]()
    ours = task(TEXT, beam=3, tree=True)
    (sentence,) = found["sentences"]
    assert found["text"] == ours.text
    for told, each in zip(sentence["hypotheses"], [ours, *ours.alternatives], strict=True):
        hypothesis = each.inside.hypothesis
        assert (told["text"], told["ids"], told["score"]) == (each.text, list(hypothesis.ids), each.score)
        assert [row["p"] for row in told["tokens"]] == [math.exp(x) for x in hypothesis.log_probabilities]
    weights = unpacked(sentence["cross"]["weights"])
    np.testing.assert_allclose(weights, ours.attention().numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=0, atol=1e-5)
    assert weights.shape == (len(sentence["hypotheses"][0]["tokens"]), len(sentence["source"]["tokens"]))


def test_the_best_path_of_the_tree_is_the_translation_and_the_greedy_one_is_a_beam_of_one(client: TestClient) -> None:
    (sentence,) = ask(client, "/api/translate", text=TEXT, beam=4)["sentences"]
    nodes = sentence["tree"]["nodes"]

    def path(node: dict[str, Any]) -> list[int]:
        return [] if node["parent"] is None else [*path(nodes[node["parent"]]), node["token"]]

    chosen = next(node for node in nodes if node["reason"] == "chosen")
    assert path(chosen) == sentence["hypotheses"][0]["ids"]
    alone = ask(client, "/api/translate", text=TEXT, beam=1)["sentences"][0]
    assert sentence["greedy"]["ids"] == alone["hypotheses"][0]["ids"] == alone["greedy"]["ids"]
    marked = [node for node in nodes if node["greedy"]]
    deepest = max(marked, key=lambda node: node["step"])
    assert path(deepest) == alone["hypotheses"][0]["ids"][: deepest["step"]]


def test_a_clicked_word_is_forced_and_what_follows_is_the_task_s(client: TestClient) -> None:
    (sentence,) = ask(client, "/api/translate", text=TEXT)["sentences"]
    other = next(node for node in sentence["tree"]["nodes"] if node["step"] == 1 and node["rank"])
    (forced,) = ask(client, "/api/translate", text=TEXT, prefix=[other["token"]])["sentences"]
    assert forced["hypotheses"][0]["ids"][0] == other["token"]
    assert [row["forced"] for row in forced["hypotheses"][0]["tokens"]][:2] == [True, False]
    ours = TASKS["pt-en"][1]()(TEXT, prefix=[other["token"]])
    assert forced["hypotheses"][0]["ids"] == list(ours.inside.hypothesis.ids)


def test_a_streamed_translation_shows_every_step_and_ends_with_the_same(client: TestClient) -> None:
    whole = ask(client, "/api/translate", text=TEXT, beam=2)
    answer = client.post("/api/translate", json={"text": TEXT, "beam": 2, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *steps, (name, last) = events(answer.text)
    assert name == "done"
    assert last == whole
    lengths = [step["t"] for kind, step in steps if kind == "step"]
    assert lengths == list(range(1, len(lengths) + 1))
    assert all(len(beam["ids"]) == step["t"] for _, step in steps for beam in step["beams"])


def test_sentences_are_translated_one_by_one_where_asked(client: TestClient) -> None:
    text = f"{TEXT} A casa é grande."
    found = ask(client, "/api/translate", text=text, split=True)
    assert len(found["sentences"]) == 2
    assert found["text"] == TASKS["pt-en"][1]()(text, split=True).text


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, None), (None, None)])
def test_one_head_on_the_wire_is_the_recomputed_one(client: TestClient, layer: int | None, head: int | None) -> None:
    overview = ask(client, "/api/attention", model="filler", text="the president flew to san francisco")
    body = {"model": "filler", "text": "the president flew to san francisco", "layer": layer, "head": head}
    answer = client.post("/api/attention/head", json=body)
    shape = tuple(map(int, answer.headers["x-regard-shape"].split(",")))
    ours = np.frombuffer(answer.content, "<f2").reshape(shape)
    task: Any = TASKS["filler"][1]()
    theirs = attention(read_text(task.model, task.tokenizer, body["text"]), "encoder", layer, head)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=1e-3)
    assert shape == (len(overview["tokens"]["source"]),) * 2
    small = unpacked(overview["payloads"][0]["weights"])
    assert small.shape[:2] == (2, 2)
    if layer is not None and head is not None:
        np.testing.assert_allclose(small[layer, head] / 255, theirs.numpy(), rtol=0, atol=1 / 255)


def test_a_capture_s_request_can_be_asked_again(client: TestClient) -> None:
    first = ask(client, "/api/attention", text=TEXT)
    again = ask(client, "/api/attention", **first["request"])
    assert first["payloads"] == again["payloads"]
    assert set(first["kinds"]) == {"encoder", "decoder", "cross"}
    ids = [row["id"] for row in first["tokens"]["written"]]
    assert first["request"]["ids"] == ids


def test_explained_numbers_add_up(client: TestClient) -> None:
    found = ask(client, "/api/explain", text=TEXT, kind="cross", layer=0, head=1, query=0)
    (row,) = found["payloads"]
    weights = np.array([key["weight"] for key in row["keys"]])
    values = np.array([key["v"] for key in row["keys"]])
    scores = np.array([key["scaled"] for key in row["keys"]])
    np.testing.assert_allclose(weights, np.exp(scores) / np.exp(scores).sum(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(weights @ values, row["sum"], rtol=0, atol=1e-4)
    assert row["check"]["largest_error"] < 1e-4
    assert found["why"] is None
    assert "most decided" in ask(client, "/api/explain", text=TEXT)["why"]


def test_for_a_pronoun_the_head_finder_chooses_and_says_how_sure_it_is(client: TestClient) -> None:
    text = "The animal did not cross the street because it was too tired"
    judged = ask(client, "/api/heads", model="judge")["payloads"][0]["judged"]
    found = ask(client, "/api/explain", model="judge", text=text)
    (row,) = found["payloads"]
    assert "it".startswith(row["query"]["text"])
    assert (row["layer"], row["head"]) == (judged["layer"], judged["head"])
    assert found["why"] == f"this head was chosen because {judged['verdict']}"
    assert found["judged"] == judged
    for more in ({"token": "tired"}, {"token": "it", "layer": 0}):
        other = ask(client, "/api/explain", model="judge", text=text, **more)
        assert "most decided" in other["why"]
        assert other["judged"] is None


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/api/lens", {"model": "filler", "text": "the president flew"}, "lens"),
        ("/api/ablate", {"model": "filler", "text": "the president", "layer": 0, "head": None}, "ablation"),
        ("/api/masks", {"model": "writer", "text": "The book is", "padding": 2}, "mask"),
        ("/api/masks", {"text": TEXT, "kind": "cross", "padding": 3}, "mask"),
        ("/api/positions", {"n": 8, "width": 6}, "positions"),
        ("/api/positions", {"model": "pt-en", "n": 8}, "positions"),
        ("/api/heads", {"model": "judge"}, "heads"),
        ("/api/attention", {"model": "writer", "text": "The book"}, "heads overview"),
    ],
)
def test_every_look_is_a_capture(client: TestClient, path: str, body: dict[str, Any], kind: str) -> None:
    found = ask(client, path, **body)
    assert found["schema"] == "regard-capture/1"
    assert [payload["type"] for payload in found["payloads"]] == [kind]


def test_a_generated_text_is_the_task_s_own_drawn_or_not(client: TestClient) -> None:
    task = TASKS["writer"][1]()
    plain = ask(client, "/api/generate", prompt="The book", max_new=8, raw=True)
    ours = task("The book", limit=8, raw=True)
    assert (plain["text"], plain["ids"], plain["reason"]) == (ours.text, list(ours.ids), ours.reason)
    luck = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "seed": 3}
    drawn = ask(client, "/api/generate", prompt="The book", max_new=8, **luck)
    assert drawn["ids"] == list(task("The book", limit=8, sampling=SampleSettings(**luck)).ids)


def test_probabilities_are_before_and_after_the_filter(client: TestClient) -> None:
    body = {"prompt": "The book", "max_new": 3, "raw": True, "temperature": 0.7, "top_k": 5, "seed": 1, "top": 8}
    found = ask(client, "/api/generate", **body)
    task: Any = TASKS["writer"][1]()
    ids = torch.tensor([task.encode("The book", raw=True)])
    with torch.inference_mode():
        base = task.model(ids).logits[0, -1].softmax(-1)
    first = found["tokens"][0]
    for row in first["top"]:
        assert row["p_base"] == pytest.approx(float(base[row["id"]]), abs=1e-5)
    assert sum(row["kept"] for row in first["top"]) == 5
    assert sum(row["p_final"] for row in first["top"]) == pytest.approx(1.0, abs=1e-5)
    assert sum(row["p_base"] for row in first["top"]) + first["rest"] == pytest.approx(1.0, abs=1e-5)
    assert first["p_base"] == pytest.approx(float(base[first["id"]]), abs=1e-5)


def test_a_branch_goes_on_from_the_clicked_token(client: TestClient) -> None:
    whole = ask(client, "/api/generate", prompt="The book", max_new=6, raw=True)
    first = whole["tokens"][1]
    other = next(row for row in first["top"] if row["id"] != first["id"])
    forced = [whole["ids"][0], other["id"]]
    branch = ask(client, "/api/generate", prompt="The book", max_new=4, raw=True, forced=forced)
    assert branch["ids"][:2] == forced
    task: Any = TASKS["writer"][1]()
    ids = torch.tensor([[*task.encode("The book", raw=True), *forced]])
    with torch.inference_mode():
        assert branch["ids"][2] == int(task.model(ids).logits[0, -1].argmax())


def test_a_streamed_text_is_its_pieces_and_stops_at_a_stop_string(client: TestClient) -> None:
    whole = ask(client, "/api/generate", prompt="The", max_new=12, raw=True)
    body = {"prompt": "The", "max_new": 12, "raw": True, "stream": True}
    (start, _), *tokens, (end, last) = events(client.post("/api/generate", json=body).text)
    assert (start, end) == ("start", "done")
    pieces = "".join(row["piece"] for _, row in tokens)
    assert last["text"].startswith(pieces)
    assert last["text"] == whole["text"]
    letter = whole["text"].strip()[2]
    stopped = ask(client, "/api/generate", prompt="The", max_new=12, raw=True, stop=[letter])
    ours = TASKS["writer"][1]()("The", limit=12, raw=True, stop=[letter])
    assert (stopped["text"], stopped["reason"]) == (ours.text, "stop")


def test_the_other_tasks_say_what_they_say_directly(client: TestClient) -> None:
    filled, ours = (
        ask(client, "/api/fill", text="the [MASK] flew", top=3),
        TASKS["filler"][1]()("the [MASK] flew", top=3),
    )
    assert [row["id"] for row in filled["gaps"][0]] == [each.id for each in ours.gaps[0]]
    text = "president obama flew to san francisco"
    judged = ask(client, "/api/classify", text=text, saliency="integrated")
    theirs = TASKS["judge"][1]()([text])[0]
    assert {row["name"]: row["p"] for row in judged["labels"]} == pytest.approx(theirs.scores)
    assert judged["saliency"]["label"] == theirs.label
    tagged = ask(client, "/api/tag", text=text)
    assert [row["tag"] for row in tagged["words"]] == [word.tag for word in TASKS["tagger"][1]()(text).words]
    answered = ask(client, "/api/answer", question="who flew", context=text)
    best = TASKS["answerer"][1]()("who flew", text)
    assert (answered["answers"][0]["text"], answered["answers"][0]["p"]) == (best.text, pytest.approx(best.score))
    assert sum(answered["places"]["start"]) == pytest.approx(1.0, abs=1e-5)


def test_labels_without_training_are_judged_by_a_language_model(client: TestClient) -> None:
    found = ask(client, "/api/classify", text="the book", labels=["big", "small"])
    assert found["model"] == "writer"
    assert sum(row["p"] for row in found["labels"]) == pytest.approx(1.0, abs=1e-5)


def test_vectors_and_their_plane(client: TestClient) -> None:
    texts = ["the president", "obama flew", "in san francisco", "where"]
    found, ours = ask(client, "/api/embed", texts=texts), TASKS["embedder"][1]()(texts)
    np.testing.assert_array_equal(unpacked(found["vectors"]), ours)
    assert found["cosine"][1][1] == pytest.approx(1.0, abs=1e-5)
    plane, kept = on_plane(ours)
    np.testing.assert_allclose(np.array(found["plane"]), plane, rtol=0, atol=1e-5)
    between = np.linalg.norm(ours[0] - ours[1])
    assert np.linalg.norm(plane[0] - plane[1]) <= between + 1e-5
    assert 0 < kept <= 1
    assert on_plane(ours[:1])[1] == 1.0


def test_a_split_is_replayed_to_the_tokens_themselves(client: TestClient) -> None:
    found = ask(client, "/api/tokenize", model="pt-en", text="livro mesa")
    tokens = [row["token"] for row in found["tokens"] if not row["special"]]
    assert [token for word in found["words"] for token in word["tokens"]] == tokens
    assert found["algorithm"] == "BPE"
    assert all("livro mesa"[slice(*row["span"])] for row in found["tokens"] if not row["special"])
    pair = ask(client, "/api/tokenize", model="judge", text="the", pair="of")
    assert [row["part"] for row in pair["tokens"]] == [None, 0, None, 1, None]


def test_models_tell_what_they_can(client: TestClient) -> None:
    rows = {row["name"]: row for row in client.get("/api/models").json()["models"]}
    assert rows["pt-en"]["kinds"] == ["encoder", "decoder", "cross"]
    assert (rows["pt-en"]["source"], rows["pt-en"]["target"]) == ("pt", "en")
    assert rows["writer"]["chat"]
    assert rows["judge"]["labels"] == list(houses.LABELS)
    card = client.get("/api/card?model=judge").json()
    task: Any = TASKS["judge"][1]()
    assert sum(row["count"] for row in card["parameters"]) == task.model.n_parameters
    assert card["tokenizer"]["algorithm"] == "WordPiece"


def test_packed_arrays_are_what_they_say(client: TestClient) -> None:
    found = ask(client, "/api/embed", texts=["the"])["vectors"]
    assert len(base64.b64decode(found["base64"])) == 4 * math.prod(found["shape"])
