"""Public data sets as the recipes read them: `python tools/task_data.py SOURCE [TARGET]`.

SOURCE holds the sets as they are published, a folder each: mrpc/msr_paraphrase_train.txt.gz, nltk_small/rte.zip,
squad_v1.1_dev/*.json.gz, word_probes/simlex999.txt.gz, tatoeba_pt_en/*.tsv.gz, wikitext2_small/*.gz,
sotu_text/*.txt.gz. TARGET (by default ./data) gets plain tables with a test set of each. What decides is a hash, so the
same files make the same split. CoLA and WNUT17 need nothing: the recipes read their files as they are.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from regard.files import write_bytes
from regard.text.sentences import split_sentences

TEST_SHARE = 0.2
TEST_ARTICLES = 6
FILL_TEST = 1_000

Row = tuple[str, ...]


def number(text: str) -> float:
    """From 0 to 1, the same for the same text everywhere; not by the hash of `data.hold_out`, which would find none."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"test").digest()) / 2**64


def lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        yield from (line.rstrip("\r\n") for line in file)


def write(path: Path, text: str) -> None:
    """All at once: a training may be reading what stood there before."""
    write_bytes(path, text.encode())


def write_table(path: Path, header: Row, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = [header, *([" ".join(field.split()) for field in row] for row in rows)]
    write(path, "".join("\t".join(row) + "\n" for row in table))
    print(f"{path}: {len(table) - 1:,} rows")


def mrpc(source: Path, target: Path) -> None:
    """A pair goes where its first sentence goes, and is left out where its second stands on the other side."""
    found = [row.split("\t") for row in lines(source / "mrpc" / "msr_paraphrase_train.txt.gz")][1:]
    rows = [(row[3], row[4], "paraphrase" if row[0] == "1" else "other") for row in found if len(row) == 5]
    test = [row for row in rows if number(row[0]) < TEST_SHARE]
    seen = {text for row in test for text in row[:2]}
    train = [row for row in rows if not seen & set(row[:2])]
    header = ("sentence1", "sentence2", "label")
    write_table(target / "mrpc" / "train.tsv", header, train)
    write_table(target / "mrpc" / "test.tsv", header, test)


def rte(source: Path, target: Path) -> None:
    """The third challenge's test set is the test; all other pairs are for training."""
    sets: dict[str, list[Row]] = {"train": [], "test": []}
    with zipfile.ZipFile(source / "nltk_small" / "rte.zip") as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".xml")):
            # written by the challenge's makers; entities are not expanded by this parser
            for pair in ElementTree.fromstring(archive.read(name)):
                value = pair.get("value") or pair.get("entailment") or ""
                label = "follows" if value in ("TRUE", "YES") else "does not follow"
                row = pair.findtext("t", ""), pair.findtext("h", ""), label
                sets["test" if name.endswith("rte3_test.xml") else "train"].append(row)
    seen = {row[0] for row in sets["test"]}
    sets["train"] = [row for row in sets["train"] if row[0] not in seen]
    for name, rows in sets.items():
        write_table(target / "rte" / f"{name}.tsv", ("text", "hypothesis", "label"), rows)


def simlex(source: Path, target: Path) -> None:
    """Pairs of words and how alike people find them, 0 to 10; a fifth is the test, whose words training may share."""
    rows = [tuple(row.split("\t")) for row in lines(source / "word_probes" / "simlex999.txt.gz") if row[:1] != "#"]
    rows = [row for row in rows if len(row) == 3]
    sets = {"train": [row for row in rows if number(" ".join(row[:2])) >= TEST_SHARE]}
    sets["test"] = [row for row in rows if row not in sets["train"]]
    for name, some in sets.items():
        write_table(target / "simlex" / f"{name}.tsv", ("word1", "word2", "score"), some)


