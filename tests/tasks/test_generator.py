"""A question goes through the chat template by every door; stop strings, batches and luck keep their word; damaged
weights write nothing."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from faults.refusal import refused
from regard.cli.main import run
from regard.decoding.sample import SampleSettings
from regard.tasks import generator as module
from regard.tasks.generator import Generator
from tasks.generators import generator, model, save, talker

QUESTION = "a casa"
PROMPTS = ["a casa", "O", "O livro está em cima da mesa", "", "The house is big", "mesa", "mesa " * 15, "é grande"]
"The seventh has room for few more of the 64 tokens."


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


def test_looking_up_takes_fewer_passes_for_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    generate, passes = generator(), []
    prompt = "O livro está em cima da mesa " * 2
    whole = generate(prompt, limit=30, raw=True)
    advance = generate.model.decoder.advance
    monkeypatch.setattr(
        generate.model.decoder, "advance", lambda *args, **more: (passes.append(1), advance(*args, **more))[1]
    )
    generate.lookup = True
    assert generate(prompt, limit=30, raw=True) == whole
    assert list(generate.many([prompt, prompt], limit=30, raw=True)) == [whole, whole]
    assert "".join(generate.stream(prompt, limit=30, raw=True)) == whole.text
    passes.clear()
    generate(prompt, limit=30, raw=True)
    assert len(passes) < len(whole.ids)


# Stop strings


def test_the_text_ends_before_a_stop_string_over_token_borders() -> None:
    generate = generator()
    whole = generate(QUESTION, limit=20)
    borders = [len(generate.tokenizer.decode(whole.ids[:n])) for n in range(1, 20)]
    for border in borders[4:-4]:
        stop = whole.text[border - 2 : border + 2]
        ended = generate(QUESTION, limit=20, stop=["never", stop])
        assert (ended.text, ended.reason) == (whole.text[: whole.text.find(stop)], "stop")
        assert ended.ids == whole.ids[: len(ended.ids)]
        assert stop in generate.tokenizer.decode(ended.ids)  # it was written, and nothing after it
        assert stop not in generate.tokenizer.decode(ended.ids[:-1])


def test_a_stop_string_that_never_comes_changes_nothing() -> None:
    whole = generator()(QUESTION, limit=20)
    assert generator()(QUESTION, limit=20, stop=[whole.text + "x", whole.text[-3:] + "?"]) == whole


@settings(max_examples=30)
@given(start=st.integers(0, 30), size=st.integers(1, 6))
def test_the_stream_never_shows_what_a_stop_string_takes_back(start: int, size: int) -> None:
    generate = generator()
    stop = generate(QUESTION, limit=20).text[start:][:size] or "."
    shown = list(generate.stream(QUESTION, limit=20, stop=[stop]))
    assert "".join(shown) == generate(QUESTION, limit=20, stop=[stop]).text
    assert all(shown)


def test_an_empty_stop_string_is_refused() -> None:
    with refused("a stop string is empty"):
        generator()(QUESTION, stop=[".", ""])


# Several prompts


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_many_prompts_are_answered_as_if_each_were_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = Generator(model(name), talker())
    alone = [generate(prompt, limit=9, stop=["casa"]) for prompt in PROMPTS]
    assert {answer.reason for answer in alone} >= {"limit"}
    for budget in (4096, 60):
        monkeypatch.setattr(module, "BATCH_TOKENS", budget)
        assert list(generate.many(PROMPTS, limit=9, stop=["casa"])) == alone


def test_a_prompt_near_the_longest_ends_at_the_model_s_end_and_the_others_do_not() -> None:
    answers = list(generator(None).many(PROMPTS, limit=40, raw=True))
    assert [len(answer.ids) for answer in answers] == [len(generator(None)(p, limit=40).ids) for p in PROMPTS]
    assert len(answers[6].ids) < 40


def test_prompts_are_read_a_chunk_at_a_time_and_counted() -> None:
    asked, heard = list[int](), list[int]()
    prompts = ("mesa" for i in range(1000) if not asked.append(i))  # type: ignore[func-returns-value]
    answers = generator().many(prompts, limit=1, heard=heard.append)
    next(answers)
    assert len(asked) == module.FIRST_CHUNK == heard[-1]


def test_one_text_for_several_is_refused() -> None:
    with refused("write generate(text)"):
        next(generator().many("mesa"))


# Sampling


def test_what_is_drawn_depends_on_the_seed_and_on_the_number_of_the_prompt_alone() -> None:
    generate, warm = generator(), SampleSettings(temperature=2.0, seed=3)
    answers = list(generate.many(PROMPTS, limit=9, sampling=warm))
    assert answers == list(generate.many(PROMPTS, limit=9, sampling=warm))
    assert answers[:3] == list(generate.many(PROMPTS[:3], limit=9, sampling=warm))  # other batch mates
    assert answers[0] == generate(PROMPTS[0], limit=9, sampling=warm)
    streamed = ["".join(generate.stream(p, limit=9, sampling=warm, number=i)) for i, p in enumerate(PROMPTS)]
    assert streamed == [answer.text for answer in answers]
    assert answers != list(generate.many(PROMPTS, limit=9, sampling=SampleSettings(temperature=2.0, seed=4)))
    same = {answer.ids for answer in generate.many([QUESTION] * 6, limit=9, sampling=warm)}
    assert len(same) == 6  # one question asked again gets another answer


def test_no_temperature_is_greedy() -> None:
    assert generator()(QUESTION, limit=9, sampling=SampleSettings(temperature=0)) == generator()(QUESTION, limit=9)


# Mistakes


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
