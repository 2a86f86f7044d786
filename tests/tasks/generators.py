"""Tiny language models with a real vocabulary, with and without a chat template."""

from pathlib import Path
from typing import Any

from models import tiny
from regard.tasks.generator import Generator
from regard.text.tokenizer import Tokenizer
from regard.weights.store import save_model
from tasks.translators import tokenizer

CHAT = "{% for message in messages %}{{ message.role }} is {{ message.content }} {% endfor %}The"


def model(name: str = "llama") -> Any:
    return tiny.make(name, vocab_size=tokenizer().vocab_size, max_len=64, bos_id=None, eos_ids=(0,))


def talker(chat: str | None = CHAT) -> Tokenizer:
    plain = tokenizer()
    return Tokenizer(plain._core, special=plain.special, chat_template=chat)


def generator(chat: str | None = CHAT) -> Generator:
    return Generator(model(), talker(chat))


def save(directory: Path, model: Any, chat: str | None = CHAT) -> Path:
    save_model(model, directory)
    talker(chat).save(directory)
    return directory
