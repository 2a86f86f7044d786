"""Words that are no words, such as a picture pasted as letters: a vocabulary is learnt without them.

Byte pair encoding goes through a whole word for each of its merges: one word of 200,000 letters takes minutes, and
its pieces are of use to no other. Which parts of a text are words is the pre-tokenizer's to say: a page of Chinese
has no spaces, but it has signs between its words.
"""

import re

from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from regard.text.sentencepiece_core import SPACE

MAX_WORD = 1000
"Longest word that is learnt from, in characters: no language has such a word, and WordPiece would not split it either."

_SUSPECT = re.compile(rf"\S{{{MAX_WORD + 1}}}")


class LongWords:
    """Takes them out of texts and counts them."""

    def __init__(self, normaliser: Normalizer, splitter: PreTokenizer) -> None:
        self.normaliser, self.splitter = normaliser, splitter
        self.count = 0

    def taken_out(self, text: str) -> str:
        """`text` itself, if all of its words are of a sane length."""
        if len(text) <= MAX_WORD or not _SUSPECT.search(text):
            return text
        plain = self.normaliser.normalize_str(text)
        words = self.splitter.pre_tokenize_str(plain)
        long = [(start, end) for _, (start, end) in words if end - start > MAX_WORD]
        if not long:
            return text
        self.count += len(long)
        ends = [0, *(end for _, end in long)]
        starts = [*(start for start, _ in long), len(plain)]
        kept = "".join(plain[end:start] for end, start in zip(ends, starts, strict=True))
        return kept.removeprefix(SPACE)  # it is put in front once more

    def __str__(self) -> str:
        words = "1 word" if self.count == 1 else f"{self.count:,} words"
        return f"{words} of more than {MAX_WORD:,} characters left out of the vocabulary"
