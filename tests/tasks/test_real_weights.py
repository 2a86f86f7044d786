"""Real models, real sentences: ours gives what the reference gives."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from torch.nn.functional import cosine_similarity

import regard
from regard.tasks.embedder import Embedder
from regard.tasks.generator import Generator
from regard.tasks.zero_shot import ZeroShot

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def generator(smollm2_file: Path) -> Generator:
    loaded = regard.load(smollm2_file)
    assert isinstance(loaded, Generator)
    return loaded


@pytest.fixture(scope="module")
def sentences(data_dir: Path) -> list[str]:
    with gzip.open(data_dir / "tatoeba_pt_en" / "train.pt-en.tsv.gz", "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[1] for line in file][::900][:200]


def test_sentence_vectors_equal_those_of_sentence_transformers(minilm_dir: Path, sentences: list[str]) -> None:
    embed = regard.load(minilm_dir)
    assert isinstance(embed, Embedder)
    ours = embed(sentences)
    theirs = SentenceTransformer(str(minilm_dir), device="cpu").encode(sentences)
    cosines = cosine_similarity(torch.from_numpy(ours).double(), torch.from_numpy(theirs).double())
    assert len(sentences) == 200
    assert cosines.min() >= 0.999999


def test_vectors_do_not_depend_on_the_other_texts(minilm_dir: Path) -> None:
    embed = regard.load(minilm_dir)
    texts = ["A cat.", "The weather in Lisbon was much better than we had been told it would be.", ""]
    np.testing.assert_allclose(embed(texts), np.concatenate([embed([text]) for text in texts]), atol=1e-6)


def test_like_meanings_are_nearer_than_unlike_ones(minilm_dir: Path) -> None:
    cat, kitten, stocks = regard.load(minilm_dir)(["A cat sleeps.", "A kitten is asleep.", "Share prices fell."])
    assert cat @ kitten > 0.6 > 0.3 > cat @ stocks


def test_scores_of_a_gguf_file_equal_those_of_transformers(generator: Generator, smollm2_file: Path) -> None:
    """Both dequantise the same file to float32, so 1e-3 on scores of about 20 is rounding in 30 layers."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        smollm2_file.parent, gguf_file=smollm2_file.name, dtype=torch.float32
    ).eval()
    ids = torch.tensor([generator.tokenizer.encode("The quick brown fox jumps over the lazy dog, and then").ids])
    with torch.no_grad():
        ours_logits, theirs_logits = generator.model(ids).logits, theirs(ids).logits
    torch.testing.assert_close(ours_logits, theirs_logits, rtol=0, atol=1e-3)
    assert torch.equal(ours_logits.argmax(-1), theirs_logits.argmax(-1))


def test_a_question_is_answered_in_plain_english(generator: Generator) -> None:
    answer = generator("What is the capital of France?", limit=30)
    assert "Paris" in answer.text
    assert answer.reason == "end"


def test_the_streamed_pieces_are_the_whole_text(generator: Generator) -> None:
    prompt = "Here are three emoji: 😀 é"
    assert "".join(generator.stream(prompt, limit=12)) == generator(prompt, limit=12).text


def test_a_prompt_longer_than_the_model_is_refused(generator: Generator) -> None:
    with pytest.raises(regard.UserError, match="8192"):
        generator("word " * 9000, limit=1)


def test_a_limit_ends_the_text(generator: Generator) -> None:
    short = generator("Once upon a time", limit=3)
    assert (len(short.ids), short.reason) == (3, "limit")


def test_a_stop_string_ends_a_real_answer(generator: Generator) -> None:
    answer = generator("What is the capital of France?", limit=30, stop=[" Par"])
    assert (answer.text, answer.reason) == ("The capital of France is", "stop")


def test_real_prompts_together_are_answered_as_if_each_were_alone(generator: Generator) -> None:
    prompts = [
        "What is the capital of France?",
        "Name a colour.",
        "Write one short line about the sea and its colours.",
    ]
    assert list(generator.many(prompts, limit=12)) == [generator(prompt, limit=12) for prompt in prompts]


def test_a_language_model_knows_what_a_text_is_about(generator: Generator) -> None:
    classify = ZeroShot(generator, ["sport", "politics", "science", "cooking"])
    found = classify(["The minister resigned after the vote.", "Simmer the onions until they are soft."])
    assert [each.label for each in found] == ["politics", "cooking"]


def test_in_eight_bits_answers_are_the_same_in_any_company(smollm2_file: Path) -> None:
    generate = regard.load(smollm2_file, precision="int8")
    prompts = ["Name five rivers.", "Who wrote Hamlet?", "How do I boil an egg, and how long does it take?"]
    assert list(generate.many(prompts, limit=24)) == [generate(prompt, limit=24) for prompt in prompts]
