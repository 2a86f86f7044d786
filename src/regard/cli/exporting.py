"""`regard convert DIR vectors.txt`: word vectors for other programs."""

from pathlib import Path

from regard.cli.opening import open_any, opening
from regard.cli.terminal import tell
from regard.errors import UserError


def write_words(src: str, dst: Path, overwrite: bool) -> None:
    """All known words and their vectors; not the special tokens, which are no words."""
    if dst.is_dir() or (dst.exists() and not overwrite):
        raise UserError(f"{dst} exists", "give another name, or --overwrite to replace a file")
    with opening(src, "WordVectors"):
        from regard.data.vectors import write_word2vec
        from regard.tasks.word_vectors import WordVectors

        found = open_any(src, "fp32")
        if not isinstance(found, WordVectors):
            raise UserError(f"{src} holds no word vectors, and only they go into a .txt", "name a directory as DST")
        write_word2vec(dst, found.words, found.table)
    tell(f"{src} -> {dst}: {len(found.words):,} words, {found.width} numbers each")
