"""Translate: sentences, many of them in order, or whole documents with their layout."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.beam import BeamSettings, Hypothesis, beam_search
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.recurrent import RecurrentTranslator
from regard.models.transformer import Transformer
from regard.tasks.batching import batches, chunks, padded
from regard.tasks.generation import AS_CONFIGURED, Writing
from regard.tasks.translation import Inside, Translation, joined
from regard.text.sentences import Segment, cut_long, segments
from regard.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096
"Source tokens, with padding and once for each hypothesis of the beam, that are translated at once."
FIRST_CHUNK, LAST_CHUNK = 32, 2048
"Texts that are read before the first and before every later result: few at first, then enough to sort by length."


@dataclass(frozen=True)
class Search:
    beam: BeamSettings
    max_new: int | None = None
    "Tokens of the target; by default twice those of the source and ten."
    prefix: tuple[int, ...] = ()
    "Target ids that every translation must begin with."
    split: bool = False
    "Whether each sentence of a text is translated by itself."
    batch_tokens: int = BATCH_TOKENS
    heard: Callable[[int], None] | None = None
    "Told after each batch how many texts are done, about: alike lengths go together, not neighbours."
    seen: Callable[[Tensor, Tensor], None] | None = None
    "As in `beam_search`; what it raises ends the search."

    def __post_init__(self) -> None:
        require(self.max_new is None or self.max_new >= 1, f"at most {self.max_new} new tokens", "expected at least 1")


class _Part(NamedTuple):
    text: str
    ids: Sequence[int] | None
    "None for layout, which is not translated."
    note: str = ""


class Translator:
    """`translate("O livro está em cima da mesa.", beam=4)` gives a `Translation`."""

    def __init__(
        self,
        model: Transformer | RecurrentTranslator,
        source: Tokenizer,
        target: Tokenizer,
        writing: Writing = AS_CONFIGURED,
        longest: int | None = None,
    ) -> None:
        """`longest`: tokens of a sentence that are read at once, where the model reads fewer well than it could."""
        out_size = model.config.filled().get("target_vocab_size", model.config.vocab_size)
        source.check_fits(model.config.vocab_size)
        target.check_fits(out_size)
        if model.config.start_id is None:
            raise UserError("the model does not say which token a translation starts with", "see its config.json")
        self.model: Any = model
        self.tokenizer, self.target = source, target
        self.max_len: int = model.config.max_len
        self.longest = min(longest or self.max_len, self.max_len)
        # Padding and the start are no words, and neither are the rows that a model has to spare.
        silent = {model.config.pad_id, model.config.start_id, *range(target.vocab_size, out_size)} - {None}
        silent |= set(writing.silent_ids)
        self._first = () if writing.first_id is None else (writing.first_id,)
        self._silent = torch.tensor(sorted(silent - {*model.config.eos_ids, *self._first}), device=model.device)

    def __call__(
        self,
        text: str,
        *,
        beam: int = 4,
        n_best: int | None = None,
        length_penalty: float = 1.0,
        max_new: int | None = None,
        tree: bool = False,
        prefix: Sequence[int] = (),
        split: bool = False,
        seen: Callable[[Tensor, Tensor], None] | None = None,
    ) -> Translation:
        """One text with its alternatives: as many in all as the beam is wide, or `n_best`.

        `split` translates sentence by sentence. `prefix` are target ids that the translation must begin with.
        `seen` is shown the live hypotheses after each step, as in `beam_search`.
        """
        if not isinstance(text, str):
            raise UserError("one text is expected", "write translate.many(texts) for several")
        n_best = beam if n_best is None else n_best
        settings = BeamSettings(beam, n_best, length_penalty, keep_tree=tree)
        return next(self._many([text], Search(settings, max_new, tuple(prefix), split, seen=seen)))

    def many(
        self,
        texts: Iterable[str],
        *,
        beam: int = 4,
        n_best: int = 1,
        length_penalty: float = 1.0,
        max_new: int | None = None,
        tree: bool = False,
        split: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        heard: Callable[[int], None] | None = None,
    ) -> Iterator[Translation]:
        """In the order of `texts`, of which never more than a chunk is held; those alike in length go together.

        `heard` is told meanwhile how many are done.
        """
        if isinstance(texts, str):
            raise UserError("one text was given where several are expected", "write translate(text)")
        settings = BeamSettings(beam, n_best, length_penalty, keep_tree=tree)
        return self._many(texts, Search(settings, max_new, split=split, batch_tokens=batch_tokens, heard=heard))

    def document(self, text: str, *, beam: int = 4, length_penalty: float = 1.0) -> str:
        """Sentence by sentence; blank lines, indents and bullets stay as they are."""
        return self(text, beam=beam, n_best=1, length_penalty=length_penalty, split=True).text

    def summary(self) -> Summary:
        return summarise(self.model)

    def pieces(self, text: str) -> int:
        """In how many it would be translated; only the tokenizer works for it."""
        return sum(part.ids is not None for part in self._read([segments(text, split=False)])[0])

    def _many(self, texts: Iterable[str], search: Search) -> Iterator[Translation]:
        before = 0
        for chunk in chunks(texts, FIRST_CHUNK, LAST_CHUNK):
            read = self._read([segments(text, split=search.split) for text in chunk])
            rows = [part.ids for parts in read for part in parts if part.ids is not None]
            found = iter(self._search_all(rows, search, range(before, before + len(chunk))))
            before += len(chunk)
            for text, parts in zip(chunk, read, strict=True):
                done = [part.text if part.ids is None else self._written(part, next(found)) for part in parts]
                yield joined(text, done, search.beam.length_penalty)

    def _read(self, layouts: list[list[Segment]]) -> list[list[_Part]]:
        """Ids for all that is text; what is too long to be read at once is cut."""
        texts = [segment.text for layout in layouts for segment in layout if segment.is_text]
        ids = iter(self.tokenizer.encode_ids(texts))
        return [
            [
                part
                for segment in layout
                for part in (self._fit(segment.text, next(ids)) if segment.is_text else [_Part(segment.text, None)])
            ]
            for layout in layouts
        ]

    def _fit(self, text: str, ids: Sequence[int], room: int | None = None) -> list[_Part]:
        if len(ids) <= self.longest:
            return [_Part(text, ids or None)]  # what has no tokens cannot be read, and stays as it is
        plain = self.tokenizer.encode(text, special=False)
        room = max(1, self.longest - (len(ids) - len(plain)) - 1) if room is None else room
        pieces, clean = cut_long(text, [end for _, end in plain.offsets], room)
        note = "" if clean else f"a sentence of more than {self.longest} tokens was cut in the middle"
        parts = []
        for segment in (segment for piece in pieces for segment in segments(piece, split=False)):
            if not segment.is_text:
                parts.append(_Part(segment.text, None))
                continue
            again = self.tokenizer.encode_ids([segment.text])[0]
            if len(again) > self.longest and room == 1:
                raise UserError(f"the model takes {self.longest} tokens, too few for one letter")
            # Apart from its neighbours a piece may need more tokens than it did among them.
            parts += [each._replace(note=note) for each in self._fit(segment.text, again, max(1, room // 2))]
        return parts

    def _search_all(self, rows: Sequence[Sequence[int]], search: Search, numbers: range) -> list[list[Hypothesis]]:
        """The rows of the texts with these `numbers`."""
        found: list[list[Hypothesis]] = [[] for _ in rows]
        done = 0
        for batch in batches([len(row) for row in rows], search.batch_tokens // search.beam.beams):
            for row, hypotheses in zip(batch, self._search([rows[i] for i in batch], search), strict=True):
                found[row] = hypotheses
            done += len(batch)
            if search.heard:
                search.heard(numbers.start + len(numbers) * done // len(rows))
        return found

    @torch.inference_mode()
    def _search(self, rows: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        src, valid = padded(rows, self.model.config.pad_id or 0, self.model.device)
        if len({len(row) for row in rows}) == 1:
            valid = None  # nothing to close
        limits = [self._limit(len(row), search) for row in rows]
        state = self.model.new_state(self.model.encode(src, valid), valid, max(limits))
        start = torch.full((len(rows),), self.model.config.start_id, device=src.device)
        ends, prefix = self.model.config.eos_ids, [search.prefix or self._first] * len(rows)
        return beam_search(
            self._step, state, start, search.beam, limit=limits, end_ids=ends, prefix=prefix, seen=search.seen
        )

    def _limit(self, length: int, search: Search) -> int:
        limit = 2 * length + 10 if search.max_new is None else search.max_new
        return min(limit + len(search.prefix), self.max_len)

    def _step(self, ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores = self.model.step(ids, state, valid)
        return scores.index_fill_(1, self._silent, -torch.inf)

    def _written(self, part: _Part, found: list[Hypothesis]) -> Translation:
        assert part.ids is not None
        best, *others = [self._translation(part, part.ids, each) for each in found]
        return replace(best, alternatives=tuple(others))

    def _translation(self, part: _Part, ids: Sequence[int], found: Hypothesis) -> Translation:
        end = -1 if found.reason == "end" else len(found.ids)
        text = self.target.decode(found.ids[:end]).strip()
        if "\n" not in part.text:  # a line stays a line, whatever the model has learnt to write
            text = text.replace("\r", " ").replace("\n", " ")
        inside = Inside(self.model, self.tokenizer, self.target, part.text, ids, found)
        numbers = found.score, found.log_probability, len(found.ids)
        return Translation(part.text, text, *numbers, note=part.note, inside=inside)
