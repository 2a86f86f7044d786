"""Pictures out of files, one at a time: idx files (MNIST's), tars and folders.

A row is a picture and what is said of it: the letters U+0000 to U+00FF stand for the bytes of a picture file, so that
whatever is done with rows of text is done with pictures: a share held out by a hash, doubles found, shards made.
In a folder or a tar, the folder that holds a picture names its class. Where beside `a.png` there is `a.txt`, that is
its caption, and the folder only a third column, by which scores are told apart. `some.tar/train` is a folder in a tar.
"""

import bz2
import gzip
import hashlib
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from regard.data.lines import BROKEN, check_file, opened
from regard.errors import QUOTED, UserError, cut

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MOST_BYTES = 64 << 20
"Of one picture file, or of one image of an idx file."
TAR = re.compile(r"\.(tar|tar\.(gz|xz|bz2)|tgz|txz)$", re.IGNORECASE)
IDX = re.compile(r"idx\d(-ubyte)?(\.gz)?$")
PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
LOOKED_AT = 10_000
"Files of a folder that are looked at to see whether it holds pictures."

Placed = tuple[tuple[Path, int], tuple[str, ...]]
"A row with its file, and its number there; 0 where the whole file is the row."


def is_picture(name: str | Path) -> bool:
    return str(name).lower().endswith(SUFFIXES)


def is_pictures(path: Path) -> bool:
    """Whether pictures are to be read from here, and not lines of text."""
    if path.is_dir():
        return any(map(is_picture, islice(path.rglob("*"), LOOKED_AT)))
    return bool(IDX.search(path.name)) or tar_of(path) is not None


def tar_of(path: Path) -> tuple[Path, str] | None:
    """The tar that is meant, and the folder in it."""
    for place in (path, *path.parents):
        if TAR.search(place.name) and not place.is_dir():
            return place, path.relative_to(place).as_posix().removeprefix(".")
    return None


def exists(path: Path) -> bool:
    tar = tar_of(path)
    return path.exists() or (tar is not None and tar[0].is_file())


def read_pictures(paths: Sequence[Path]) -> Iterator[Placed]:
    """All pictures; several folders or tars follow each other, idx files go in pairs: images, then labels."""
    if IDX.search(paths[0].name):
        if len(paths) != 2:
            hint = "an idx file of images and one of labels"
            raise UserError(f"{len(paths)} idx files were given, expected two", hint)
        yield from _idx_rows(*paths)
        return
    for path in paths:
        yield from _described(path)


def digest(path: Path) -> bytes:
    """Equal for equal pictures, wherever they stand."""
    found, tar = hashlib.sha256(), tar_of(path)
    if path.is_dir():
        for name, data in _in_folder(path, lambda name: is_picture(name) or name.lower().endswith(".txt")):
            found.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            found.update(data)
        return found.digest()
    place, inside = tar or (path, "")
    try:
        with place.open("rb") as file:
            return hashlib.sha256(hashlib.file_digest(file, "sha256").digest() + inside.encode()).digest()
    except OSError as error:
        raise UserError(f"cannot read {place}: {error.strerror or error}", "check the file and its rights") from error


# ---- folders and tars


def _described(path: Path) -> Iterator[Placed]:
    """Captions first, wherever they stand, and then the pictures one by one: a tar has its files in any order."""
    captions = {_stem(name): data for name, data in _files(path, lambda name: name.lower().endswith(".txt"))}
    found = False
    for name, data in _files(path, is_picture):
        found = True
        yield (path / name, 0), (data.decode("latin-1"), *_said(path / name, name, captions.get(_stem(name))))
    if not found:
        raise UserError(f"{path} holds no pictures", f"expected files that end in {' '.join(SUFFIXES)}")


def _stem(name: str) -> str:
    """Files of one name but for the ending belong together."""
    return str(PurePosixPath(name).with_suffix(""))


def _said(place: Path, name: str, caption: bytes | None) -> tuple[str, ...]:
    folder = PurePosixPath(name).parent.name
    if caption is not None:
        try:
            return caption.decode("utf-8").strip(), folder
        except UnicodeDecodeError as error:
            raise UserError(f"{place.with_suffix('.txt')} is not UTF-8", "save the caption as UTF-8") from error
    if not folder:
        hint = "put it into a folder that names its class, or a .txt with its caption beside it"
        raise UserError(f"nothing says what {place} shows", hint)
    return (folder,)