def squad(source: Path, target: Path) -> None:
    """Six of the articles are the test, those with the lowest hash of the title."""
    (path,) = (source / "squad_v1.1_dev").glob("*.json.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    articles.sort(key=lambda article: number(article["title"]))
    (target / "squad").mkdir(parents=True, exist_ok=True)
    for name, some in {"test": articles[:TEST_ARTICLES], "train": articles[TEST_ARTICLES:]}.items():
        out = target / "squad" / f"{name}.json"
        write(out, json.dumps({"version": "1.1", "data": some}, ensure_ascii=False))
        count = sum(len(paragraph["qas"]) for article in some for paragraph in article["paragraphs"])
        print(f"{out}: {len(some)} articles, {count:,} questions")


def fill(source: Path, target: Path) -> None:
    """Tatoeba's English sides and WikiText's sentences, each once; the lowest hashes are the test."""
    texts = {row.split("\t")[1] for name in ("train", "valid")
             for row in lines(source / "tatoeba_pt_en" / f"{name}.pt-en.tsv.gz")}  # fmt: skip
    for name in ("valid", "test"):
        for line in lines(source / "wikitext2_small" / f"wiki.{name}.raw.gz"):
            texts |= {text for text in sentences(line) if 4 <= len(text.split()) <= 60}
    ordered = sorted((text for text in texts if text.strip()), key=number)
    (target / "fill").mkdir(parents=True, exist_ok=True)
    for name, some in {"test": ordered[:FILL_TEST], "train": ordered[FILL_TEST:]}.items():
        out = target / "fill" / f"{name}.txt"
        write(out, "\n".join(some) + "\n")
        print(f"{out}: {len(some):,} sentences")


def sst2(source: Path, target: Path) -> None:
    """GLUE's training set, and its development set as the test: the two files call their columns differently."""
    for out, name in {"train": "glue_train", "test": "glue_dev"}.items():
        _, *rows = (line.split("\t") for line in lines(source / "sst2" / f"{name}.tsv.gz"))
        write_table(target / "sst2" / f"{out}.tsv", ("text", "label"), [(text, label) for label, text in rows])


def words(source: Path, target: Path) -> None:
    """Tatoeba's English sides, each once, and the sentences of the State of the Union addresses."""
    rows = lines(source / "tatoeba_pt_en" / "train.pt-en.tsv.gz")
    texts = [*dict.fromkeys(row.split("\t")[1] for row in rows)]
    for path in sorted((source / "sotu_text").glob("*.txt.gz")):
        texts += [text for line in lines(path) for text in map(str.strip, split_sentences(line)) if text]
    out = target / "words" / "train.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, "\n".join(texts) + "\n")
    print(f"{out}: {len(texts):,} sentences")


def pretrain(source: Path, target: Path) -> None:
    """A document a line: the State of the Union addresses, WikiText's articles, Tatoeba's English sentences."""
    documents = [line for line in lines(source / "sotu_text" / "sotu_1790-2021.txt.gz") if line.strip()]
    for name in ("valid", "test"):
        article: list[str] = []
        for line in [*lines(source / "wikitext2_small" / f"wiki.{name}.raw.gz"), " = end = "]:
            if re.fullmatch(r" = [^=].* = ", line):
                documents += [" ".join(article)] if article else []
                article = []
            article += sentences(line) if line.strip() else []
    documents += sorted(
        {row.split("\t")[1] for row in lines(source / "tatoeba_pt_en" / "train.pt-en.tsv.gz")}, key=number
    )
    (target / "pretrain").mkdir(parents=True, exist_ok=True)
    out = target / "pretrain" / "documents.txt"
    write(out, "".join(" ".join(document.split()) + "\n" for document in documents))
    print(f"{out}: {len(documents):,} documents")


def probes(source: Path, target: Path) -> None:
    """Subjectivity and polarity as tables of text and label."""
    sets = {
        "subjectivity": ("subjectivity", {"subjective": "quote.tok.gt9.5000", "objective": "plot.tok.gt9.5000"}),
        "polarity": ("sentence_polarity", {"positive": "rt-polarity.pos", "negative": "rt-polarity.neg"}),
    }
    for name, (folder, files) in sets.items():
        with zipfile.ZipFile(source / "nltk_small" / f"{folder}.zip") as archive:
            texts = {label: archive.read(f"{folder}/{file}").decode("latin-1") for label, file in files.items()}
        rows = [(line.strip(), label) for label, text in texts.items() for line in text.splitlines() if line.strip()]
        rows.sort(key=lambda row: number(row[0]))
        n_test = int(len(rows) * TEST_SHARE)
        write_table(target / name / "test.tsv", ("text", "label"), rows[:n_test])
        write_table(target / name / "train.tsv", ("text", "label"), rows[n_test:])


def sentences(line: str) -> list[str]:
    """WikiText's lines are paragraphs with spaces around every sign; headings have none of these."""
    if line.strip().startswith("="):
        return []
    text = re.sub(r" @(.)@ ", r"\1", line.strip())
    text = re.sub(r" ([,.;:!?)'])", r"\1", text).replace("( ", "(")
    return re.split(r"(?<=[.!?]) (?=[A-Z\"])", text)


MAKERS: dict[str, Callable[[Path, Path], None]] = {
    "mrpc": mrpc,
    "simlex": simlex,
    "rte": rte,
    "squad": squad,
    "sst2": sst2,
    "fill": fill,
    "words": words,
    "pretrain": pretrain,
    "probes": probes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?", default=Path("data"))
    parser.add_argument("--only", choices=MAKERS, help="make only this one")
    options = parser.parse_args()
    for name, make in MAKERS.items():
        if options.only in (None, name):
            try:
                make(options.source, options.target)
            except (OSError, ValueError) as error:
                sys.exit(f"error: {name}: {error}")


if __name__ == "__main__":
    main()
