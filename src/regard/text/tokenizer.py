"""Text to ids and back: one class over the `tokenizers` library, whatever the vocabulary came from.

It never pads or truncates (data/ does) and holds no model. A tokenizer made from Marian's files also
carries an `id_map`: those split text by one vocabulary and number the pieces by another.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import decoders

from regard.errors import UserError
from regard.files import write_bytes, write_json
from regard.text.guard import guarded

ROLES = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")
"The special tokens a tokenizer may have, by what they are for."

MAX_CHARS = 10_000_000
"Longest text taken in one call: ten megabytes of one letter need about ten seconds."

MAX_AROUND = 1000
"Most tokens that a template may add to a text; a long prefix for prompting is still far below."


@dataclass(frozen=True)
class Encoding:
    """One text (or pair) as a model reads it; the lists have one entry per token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    "Where in the text each token stands, in characters; (0, 0) for tokens that were added."
    segments: list[int]
    "0 for the first text, 1 for its pair, as the vocabulary's own template counts them."
    parts: list[int | None]
    "0 for tokens of the first text, 1 for those of its pair, None for tokens that were added."

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """`core` does the work; `special` names the tokens of the roles, such as {"pad": "<pad>"}.

    `id_map` replaces the core's ids, by token; `files` are then written by `save` as they came.
    Text must be real Unicode: a lone surrogate (half a character, from bytes that were not UTF-8) is
    an error, because replacing it would change the user's data in silence.
    """

    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    mask_id: int | None
    cls_id: int | None
    sep_id: int | None

    def __init__(
        self,
        core: tokenizers.Tokenizer,
        *,
        special: Mapping[str, str],
        id_map: Mapping[str, int] | None = None,
        chat_template: str | None = None,
        source: Path | None = None,
        files: Mapping[str, bytes] | None = None,
        max_chars: int = MAX_CHARS,
    ) -> None:
        core.no_padding()
        core.no_truncation()
        self._core = core
        self._id_map = id_map
        self._files = dict(files or {})
        self.chat_template = chat_template
        self.source = source
        self.max_chars = max_chars
        vocabulary = core.get_vocab(with_added_tokens=True) if id_map is None else id_map
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        "Rows an embedding needs: the largest id plus one, so gaps count."
        self._token_of = {id: token for token, id in id_map.items()} if id_map is not None else {}
        self.special = dict(special)
        self._set_special()
        self._check_template()

    def _set_special(self) -> None:
        strange = set(self.special) - set(ROLES)
        assert not strange, f"roles are {ROLES}, not {strange}"
        for role in ROLES:
            token = self.special.get(role)
            found = self.id_of(token) if token is not None else None
            if token is not None and found is None:
                raise UserError(
                    f"the {role} token {token!r} is not in the vocabulary{self._where()}",
                    "correct it in tokenizer_config.json or special_tokens_map.json",
                )
            setattr(self, f"{role}_id", found)

    def _check_template(self) -> None:
        """What is put around every text must be tokens, and few: else each encoding would betray the model."""
        for pair in (None, ""):
            with guarded("trying the tokenizer"):
                around = self._core.encode("", pair, add_special_tokens=True)
            if len(around.ids) > MAX_AROUND:
                raise UserError(f"the template{self._where()} adds {len(around.ids):,} tokens to each text")
            if len(around.tokens) != len(around.ids):
                raise UserError(f"the template{self._where()} names fewer tokens than ids")
            for id in self._ids(around):
                if id >= self.vocab_size:
                    raise UserError(f"the template adds the id {id}, outside the vocabulary{self._where()}")

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size} ids, special={self.special})"

    def _where(self) -> str:
        return f" of {self.source}" if self.source else ""

    # ---- text to ids

    def encode(self, text: str, pair: str | None = None, *, special: bool = True) -> Encoding:
        """`special` adds what the model expects around the text, such as [CLS] and [SEP]."""
        self._check([text] if pair is None else [text, pair])
        with guarded("tokenizing the text"):
            found = self._core.encode(text, pair, add_special_tokens=special)
        return self._encoding(found)

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, special: bool = True
    ) -> list[Encoding]:
        """Each text, or each with the one in the same place of `pairs`."""
        self._check(texts if pairs is None else [*texts, *pairs])
        rows = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        with guarded("tokenizing the texts"):
            found = self._core.encode_batch(rows, add_special_tokens=special)
        return [self._encoding(one) for one in found]

    def encode_ids(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        """Only the ids of each text, in about half the time: what a corpus needs."""
        if self._id_map is not None:  # the fast way keeps no tokens to look up
            return [one.ids for one in self.encode_batch(texts, special=special)]
        self._check(texts)
        with guarded("tokenizing the texts"):
            found = self._core.encode_batch_fast(list(texts), add_special_tokens=special)
        return [one.ids for one in found]

    def _encoding(self, found: tokenizers.Encoding) -> Encoding:
        # The library's own tokens show the text of what is unknown; ours are always the vocabulary's.
        ids = self._ids(found)
        return Encoding(ids, [self.token_of(id) for id in ids], found.offsets, found.type_ids, found.sequence_ids)

    def _ids(self, found: tokenizers.Encoding) -> list[int]:
        if self._id_map is None:
            return found.ids
        unknown = self.unk_id
        ids = [self._id_map.get(token, unknown) for token in found.tokens]
        if any(id is None for id in ids):
            raise UserError(f"a piece is not in the vocabulary{self._where()}, which has no unknown token")
        return ids  # type: ignore[return-value]

    def _check(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(text) > self.max_chars:
                raise UserError(
                    f"a text of {len(text):,} characters; at most {self.max_chars:,} are tokenized at once",
                    "cut it into lines or documents",
                )
            if not text.isascii():
                _check_unicode(text)

    # ---- ids to text

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Ids without a token (rows a model has to spare) stand for no text, as in transformers."""
        numbers = [int(id) for id in ids]
        for id in numbers:
            if not 0 <= id < 1 << 32:
                raise UserError(f"{id} is not a token id", "ids count from 0; labels of -100 must be left out")
        with guarded("turning ids into text"):
            if self._id_map is None:
                return self._core.decode(numbers, skip_special_tokens=skip_special)
            return self._core.decoder.decode(self._known_tokens(numbers, skip_special))

    def _known_tokens(self, ids: list[int], skip_special: bool) -> list[str]:
        hidden = set(self.special.values()) if skip_special else set()
        tokens = [self._token_of[id] for id in ids if id in self._token_of]
        return [token for token in tokens if token not in hidden]

    def is_silent(self, id: int) -> bool:
        """Whether `decode` passes over it: a special token, or none."""
        if self._id_map is not None:
            return not self._known_tokens([id], skip_special=True)
        return id in self._special_ids or self._core.id_to_token(id) is None

    @cached_property
    def _special_ids(self) -> set[int]:
        return {id for id, token in self._core.get_added_tokens_decoder().items() if token.special}

    def token_of(self, id: int) -> str:
        token = self._token_of.get(id) if self._id_map is not None else None
        if self._id_map is None and 0 <= id < 1 << 32:
            token = self._core.id_to_token(id)
        if token is None:
            raise UserError(f"no token has the id {id}{self._where()}", f"ids run from 0 to {self.vocab_size - 1}")
        return token

    def id_of(self, token: str) -> int | None:
        if self._id_map is not None:
            return self._id_map.get(token)
        return self._core.token_to_id(token)

    # ---- its rules

    @property
    def definition(self) -> str:
        """The rules by which a text is split, as the library writes them: the text of a tokenizer.json."""
        return self._core.to_str()

    def with_definition(self, definition: str) -> "Tokenizer":
        """A copy that splits by other rules; the ids and all else stay."""
        copied = copy.copy(self)
        with guarded("copying the tokenizer"):
            copied._core = tokenizers.Tokenizer.from_str(definition)
        return copied

    @property
    def is_byte_level(self) -> bool:
        """Tokens are spelt in bytes, each shown as the letter that GPT-2 gave it."""
        return isinstance(self._core.decoder, decoders.ByteLevel)

    def word_numbers(self, text: str) -> list[int | None]:
        """For each token of the bare text the number of its word, which the first cut left whole."""
        self._check([text])
        with guarded("tokenizing the text"):
            return self._core.encode(text, add_special_tokens=False).word_ids

    # ---- the world around

    def check_fits(self, rows: int) -> None:
        """Every id must have a row in the embedding, or the model would read past its end."""
        if self.vocab_size > rows:
            last = self.vocab_size - 1
            raise UserError(
                f"token {self.token_of(last)!r} has id {last}, but the model has {rows} rows for tokens",
                f"the tokenizer{self._where()} and the weights do not belong together",
            )

    def save(self, directory: Path, *, segments: bool | None = None) -> None:
        """Write what transformers' AutoTokenizer opens; `segments` says that the model takes them.

        Unsaid, segments are promised where the vocabulary's template marks the second text of a pair.
        """
        if self._id_map is None:
            write_bytes(directory / "tokenizer.json", self._core.to_str(pretty=True).encode("utf-8"))
        for name, data in self._files.items():
            write_bytes(directory / name, data)
        write_json(directory / "tokenizer_config.json", self._config(segments))

    def _config(self, segments: bool | None) -> dict[str, object]:
        if segments is None:
            segments = self.cls_id is not None and 1 in self.encode("a", "a").segments
        inputs = ["input_ids", "token_type_ids", "attention_mask"] if segments else ["input_ids", "attention_mask"]
        config: dict[str, object] = {
            # Marian's class is the only one that reads Marian's files.
            "tokenizer_class": "PreTrainedTokenizerFast" if self._id_map is None else "MarianTokenizer",
            "clean_up_tokenization_spaces": False,
            "model_input_names": inputs,
        }
        config |= {f"{role}_token": self.special[role] for role in ROLES if role in self.special}
        if self.chat_template is not None:
            config["chat_template"] = self.chat_template
        return config


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"the text is not valid Unicode: half a character (lone surrogate) at position {error.start}",
            "give text in UTF-8; `iconv -f latin1 -t utf-8` makes it from one that is not",
        ) from error