def _files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    tar = tar_of(path)
    return _in_tar(*tar, wanted) if tar else _in_folder(path, wanted)


def _in_folder(folder: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if wanted(path.name) and not path.is_dir():
            check_file(path)  # a link to nothing is named, and not passed over
            yield path.relative_to(folder).as_posix(), read_file(path)


def _in_tar(path: Path, inside: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """One after the other, without unpacking anything onto the disk."""
    check_file(path)
    try:
        with _unpacked(path) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                within = not inside or name.startswith(f"{inside}/")
                if not within or member.isdir() or not wanted(name):
                    continue
                if not member.isfile():
                    raise UserError(f"{path}/{name} is a link or a device", "pack the picture itself")
                _check_size(f"{path}/{name}", member.size)
                file = tar.extractfile(member)
                assert file is not None
                yield name.removeprefix(f"{inside}/") if inside else name, file.read()
            _check_end(tar)
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path} is not a whole tar: {cut(str(error), QUOTED)}", BROKEN) from error


def _unpacked(path: Path) -> IO[bytes]:
    """By how it begins. Not tarfile's own readers, which leave gzip's checksum unread."""
    with path.open("rb") as file:
        begins = file.read(6)
    opener = next((opener for mark, opener in PACKED.items() if begins.startswith(mark)), open)
    return opener(path, "rb")


def _check_end(tar: tarfile.TarFile) -> None:
    """A tar ends in empty blocks: one that was cut between two files has none, a damaged head only looks like one."""
    stream = tar.fileobj
    assert stream is not None
    if stream.tell() <= tar.offset:
        raise tarfile.ReadError("it has no end")
    while rest := stream.read(1 << 20):
        if rest.strip(b"\0"):
            raise tarfile.ReadError("something follows its end")


def read_file(path: Path) -> bytes:
    """A picture file, of no more than a sensible size."""
    try:
        _check_size(str(path), path.stat().st_size)
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "check the path and its rights") from error


def _check_size(name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise UserError(f"{name} has {size:,} bytes, more than {MOST_BYTES:,}", "make the picture smaller")


# ---- idx: a magic number, the sizes, and then plain bytes


def _idx_rows(images: Path, labels: Path) -> Iterator[Placed]:
    with opened(images) as pixels, opened(labels) as numbers:
        count, height, width = _idx_sizes(images, pixels, 3)
        (n_labels,) = _idx_sizes(labels, numbers, 1)
        if count != n_labels:
            raise UserError(f"{images} has {count:,} images, {labels} {n_labels:,} labels", "give files that belong")
        _check_size(str(images), height * width)
        header = f"P5 {width} {height} 255\n"  # a picture file of its own: grey, plain (PGM)
        for number in range(1, count + 1):
            image, label = pixels.read(height * width), numbers.read(1)
            if len(image) < height * width or not label:
                raise UserError(f"{images}: image {number} of {count:,} is cut short", BROKEN)
            yield (images, number), (header + image.decode("latin-1"), str(label[0]))
        for path, file in ((images, pixels), (labels, numbers)):
            if file.read(1):
                raise UserError(f"{path} goes on behind the {count:,} that its header speaks of", BROKEN)


def _idx_sizes(path: Path, file: BinaryIO | gzip.GzipFile, n_dims: int) -> list[int]:
    start = file.read(4)
    if start != bytes([0, 0, 8, n_dims]):
        what = "images" if n_dims == 3 else "labels"
        raise UserError(f"{path} is not an idx file of {what} (it begins with {start.hex(' ')})", "images come first")
    sizes = file.read(4 * n_dims)
    if len(sizes) < 4 * n_dims:
        raise UserError(f"{path} is cut short", BROKEN)
    found = [int.from_bytes(sizes[4 * i : 4 * i + 4]) for i in range(n_dims)]
    if 0 in found:
        raise UserError(f"{path} says that it holds {' x '.join(map(str, found))} numbers", BROKEN)
    return found
