"""`regard.load`: from a name to something that can be called."""

from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UserError
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentTranslator
from regard.models.transformer import Transformer
from regard.pretrained.bundled import USUAL, by_name
from regard.tasks.embedder import Embedder
from regard.tasks.generation import AS_CONFIGURED, read_writing
from regard.tasks.generator import Generator
from regard.tasks.sentence_settings import read_sentence_settings
from regard.tasks.translator import Translator
from regard.text.gguf_vocabulary import from_metadata
from regard.text.load import load_pair
from regard.text.tokenizer import Tokenizer
from regard.weights.precision import DTYPES, Precision, chosen
from regard.weights.store import home_of, load_model, locate, read_layout


def load(source: str | Path, *, precision: Precision = "fp32", device: str = "cpu", revision: str | None = None) -> Any:
    """The task that a model is made for.

    A `Translator` for encoder-decoders, a `Generator` for language models, an `Embedder` for bare encoders.
    `source` is a directory, a bundled name, a GGUF file or `hf:owner/name`; a PEFT adapter is merged into its model.
    The task has `.model`, `.tokenizer` and `.summary()`. Its model is for reading and writing only: to train or save
    one, take `load_model`.
    """
    path = locate(by_name(source), revision)
    dtype, home = DTYPES[chosen(precision, path, device)], home_of(path)
    if home.is_dir():
        read_layout(home)  # a folder without a model is told as that, not as one without a tokenizer
    tokenizer, target = tokenizers_of(path)
    model = load_model(path, dtype=dtype, device=device).fuse()
    writing = AS_CONFIGURED
    if home.is_dir() and isinstance(model, Transformer | RecurrentTranslator | Gpt):
        writing = read_writing(home, model.config)
        model.config = writing.config(model.config)
    if isinstance(model, Transformer | RecurrentTranslator):
        return Translator(model, tokenizer, target, writing)
    tokenizer.check_fits(model.config.vocab_size)
    if isinstance(model, Gpt) and model.unembed is not None:
        return Generator(model, tokenizer, writing)
    if isinstance(model, Bert):
        return Embedder(model, tokenizer, read_sentence_settings(home))
    raise UserError(
        f"{source} holds a model of the layout {model.config.layout}, and there is no task for it yet",
        "regard.load_model(...) gives the bare model",
    )


T = TypeVar("T")
VERBS = {"Translator": "translate", "Generator": "generate", "Embedder": "embed"}


def load_task(source: str | Path | None, task: type[T], precision: Precision = "fp32") -> T:
    """`source` as this task; without one, the model that comes with regard or with a package for it."""
    loaded = load(source or by_name(USUAL[task.__name__]), precision=precision)
    if not isinstance(loaded, task):
        verb = VERBS[type(loaded).__name__]
        raise UserError(
            f"{source} cannot {VERBS[task.__name__]}: its model is made to {verb}",
            f"use `regard {verb} --model {source}`, or give another model",
        )
    return loaded


def tokenizers_of(path: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of source and target; the same one twice where there is one. An adapter may have its own, else its model's."""
    if not (path / "tokenizer.json").exists():
        path = home_of(path)
    if path.is_dir():
        return load_pair(path)
    from regard.weights.gguf import read_gguf  # slow to import, and only GGUF files need it

    only = from_metadata(read_gguf(path).metadata)
    return only, only
