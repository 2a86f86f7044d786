"""`regard.load`: from a name to something that can be called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from regard.data.inputs import read_input_settings
from regard.data.view import read_view
from regard.errors import UserError
from regard.models.bert import Bert
from regard.models.captioner import Captioner as CaptionerModel
from regard.models.convnet import Convnet
from regard.models.elmo import Elmo
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentClassifier, RecurrentLanguageModel, RecurrentTranslator
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.models.wordvectors import WordVectorModel
from regard.pretrained.bundled import by_name, usual
from regard.tasks.answerer import Answerer
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.context_vectors import ContextVectors
from regard.tasks.embedder import Embedder
from regard.tasks.filler import Filler
from regard.tasks.generation import AS_CONFIGURED, read_writing
from regard.tasks.generator import Generator
from regard.tasks.recogniser import Recogniser
from regard.tasks.sentence_settings import read_sentence_settings
from regard.tasks.tagger import Tagger
from regard.tasks.translator import Translator
from regard.tasks.word_vectors import WordVectors
from regard.text.tokenizer import Tokenizer
from regard.weights.precision import DTYPES, Precision, chosen
from regard.weights.store import home_of, load_model, locate, read_layout
from regard.weights.vocabulary import tokenizers_of


def load(source: str | Path, *, precision: Precision = "fp32", device: str = "cpu", revision: str | None = None) -> Any:
    """The task that a model is made for.

    A `Translator` for encoder-decoders, a `Generator` for language models, a `Classifier`, `Filler`, `Tagger` or
    `Answerer` where the head is made for that, an `Embedder` for other encoders, `WordVectors` or `ContextVectors` for
    words; a `Recogniser` or a `Captioner` for pictures. `source` is a directory, a bundled
    name, a GGUF file or `hf:owner/name`; a PEFT adapter is merged into its model. The task has `.model`, `.tokenizer`
    and `.summary()`. Its model is for reading and writing only: to train or save one, take `load_model`.
    """
    return next(iter(tasks_of(source, precision, device, revision).values()))()


T = TypeVar("T")
Makers = dict[type, Callable[[], Any]]
VERBS = {
    "Translator": "translate",
    "Generator": "generate",
    "Classifier": "classify",
    "Filler": "fill",
    "Tagger": "tag",
    "Answerer": "answer",
    "Embedder": "embed",
    "WordVectors": "embed",
    "ContextVectors": "embed",
    "Recogniser": "classify --image",
    "Captioner": "caption",
}


def load_task(source: str | Path | None, task: type[T], precision: Precision = "fp32") -> T:
    """`source` as this task; without one, the model that comes with regard or with a package for it."""
    makers = tasks_of(source or usual(task.__name__), precision)
    if task not in makers:
        asked, made_for = (VERBS[each.__name__] for each in (task, next(iter(makers))))
        what = {"classify": "classify texts", "classify --image": "classify pictures"}
        raise UserError(
            f"{source} cannot {what.get(asked, asked)}: its model is made to {what.get(made_for, made_for)}",
            f"use `regard {made_for} --model {source}`, or give another model",
        )
    made: T = makers[task]()
    return made


def tasks_of(
    source: str | Path, precision: Precision = "fp32", device: str = "cpu", revision: str | None = None
) -> Makers:
    """What the model can do; what it is made for comes first."""
    path = locate(by_name(source), revision)
    dtype, home = DTYPES[chosen(precision, path, device)], home_of(path)
    if home.is_dir():
        _, layout = read_layout(home)  # a folder without a model is told as that, not as one without a tokenizer
        if layout.family.name in ("vit", "convnet"):
            return _recogniser(load_model(path, dtype=dtype, device=device).fuse(), home, source)
    tokenizer, target = tokenizers_of(path)
    model = load_model(path, dtype=dtype, device=device).fuse()
    writing = AS_CONFIGURED
    if home.is_dir() and isinstance(model, Transformer | RecurrentTranslator | Gpt):
        writing = read_writing(home, model.config)
        model.config = writing.config(model.config)
    if isinstance(model, CaptionerModel):
        view = read_view(home, model.config.image_size, model.config.channels)
        return {Captioner: lambda: Captioner(model, target, view)}
    if isinstance(model, Transformer | RecurrentTranslator):
        longest = read_input_settings(home).max_len
        return {Translator: lambda: Translator(model, tokenizer, target, writing, longest)}
    tokenizer.check_fits(model.config.vocab_size)
    if isinstance(model, RecurrentLanguageModel) or (isinstance(model, Gpt) and model.unembed is not None):
        return {Generator: lambda: Generator(model, tokenizer, writing)}
    if isinstance(model, RecurrentClassifier) or (isinstance(model, Gpt) and model.classify is not None):
        return {Classifier: lambda: Classifier(model, tokenizer, read_input_settings(path))}
    if isinstance(model, Bert):
        return _encoder_tasks(model, tokenizer, home, own_head=home != path)
    if isinstance(model, WordVectorModel | Elmo):
        return _word_tasks(model, tokenizer)
    raise UserError(
        f"{source} holds a model of the layout {model.config.layout}, and there is no task for it yet",
        "regard.load_model(...) gives the bare model",
    )


def _recogniser(model: Any, home: Path, source: str | Path) -> Makers:
    if isinstance(model, Vit) and model.classify is None:
        hint = "regard.load_model(...) gives the bare model; train one with `regard train --task recognise --init`"
        raise UserError(f"{source} has no head that classifies", hint)
    assert isinstance(model, Vit | Convnet)
    view = read_view(home, model.config.image_size, model.config.channels)
    return {Recogniser: lambda: Recogniser(model, view)}


def _encoder_tasks(model: Bert, tokenizer: Tokenizer, path: Path, *, own_head: bool) -> Makers:
    """By its heads. Any encoder embeds, and one with sentence-transformers' files is made for that, unless an adapter
    brings a head of its own."""
    embed: Makers = {Embedder: lambda: Embedder(model, tokenizer, read_sentence_settings(path))}
    heads: Makers = {}
    if "classify" in model.heads:
        heads[Classifier] = lambda: Classifier(model, tokenizer, read_input_settings(path))
    if "masked_lm" in model.heads:
        heads[Filler] = lambda: Filler(model, tokenizer)
    if "tag" in model.heads:
        heads[Tagger] = lambda: Tagger(model, tokenizer)
    if "span" in model.heads:
        heads[Answerer] = lambda: Answerer(model, tokenizer)
    embeds = (path / "modules.json").exists() and not own_head
    return embed | heads if embeds else heads | embed


def _word_tasks(model: WordVectorModel | Elmo, tokenizer: Tokenizer) -> Makers:
    """They embed texts too: whoever asks for an `Embedder` gets one that is called in the same way."""
    if "tag" in model.config.heads:
        return {Tagger: lambda: Tagger(model, tokenizer)}
    if isinstance(model, Elmo):
        return dict.fromkeys((ContextVectors, Embedder), lambda: ContextVectors(model, tokenizer))
    return dict.fromkeys((WordVectors, Embedder), lambda: WordVectors(model, tokenizer))
