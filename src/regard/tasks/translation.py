"""What a translation is: the text, how sure the model was, what else it considered, and where it looked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.decoding.beam import Hypothesis
from regard.decoding.tree import Tree
from regard.errors import UserError
from regard.inspection.alignment import Alignment
from regard.inspection.attention import attention
from regard.inspection.reading import Kind, Reading, read_translation
from regard.text.tokenizer import Tokenizer
from regard.text.words import token_name

if TYPE_CHECKING:
    from regard.inspection.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Inside:
    """What looking into a translation needs."""

    model: Any
    source: Tokenizer
    target: Tokenizer
    text: str
    "What was read, without the layout around it."
    src_ids: Sequence[int]
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Translation:
    source: str
    text: str
    score: float = 0.0
    "log_probability / length ** length_penalty; 0 is certain."
    log_probability: float = 0.0
    n_tokens: int = 0
    "Tokens written, ends included."
    alternatives: tuple["Translation", ...] = ()
    "The next best, best first."
    pieces: tuple["Translation", ...] = ()
    "Where a text was translated sentence by sentence: the sentences."
    note: str = ""
    "What the reader should know, such as a sentence that had to be cut."
    inside: Inside | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def sentences(self) -> tuple["Translation", ...]:
        """The pieces; of a text in one piece, the text; of an empty one, nothing."""
        return self.pieces or ((self,) if self.inside else ())

    @property
    def tree(self) -> Tree | None:
        return self.inside.hypothesis.tree if self.inside else None

    @property
    def source_tokens(self) -> tuple[str, ...]:
        inside = self._look()
        return tuple(token_name(id, inside.source) for id in inside.src_ids)

    @property
    def target_tokens(self) -> tuple[str, ...]:
        inside = self._look()
        return tuple(token_name(id, inside.target) for id in inside.hypothesis.ids)

    @property
    def reading(self) -> Reading:
        """What can be read again, with eyes open; see `regard.inspection`."""
        inside = self._look()
        tokenizers = inside.source, inside.target
        return read_translation(inside.model, tokenizers, inside.text, inside.src_ids, inside.hypothesis.ids)

    def attention(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """Weights (T, S): where the decoder looked while it wrote each target token. Computed now, not before."""
        return attention(self.reading, "cross", layer, head)

    def alignment(self, layer: int | None = None, head: int | None = None, *, words: bool = False) -> Alignment:
        """The weights with names; by default averaged over layers and heads. `words` puts tokens together."""
        weights = self.attention(layer, head)
        if not words:
            return Alignment(self.target_tokens, self.source_tokens, weights)
        written, read = self.reading.queries("cross"), self.reading.keys("cross")
        return Alignment(written.names, read.names, weights).grouped(written.words, read.words)

    def explain(
        self, word: str, *, layer: int | None = None, head: int | None = None, kind: Kind = "cross"
    ) -> "Explanation":
        """Every number from the query of a written word to the output; it shows itself in a notebook.

        Without a layer and a head it is the most decided one for this word.
        """
        from regard.inspection.heads import explain_best  # no translation waits for what explains it

        reading = self.reading
        reading.check(kind, layer, head)
        return explain_best(reading, kind, reading.queries(kind).find(word)[0], layer=layer, head=head)

    def _look(self) -> Inside:
        if self.inside is None:
            what = f"was translated in {len(self.pieces)} pieces" if self.pieces else "is empty"
            raise UserError(f"this text {what}: there is no one attention to show", "look at each of .sentences")
        return self.inside

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": self.source, "text": self.text, "score": self.score}
        found["log_probability"] = self.log_probability
        if self.alternatives:
            found["alternatives"] = [
                {"text": each.text, "score": each.score, "log_probability": each.log_probability}
                for each in self.alternatives
            ]
        if self.pieces:
            found["pieces"] = [piece.to_dict() for piece in self.pieces]
        if self.tree is not None and self.inside is not None:
            nodes = self.tree.to_dict()["nodes"]
            names = [None if node["token"] is None else token_name(node["token"], self.inside.target) for node in nodes]
            found["tree"] = {"nodes": [{**node, "text": name} for node, name in zip(nodes, names, strict=True)]}
        return found | ({"note": self.note} if self.note else {})


def joined(source: str, parts: Sequence[str | Translation], length_penalty: float) -> Translation:
    """Pieces and the layout between them as one translation."""
    pieces = [part for part in parts if isinstance(part, Translation)]
    if len(pieces) == len(parts) == 1:
        return pieces[0]
    whole = _one(source, parts, length_penalty)
    if len(pieces) == 1:
        return replace(pieces[0], source=source, text=whole.text, alternatives=_others(source, parts, length_penalty))
    note = "; ".join(dict.fromkeys(piece.note for piece in pieces if piece.note))
    return replace(whole, alternatives=_others(source, parts, length_penalty), pieces=tuple(pieces), note=note)


def _others(source: str, parts: Sequence[str | Translation], length_penalty: float) -> tuple[Translation, ...]:
    """The second best of each piece, the third best of each; a piece with fewer repeats its last."""
    count = max((len(part.alternatives) for part in parts if isinstance(part, Translation)), default=0)
    found = []
    for i in range(count):
        chosen = [part if isinstance(part, str) else [part, *part.alternatives][: i + 2][-1] for part in parts]
        found.append(_one(source, chosen, length_penalty))
    return tuple(found)


def _one(source: str, parts: Sequence[str | Translation], length_penalty: float) -> Translation:
    pieces = [part for part in parts if isinstance(part, Translation)]
    total, length = math.fsum(piece.log_probability for piece in pieces), sum(piece.n_tokens for piece in pieces)
    text = "".join(map(str, parts))
    return Translation(source, text, total / max(length, 1) ** length_penalty, total, length)
