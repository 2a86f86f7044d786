"""Flags of tokenizer_config.json that go before the steps in tokenizer.json, as they do in transformers.

transformers 5 takes the vocabulary from tokenizer.json and builds the steps before and after it anew, as the class
says that tokenizer_config.json names (or that belongs to the model type): BERT's by `do_lower_case`, `strip_accents`
and `tokenize_chinese_chars`, GPT-2's and RoBERTa's by `add_prefix_space`, Llama's by `add_prefix_space` and `legacy`.
A flag that is not there counts with its default. Classes that are not listed here, PreTrainedTokenizerFast first of
all, take the file as it is; and so do we where its steps are not the ones that the class would build, because then a
flag says nothing about them. If it contradicts them even so, no one knows which was meant, and we refuse.
"""

import json
from collections.abc import Iterator
from typing import Any

from regard.errors import UserError
from regard.text.sentencepiece_core import SPACE
from regard.text.settings import CONFIG, Settings
from regard.text.tokenizer import Tokenizer

Step = dict[str, Any]

_BERT = ("Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "LayoutLM", "Lxmert", "ConvBert")
_GPT2 = ("GPT2", "Roberta", "Bart", "Longformer", "LED")
_CLASS_OF = {
    "bert": "Bert",
    "distilbert": "Bert",
    "electra": "Bert",
    "gpt2": "GPT2",
    "roberta": "Roberta",
    "bart": "Roberta",
}
"By the model type of config.json, where no file names a class."


def with_flags(data: Step, settings: Settings) -> Step:
    """`data`, a whole tokenizer.json, or a copy with the steps that the flags ask for."""
    name = settings.tokenizer_class or _CLASS_OF.get(settings.model_type, "")
    name = name.removesuffix("Fast").removesuffix("Tokenizer")
    if name in _BERT:
        return _bert(data, settings)
    if name in _GPT2:
        return _byte_level(data, settings)
    return _llama(data, settings) if name == "Llama" else data


def _bert(data: Step, settings: Settings) -> Step:
    lowercase, accents = settings.flag("do_lower_case", True), settings.flag("strip_accents", None)
    if _type(data.get("normalizer")) == "BertNormalizer":
        normalizer = {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.flag("tokenize_chinese_chars", True),
            "strip_accents": accents,
            "lowercase": lowercase,
        }
        return data | {"normalizer": normalizer}
    if settings.config.get("do_lower_case") is not None and lowercase != lowercases(data.get("normalizer")):
        raise _contradiction(settings, "do_lower_case", "normaliser")
    if accents is not None and accents != _strips_accents(data.get("normalizer")):
        raise _contradiction(settings, "strip_accents", "normaliser")
    return data


def _byte_level(data: Step, settings: Settings) -> Step:
    prefix = settings.flag("add_prefix_space", False)
    first, last = data.get("pre_tokenizer"), data.get("post_processor")
    if isinstance(first, dict) and _type(first) == "ByteLevel":
        data = data | {"pre_tokenizer": first | {"add_prefix_space": prefix}}
        if isinstance(last, dict) and _type(last) == "RobertaProcessing":  # it says where in the text a word stands
            data = data | {"post_processor": last | {"add_prefix_space": prefix}}
        return data
    if prefix and not any(step.get("add_prefix_space") for step in _steps(first)):
        raise _contradiction(settings, "add_prefix_space", "pre-tokenizer")
    return data


def _llama(data: Step, settings: Settings) -> Step:
    prefix, legacy = settings.flag("add_prefix_space", True), settings.flag("legacy", False)
    before = [*_steps(data.get("normalizer")), *_steps(data.get("pre_tokenizer"))]
    byte_level = any(_type(step) == "ByteLevel" for step in before)  # Llama 3 under the name of its forebears
    if byte_level or _type(data["model"]) != "BPE":
        return data
    if not all(_type(step) in ("Prepend", "Replace", "Metaspace") for step in before):
        if settings.config.get("add_prefix_space") is not None:
            raise _contradiction(settings, "add_prefix_space", "normaliser and pre-tokenizer")
        return data
    scheme = ("always" if legacy else "first") if prefix else "never"
    spaces = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False}
    after: list[Step] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    after += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    after += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    decoder = {"type": "Sequence", "decoders": after}
    return data | {"normalizer": None, "pre_tokenizer": spaces, "decoder": decoder}


def _contradiction(settings: Settings, key: str, part: str) -> UserError:
    found = f"{settings.directory / CONFIG}: {key} is {json.dumps(settings.config[key])}"
    return UserError(
        f"{found}, which the {part} of tokenizer.json contradicts",
        f"correct {key} or delete it there: without it tokenizer.json is taken as it is",
    )


def lowered(tokenizer: Tokenizer) -> Tokenizer:
    """The same with texts in lower case, if it does not see to that itself."""
    data = json.loads(tokenizer.definition)
    if lowercases(data["normalizer"]):
        return tokenizer
    steps = [{"type": "Lowercase"}, *([data["normalizer"]] if data["normalizer"] else [])]
    return tokenizer.with_definition(json.dumps(data | {"normalizer": {"type": "Sequence", "normalizers": steps}}))


def lowercases(normalizer: Any) -> bool:
    return any(_type(step) == "Lowercase" or step.get("lowercase") is True for step in _steps(normalizer))


def _strips_accents(normalizer: Any) -> bool:
    return any(_type(step) == "StripAccents" or step.get("strip_accents") is True for step in _steps(normalizer))


def _steps(part: Any) -> Iterator[Step]:
    """Each step of a normaliser or a pre-tokenizer, also those in a sequence."""
    if not isinstance(part, dict):
        return
    inner = [*(part.get("normalizers") or []), *(part.get("pretokenizers") or [])]
    for step in inner:
        yield from _steps(step)
    if not inner:
        yield part


def _type(step: Any) -> Any:
    return step.get("type") if isinstance(step, dict) else None
