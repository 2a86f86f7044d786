"""Which model answers where none is named, and what it is not asked for."""

import pytest

from regard.models.transformer import Transformer
from regard.studio.app import build
from regard.studio.models import Entry
from regard.tasks.embedder import Embedder
from regard.tasks.sentence_settings import SentenceSettings
from regard.tasks.tagger import Tagger
from studio import houses
from tasks import span_readers


def test_vectors_come_from_what_is_made_for_them_though_a_tagger_stands_before_it() -> None:
    tagger = span_readers.tagger()
    both = {Tagger: lambda: tagger, Embedder: lambda: Embedder(tagger.model, tagger.tokenizer, SentenceSettings())}
    app = build([Entry("tagger", lambda device: both), houses.entry("embedder")])
    with houses.client(app) as client:
        asked = [{"texts": ["a"]}, {"texts": ["a"], "model": "tagger"}]
        assert [client.post("/api/embed", json=body).json()["model"] for body in asked] == ["embedder", "tagger"]


def test_a_text_of_many_sentences_is_refused_before_it_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    with houses.client(houses.studio("pt-en")) as client:
        assert client.post("/api/attention", json={"text": houses.TEXT}).status_code == 200
        monkeypatch.setattr(Transformer, "encode", lambda *_: pytest.fail("it was translated"))
        answer = client.post("/api/attention", json={"text": f"{houses.TEXT}\n\n" * 30})
    assert answer.status_code == 400
    assert "pieces; one is looked into" in answer.json()["error"]["message"]
