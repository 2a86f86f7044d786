"""What comes with the package is found by name, and other engines read it as we do.

The same claims are tested on a tiny model that tools/bundle.py has just made, and on the real one where it is there.
"""

import json
import runpy
import struct
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from PIL import Image, ImageDraw

import regard
from decoding.writers import loud
from models import tiny
from regard.cli.main import run
from regard.errors import UserError
from regard.lab.judging import Asked, judge
from regard.pretrained import bundled
from regard.tasks.tagger import Tagger
from regard.weights.store import load_model, save_model
from tasks import translators

BUNDLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "bundle.py"))
SENTENCES = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
LONGEST = 60
"Tokens to write at most; the tiny model's texts seldom end by themselves."


def make(run_model: Path, target: Path) -> Path:
    tokenizer = translators.tokenizer()
    size, pad = tokenizer.vocab_size, tokenizer.pad_id
    ids = {"vocab_size": size, "pad_id": pad, "start_id": pad, "eos_ids": (0,)}
    # CTranslate2 takes the encoder's number of heads for both sides.
    model = tiny.make("pegasus", max_len=200, n_heads=4, n_decoder_heads=4, **ids)
    save_model(translators.ending(loud(model, "cross.")), run_model)
    tokenizer.save(run_model)
    target.mkdir()
    (target / "MODEL_CARD.md").write_text("by hand")
    BUNDLE["bundle"](run_model, target)
    return target


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled models, with a tiny one called pt-en."""
    folder = tmp_path_factory.mktemp("bundled")
    return make(folder / "run", folder / "pt-en").parent


@pytest.fixture
def box(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bundled, "FOLDER", made)
    monkeypatch.chdir(tmp_path)
    return made / "pt-en"


@pytest.fixture(params=["tiny", pytest.param("real", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest, made: Path) -> Path:
    if request.param == "tiny":
        return made / "pt-en"
    if not bundled.is_here("pt-en"):
        pytest.skip("no weights in src/regard/pretrained/pt-en: python tools/bundle.py RUN/model")
    return bundled.FOLDER / "pt-en"


# Found by name


def test_translate_and_evaluate_need_no_model(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["translate", "A casa é grande."]) == 0
    ours = capsys.readouterr()
    assert ours.out == f"{regard.load(box)('A casa é grande.').text}\n"
    assert ours.err == ""
    assert run(["translate", "--model", "pt-en", "A casa é grande."]) == 0
    assert capsys.readouterr() == ours
    Path("pairs.tsv").write_text("A casa\tThe house\n", encoding="utf-8")
    assert run(["evaluate", "--data", "pairs.tsv", "--bootstrap", "0"]) == 0
    assert "BLEU" in capsys.readouterr().out


def test_load_and_summary_know_the_name(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert regard.load("pt-en").model.n_parameters == load_model(box).n_parameters
    assert run(["summary", "pt-en"]) == 0
    assert capsys.readouterr().out.startswith("pt-en: layout pegasus")


def test_a_folder_of_the_same_name_is_what_is_meant(box: Path) -> None:
    translators.save(Path("pt-en"), "marian")
    assert bundled.by_name("pt-en") == "pt-en"
    assert regard.load("pt-en").model.config.layout == "marian"


def test_the_list_of_models_begins_with_it(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "models"]) == 0
    first = capsys.readouterr().out.splitlines()[0].split()
    assert first[0] == "pt-en"
    assert "bundled:" in first
    assert run(["list", "models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["pt-en"]["size"] == sum(path.stat().st_size for path in box.iterdir())


@pytest.mark.parametrize(
    "call",
    [["translate", "A casa"], ["translate", "--model", "pt-en", "A casa"], ["verify", "pt-en"], ["summary", "pt-en"]],
    ids=str,
)
def test_where_it_is_missing_the_error_says_what_to_do(
    call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(call) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: the bundled model pt-en is not in this copy of regard")
    assert "give another model, a directory or hf:owner/name" in second  # for the verbs that have no --model too
    assert "tools/bundle.py" in second
    assert run(["list", "models"]) == 0
    assert "size unknown" in capsys.readouterr().out.splitlines()[0]


# Made by tools/bundle.py


def test_half_the_size_but_computed_in_whole(box: Path) -> None:
    with (box / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    del header["__metadata__"]
    kinds = {("position" in name, entry["dtype"]) for name, entry in header.items()}
    assert kinds == {(True, "F32"), (False, "F16")}  # the sines are no weights: others read what we compute
    assert {weight.dtype for weight in load_model(box).parameters()} == {torch.float32}


def test_the_card_is_left_alone_and_must_be_there(box: Path, tmp_path: Path) -> None:
    assert (box / "MODEL_CARD.md").read_text() == "by hand"
    with pytest.raises(UserError, match=r"there is no .*MODEL_CARD\.md"):
        BUNDLE["bundle"](box, tmp_path / "names")
    with pytest.raises(UserError, match="no bundled model is called other"):
        BUNDLE["bundle"](box, tmp_path / "other")


def test_a_model_too_large_is_refused_and_the_old_one_stays(box: Path, tmp_path: Path) -> None:
    before = (box / "model.safetensors").read_bytes()
    large = tmp_path / "large"
    size = {"vocab_size": 700_000, "pad_id": 699_999, "start_id": 699_999, "eos_ids": (0,)}
    save_model(tiny.make("pegasus", **size), large)
    with pytest.raises(UserError, match="parameters"):
        BUNDLE["bundle"](large, box)
    assert (box / "model.safetensors").read_bytes() == before


# Read by others


@pytest.mark.parity
def test_transformers_translates_as_we_do(model: Path) -> None:
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    assert theirs.dtype == torch.float32
    texts = []
    for batch in (SENTENCES[i : i + 50] for i in range(0, len(SENTENCES), 50)):
        inputs = tokenizer(batch, return_tensors="pt", padding=True)
        written = theirs.generate(**inputs, num_beams=1, max_length=LONGEST + 1)  # with the start
        texts += tokenizer.batch_decode(written, skip_special_tokens=True)
    ours = [found.text for found in regard.load(model).many(SENTENCES, beam=1, max_new=LONGEST)]
    assert len(ours) == 200
    assert len(set(ours)) > 10  # they say something
    assert ours == [text.strip() for text in texts]


@pytest.mark.parity
def test_ctranslate2_converts_it_and_translates_as_we_do(model: Path, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(model)).convert(str(tmp_path / "converted"))
    theirs = ctranslate2.Translator(str(tmp_path / "converted"), compute_type="float32", intra_threads=1)
    translate = regard.load(model)
    sources = [translate.tokenizer.encode(sentence).tokens for sentence in SENTENCES]
    # Unlike ours, its translations have one token at least, and may hold padding.
    options = {"min_decoding_length": 0, "suppress_sequences": [["<pad>"]]}
    found = theirs.translate_batch(sources, beam_size=1, max_decoding_length=LONGEST, **options)
    ids = [[translate.target.id_of(token) for token in each.hypotheses[0]] for each in found]
    ours = [each.text for each in translate.many(SENTENCES, beam=1, max_new=LONGEST)]
    assert ours == [translate.target.decode(row).strip() for row in ids]


# The tagger, an adapter of an installed model


def test_the_tagger_needs_no_model_and_gives_the_scores_that_peft_gives(
    minilm_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tag", "--precision", "fp32", "President Obama flew to San Francisco"]) == 0
    assert "[San Francisco location]" in capsys.readouterr().out
    ours = regard.load("names")
    assert isinstance(ours, Tagger), "what its base was made for is another matter"
    labels = len(ours.model.config.labels)
    base = transformers.BertForTokenClassification.from_pretrained(minilm_dir, num_labels=labels)
    theirs = peft.PeftModel.from_pretrained(base, bundled.FOLDER / "names").eval()
    ids = torch.tensor([ours.tokenizer.encode("Angela Merkel met Tim Cook in Berlin.").ids])
    with torch.no_grad():
        torch.testing.assert_close(ours.model(ids).logits, theirs(input_ids=ids).logits, rtol=0, atol=1e-4)


# Small models to look at


def test_the_captioner_says_what_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = Image.new("RGB", (200, 200), (20, 20, 30))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((15, 110, 80, 175), fill=(220, 40, 40))
    draw.rectangle((120, 20, 180, 80), fill=(60, 90, 235))
    picture.save(tmp_path / "a.png")
    assert run(["caption", "--model", "shapes", str(tmp_path / "a.png")]) == 0
    said = capsys.readouterr().out.partition("\t")[0]
    assert said == "a blue square at the top right and a red circle at the bottom left"


def test_the_model_of_letters_knows_shakespeare_from_the_same_letters_in_disorder(tmp_path: Path) -> None:
    line = "But, soft! what light through yonder window breaks?"
    (tmp_path / "line.txt").write_text(line)
    (tmp_path / "disorder.txt").write_text("".join(sorted(line)))
    generate = regard.load("shakespeare")
    bits = [
        judge(generate, Asked([tmp_path / f"{name}.txt"]), lambda _: None).scores[-1].value
        for name in ("line", "disorder")
    ]
    assert bits[0] < 3.2 < 4.8 < bits[1]  # 4.8: knowing how often each letter stands, and nothing else


def test_all_that_is_bundled_is_small() -> None:
    sizes = [bundled.size_of(name) or 0 for name in bundled.BUNDLED]
    assert all(sizes)
    assert sum(sizes) <= 30_000_000
