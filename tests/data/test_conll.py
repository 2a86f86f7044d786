"""Words and tags come out in step, whatever stands in the words, and a wrong line is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.words import Writer
from faults.refusal import refused
from regard.data import conll
from regard.data.corpus import read_rows

ROWS = [("EU rejects German call", "B-ORG O B-MISC O"), ("Peter Blackburn", "B-PER I-PER"), (".", "O")]
TABS = "EU\tB-ORG\nrejects\tO\nGerman\tB-MISC\ncall\tO\n\nPeter\tB-PER\nBlackburn\tI-PER\n\n.\tO\n"
CONLL2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German  JJ   B-NP B-MISC\x20
call NN I-NP O

-DOCSTART- -X- -X- O
Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
-DOCSTART- -X- -X- O
. . O O"""


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz", "a.iob", "a.bio.gz"])
@pytest.mark.parametrize("text", [TABS, TABS.replace("\t", " "), TABS.replace("\n", "\r\n"), "\n\n" + TABS + "\n\n\n"])
def test_a_sentence_is_a_row_of_words_and_tags(write: Writer, name: str, text: str) -> None:
    assert list(read_rows(write(name, text))) == ROWS


def test_the_tag_is_in_the_last_column_and_the_starts_of_documents_are_no_words(write: Writer) -> None:
    assert list(read_rows(write("a.conll", CONLL2003))) == ROWS


def test_a_line_of_white_space_ends_a_sentence_too(write: Writer) -> None:
    assert list(read_rows(write("a.conll", "a\tO\n\t\nb\tO\n  \nc\tO\n\u00a0\n"))) == [
        ("a", "O"),
        ("b", "O"),
        ("c", "O"),
    ]


def test_columns_are_picked_by_name_as_in_other_tables(write: Writer) -> None:
    path = write("a.conll", TABS)
    assert list(read_rows(path, columns=["tags", "words"])) == [row[::-1] for row in ROWS]
    assert list(read_rows([path, write("b.tsv", "words\tid\n.\t1\n")], columns=["words"]))[2:] == [(".",), (".",)]
    with refused(path, "'word'", "words, tags"):
        list(read_rows(path, columns=["word"]))


def test_white_space_inside_a_word_keeps_words_and_tags_in_step(write: Writer) -> None:
    path = write("a.conll", "10\u00a0000\tO\nNew York\tB-LOC\n\u3000\tO\n")
    assert list(read_rows(path)) == [("10_000 New_York _", "O B-LOC O")]
    # Without tabs the spaces stand between columns; other white space never does.
    assert list(read_rows(write("b.conll", "10\u00a0000 CD O\nx\u2003y NN O"))) == [("10_000 x_y", "O O")]


WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1)
SENTENCE = st.lists(st.tuples(WORD, st.sampled_from(["O", "B-per", "I-creative-work", "S-x", "L-x"])), min_size=1)


@given(st.lists(SENTENCE, max_size=4))
def test_any_words_keep_their_tags(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    sentences = [[(word, tag) for word, tag in sentence if word.strip(" ")] for sentence in sentences]
    sentences = [sentence for sentence in sentences if sentence]
    path = tmp_path_factory.mktemp("conll") / "a.conll"
    path.write_bytes("\n".join("".join(f"{word}\t{tag}\n" for word, tag in each) for each in sentences).encode())
    rows = list(read_rows(path))
    assert len(rows) == len(sentences)
    for (words, tags), sentence in zip(rows, sentences, strict=True):
        assert tags.split() == tags.split(" ") == [tag for _, tag in sentence]
        assert words.split() == words.split(" ")
        assert len(words.split()) == len(sentence)
        assert words == " ".join("".join("_" if c.isspace() else c for c in word.strip(" ")) for word, _ in sentence)


@pytest.mark.parametrize(("name", "count"), [("wnut17train", 3394), ("emerging.dev", 1009)])
def test_real_files_read_to_their_end(data_dir: Path, name: str, count: int) -> None:
    rows = list(read_rows(data_dir / "wnut17" / f"{name}.conll.gz"))
    assert len(rows) == count
    assert all(len(words.split()) == len(tags.split()) for words, tags in rows)
    assert sum(len(words.split()) for words, _ in rows) == {3394: 62730, 1009: 15733}[count]


def test_parts_of_speech_are_tags_too(write: Writer) -> None:
    text = "The\tDET\nU-Boot\tNN-TL\n(\t-LRB-\n$\tPRP$\n\n,\t,\nx\tX\n"
    assert list(read_rows(write("a.conll", text))) == [("The U-Boot ( $", "DET NN-TL -LRB- PRP$"), (", x", ", X")]
    assert list(read_rows(write("b.conll", "a\tO\nb\tPER\n"))) == [("a b", "O PER")]


@pytest.mark.parametrize(("first", "second"), [("B-X", "NOUN"), ("NOUN", "I-X")])
def test_a_file_has_one_kind_of_tags(write: Writer, first: str, second: str) -> None:
    path = write("a.conll", f"a\tO\nb\t{first}\n\nc\tO\nd\t{second}\n")
    with refused(path, "line 5", f"'{second}'", f"and '{first}' before", "such as NOUN"):
        list(read_rows(path))


# ---- what is wrong is refused, with its line


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("a\tB", ("'B'", "B-TYPE")),
        ("a\tX-per", ("'X-per'", "B-TYPE")),
        ("a\tB-", ("'B-'",)),
        ("a\tB-new york", ("'B-new york'",)),
        ("# id 17", ("3 columns", "expected 2")),
        ("a\tNN\tO", ("3 columns", "expected 2")),
        ("alone", ("1 columns", "expected 2")),
        ("alone\t", ("1 columns", "expected 2")),
        ("\tO", ("no word",)),
        ("a\t" + "x" * 5000, ("more characters",)),
    ],
)
def test_a_wrong_line_is_named(write: Writer, line: str, parts: tuple[str, ...]) -> None:
    path = write("a.conll", f"ok\tO\n\nfine\tO\n{line}\n")
    with refused(path, "line 4", *parts):
        list(read_rows(path))


def test_a_file_of_words_alone_is_refused_at_its_first_line(write: Writer) -> None:
    with refused("a.conll", "line 1", "1 columns", "a word and its tag"):
        list(read_rows(write("a.conll", "one\ntwo\n")))


def test_a_file_without_blank_lines_does_not_fill_the_memory(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll, "MAX_SENTENCE", 300)
    path = write("a.conll", "word\tO\n" * 50 + "\n" + "word\tO\n" * 51)
    assert next(read_rows(path))[1] == " ".join(["O"] * 50)
    with refused(path, "line 102", "does not end", "blank line"):
        list(read_rows(path))
