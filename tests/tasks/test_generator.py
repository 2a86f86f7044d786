"""A question goes through the chat template by every door, and damaged weights write nothing."""

import math
from pathlib import Path

import pytest
import torch

import regard
from faults.refusal import refused
from regard.cli.main import run
from regard.tasks.generator import Generator
from tasks.generators import generator, model, save, talker

QUESTION = "a casa"


def test_a_text_is_asked_through_the_chat_template_unless_it_is_raw() -> None:
    generate, tokenizer = generator(), talker()
    rendered = f"user is {QUESTION} The"
    assert generate.encode(QUESTION) == tokenizer.encode(rendered, special=False).ids
    assert generate.encode(QUESTION) == generate.encode([{"role": "user", "content": QUESTION}])
    assert generate.encode(QUESTION, raw=True) == tokenizer.encode(QUESTION).ids
    assert generate(QUESTION, limit=8) == generate([{"role": "user", "content": QUESTION}], limit=8)
    assert generate(QUESTION, limit=8) != generate(QUESTION, limit=8, raw=True)


def test_a_model_without_a_template_continues_the_text() -> None:
    plain = generator(chat=None)
    assert plain(QUESTION, limit=8) == plain(QUESTION, limit=8, raw=True) == generator()(QUESTION, limit=8, raw=True)


@pytest.mark.parametrize("raw", [False, True])
def test_library_and_command_line_give_the_same(raw: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = regard.load(save(tmp_path, model()))
    texts = [QUESTION, "O livro"]
    ours = [loaded(text, limit=6, raw=raw).text for text in texts]
    streamed = ["".join(loaded.stream(text, limit=6, raw=raw)) for text in texts]
    assert run(["generate", "--model", str(tmp_path), "--max-new", "6", *(["--raw"] if raw else []), *texts]) == 0
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in ours)
    assert streamed == ours


@pytest.mark.parametrize(("chat", "raw"), [(None, False), (None, True), ("{{ 1 }}", True)])
def test_messages_need_a_template(chat: str | None, raw: bool) -> None:
    with refused("give the prompt as one text"):
        generator(chat).encode([{"role": "user", "content": QUESTION}], raw=raw)


def test_nothing_to_write_and_too_much_to_read_are_refused() -> None:
    with refused("at most 0 new tokens"):
        generator()(QUESTION, limit=0)
    with refused("the model takes 64"):
        generator()("mesa " * 100)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_weights_that_give_no_number_are_an_error_wherever_they_stand(name: str, value: float) -> None:
    """One number in each tensor, where the prompt has to meet it; infinity vanishes in a softmax, and may."""
    for tensor in dict(model(name).named_parameters()):
        broken = model(name)
        parameter = dict(broken.named_parameters())[tensor]
        if value == math.inf and ".attn.k." in tensor:
            continue
        with torch.no_grad():
            parameter.view(len(parameter), -1)[:, 0] = value
        with refused("the model's weights give no number", "check-finite"):
            Generator(broken, talker())(QUESTION, limit=2)


def test_the_command_line_says_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = model()
    with torch.no_grad():
        broken.decoder.norm.weight[0] = math.nan
    assert run(["generate", "--model", str(save(tmp_path, broken)), QUESTION]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: the model's weights give no number (NaN or infinity)\n  the weights are damaged")
