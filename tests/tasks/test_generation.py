"""generation_config.json decides as in transformers: where a text starts, what it begins with, which tokens end it."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from tokenizers import models, pre_tokenizers, processors

import regard
from faults.refusal import refused
from parity import tiny
from regard.tasks.generation import FILE, UNHEEDED

PAD = tiny.VOCAB - 1
PROMPT, LIMIT = [5, 6, 7], 10


def save(directory: Path, kind: str) -> Any:
    """A tiny random model that is sure of its words, and a vocabulary of words w0 to w36."""
    torch.manual_seed(3)
    config = hf.LlamaConfig(**tiny._LLAMA) if kind == "llama" else hf.MarianConfig(**tiny._SEQ2SEQ)
    theirs = (hf.LlamaForCausalLM if kind == "llama" else hf.MarianMTModel)(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    theirs.save_pretrained(directory)
    (directory / FILE).unlink()
    core = tokenizers.Tokenizer(models.WordLevel({f"w{id}": id for id in range(tiny.VOCAB)}, unk_token="w3"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind == "marian":
        core.post_processor = processors.TemplateProcessing(single="$A w0", special_tokens=[("w0", 0)])
    core.save(str(directory / "tokenizer.json"))
    roles = {"unk_token": "w3", "eos_token": "w0" if kind == "marian" else "w2", "pad_token": f"w{PAD}"}
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **roles})
    )
    return theirs


def say(directory: Path, name: str = FILE, **settings: Any) -> None:
    path = directory / name
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | settings))


def theirs(directory: Path, kind: str, prompt: list[int] = PROMPT) -> list[int]:
    """The ids that transformers writes."""
    model = (hf.AutoModelForCausalLM if kind == "llama" else hf.MarianMTModel).from_pretrained(directory).eval()
    ids = torch.tensor([prompt if kind == "llama" else [*prompt, 0]])
    options = {"pad_token_id": PAD, "do_sample": False, "num_beams": 1}
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, **options)[0].tolist()
    return found[len(prompt) :] if kind == "llama" else found[1:]


def ours(directory: Path, kind: str, prompt: list[int] = PROMPT) -> list[int]:
    task, text = regard.load(directory), " ".join(f"w{id}" for id in prompt)
    if kind == "llama":
        return list(task(text, limit=LIMIT, raw=True).ids)
    found = task(text, beam=1, max_new=LIMIT)
    assert found.inside is not None
    return list(found.inside.hypothesis.ids)


@pytest.mark.parity
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["llama", "marian"])
def test_any_of_its_ends_ends_a_text(tmp_path: Path, kind: str, several: bool) -> None:
    save(tmp_path, kind)
    plain = {"bad_words_ids": [[PAD]], "decoder_start_token_id": PAD, "eos_token_id": 0}
    say(tmp_path, **plain)
    free = ours(tmp_path, kind)
    assert free == theirs(tmp_path, kind)
    end = next(id for id in free if id != free[0])
    say(tmp_path, eos_token_id=[0, 2, end] if several else end)
    written = ours(tmp_path, kind)
    assert written == theirs(tmp_path, kind)
    assert written == free[: free.index(end) + 1] != free


@pytest.mark.parity
@pytest.mark.parametrize("name", [FILE, "config.json"])
def test_a_translation_begins_with_the_forced_token(tmp_path: Path, name: str) -> None:
    """In config.json too, where there is no other file: Marian and mBART of old."""
    save(tmp_path, "marian")
    plain = {"bad_words_ids": [[PAD]], "decoder_start_token_id": PAD, "eos_token_id": 0}
    say(tmp_path, name, **plain)
    free = ours(tmp_path, "marian")
    say(tmp_path, name, forced_bos_token_id=9)
    written = ours(tmp_path, "marian")
    assert written == theirs(tmp_path, "marian")
    assert written[0] == 9 != free[0]
    prefix = regard.load(tmp_path)("w5 w6", beam=1, prefix=[4]).inside.hypothesis.ids
    assert prefix[0] == 4  # whoever asks for a beginning gets it


@pytest.mark.parity
def test_a_translation_starts_as_the_file_says(tmp_path: Path) -> None:
    save(tmp_path, "marian")
    say(tmp_path, decoder_start_token_id=8, eos_token_id=0, suppress_tokens=[PAD, 8])
    assert regard.load(tmp_path).model.config.start_id == 8
    assert ours(tmp_path, "marian") == theirs(tmp_path, "marian")


@pytest.mark.parity
@pytest.mark.parametrize("settings", [{"suppress_tokens": [1, 2]}, {"bad_words_ids": [[1], [2]]}], ids=str)
def test_tokens_that_are_forbidden_are_not_written(tmp_path: Path, settings: dict[str, Any]) -> None:
    save(tmp_path, "llama")
    say(tmp_path, eos_token_id=0)
    common = ours(tmp_path, "llama")[0]
    say(tmp_path, **{key: json.loads(json.dumps(value).replace("1", str(common))) for key, value in settings.items()})
    written = ours(tmp_path, "llama")
    assert written == theirs(tmp_path, "llama")
    assert common not in written


@pytest.mark.parity
def test_a_text_of_one_token_is_followed_by_the_forced_one(tmp_path: Path) -> None:
    save(tmp_path, "llama")
    say(tmp_path, eos_token_id=0, forced_bos_token_id=9)
    for prompt in ([5], [5, 6]):
        assert ours(tmp_path, "llama", prompt) == theirs(tmp_path, "llama", prompt)


@pytest.mark.parity
def test_beams_sampling_and_limits_are_the_caller_s(tmp_path: Path) -> None:
    save(tmp_path, "llama")
    free = ours(tmp_path, "llama")
    say(tmp_path, do_sample=True, temperature=0.6, top_p=0.9, top_k=50, max_length=4, num_beams=4, length_penalty=0.6)
    say(tmp_path, eos_token_id=2, forced_eos_token_id=2, repetition_penalty=1.0, min_length=0, no_repeat_ngram_size=0)
    assert ours(tmp_path, "llama") == free


@pytest.mark.parametrize("name", [FILE, "config.json"])
@pytest.mark.parametrize("key", UNHEEDED)
def test_what_would_change_a_text_and_is_not_supported_is_told(tmp_path: Path, name: str, key: str) -> None:
    save(tmp_path, "llama")
    say(tmp_path, name, **{key: 3})
    with pytest.warns(UserWarning, match=f"{tmp_path / name}: {key} = 3 not supported"):
        regard.load(tmp_path)


def test_forbidden_words_of_several_tokens_are_told(tmp_path: Path) -> None:
    save(tmp_path, "llama")
    say(tmp_path, bad_words_ids=[[4], [5, 6]])
    with pytest.warns(UserWarning, match="bad_words_ids of several tokens"):
        regard.load(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"eos_token_id": "two"},
        {"eos_token_id": [2, -1]},
        {"decoder_start_token_id": tiny.VOCAB},
        {"decoder_start_token_id": [1, 2]},
        {"forced_bos_token_id": True},
        {"forced_bos_token_id": tiny.VOCAB},
        {"suppress_tokens": {"4": 5}},
        {"bad_words_ids": [4]},
        {"bad_words_ids": [["four"]]},
    ],
    ids=str,
)
def test_what_is_no_token_is_refused_by_file_and_key(tmp_path: Path, settings: dict[str, Any]) -> None:
    save(tmp_path, "marian")
    say(tmp_path, **settings)
    with refused(tmp_path / FILE, next(iter(settings))):
        regard.load(tmp_path)
