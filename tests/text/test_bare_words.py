"""Words without the spaces between them: nothing but space is lost, and each token is where it says."""

import re

from hypothesis import given
from hypothesis import strategies as st

from regard.text.train import TokenizerConfig, train

TEXTS = ["The cat's 2 kittens don't bite; they're tired.", "naïve cafés, the cat"]
CONFIG = TokenizerConfig("bare-word", 500, min_frequency=1, normalise="none")
TOKENIZER = train(TEXTS, CONFIG, purpose="words")


def test_words_signs_and_clitics_stand_alone() -> None:
    tokens = TOKENIZER.encode(TEXTS[0]).tokens
    assert tokens == ["The", "cat", "'s", "2", "kittens", "don", "'t", "bite", ";", "they", "'re", "tired", "."]
    assert TOKENIZER.encode("cat (cat)").tokens == ["cat", "<unk>", "cat", "<unk>"]  # one id, whatever is before it


def test_padding_is_the_first_id_and_frequent_words_come_before_rare_ones() -> None:
    assert [TOKENIZER.token_of(id) for id in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert TOKENIZER.token_of(4) == "cat"
    assert (TOKENIZER.pad_id, TOKENIZER.unk_id, TOKENIZER.bos_id, TOKENIZER.eos_id) == (0, 1, 2, 3)


@given(st.text(max_size=60))
def test_every_letter_that_is_no_space_is_in_one_token(text: str) -> None:
    encoding = TOKENIZER.encode(text)
    covered = [place for start, end in encoding.offsets for place in range(start, end)]
    assert covered == sorted(set(covered))
    rest = "".join(char for place, char in enumerate(text) if place not in set(covered))
    assert re.sub(r"[\s\x1c-\x1f\x85]", "", rest) == ""
    for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True):
        assert token in ("<unk>", text[start:end])
