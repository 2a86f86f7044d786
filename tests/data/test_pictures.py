"""Pictures: read from every kind of file, seen as transformers sees them, refused by name, changed by number alone."""

import gzip
import io
import random
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.drawn import bar, caption_tar, class_folder, encoded
from regard.data.corpus import read_rows
from regard.data.images import Augment, LabelledPictures, collate_images
from regard.data.pictures import digest, is_pictures, read_pictures
from regard.data.shards import prepare
from regard.data.view import View, read_view
from regard.errors import UserError

VIEW = View((8, 8), 1)


def idx(path: Path, data: np.ndarray, *, cut: int = 0) -> Path:
    raw = struct.pack(f">BBBB{data.ndim}I", 0, 0, 8, data.ndim, *data.shape) + data.tobytes()
    path.write_bytes(gzip.compress(raw[: len(raw) - cut]))
    return path


def tarred(path: Path, folder: Path, mode: str = "w:xz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        tar.add(folder, arcname="all")
    return path


def test_a_folder_and_a_tar_of_it_hold_the_same(tmp_path: Path) -> None:
    folder = class_folder(tmp_path / "a", 8)
    tar = tarred(tmp_path / "a.tar.xz", folder) / "all"
    rows = [sorted(read_rows(place)) for place in (folder, tar)]
    assert rows[0] == rows[1]
    assert [label for _, label in sorted(rows[0], key=lambda row: row[1])][::2] == ["bottom", "left", "right", "top"]
    assert is_pictures(folder)
    assert is_pictures(tar)
    assert not is_pictures(Path(__file__))
    assert digest(folder) == digest(class_folder(tmp_path / "elsewhere", 8))
    assert digest(folder) != digest(class_folder(tmp_path / "other", 8, seed=1))


def test_a_text_beside_a_picture_is_its_caption_and_the_folder_a_third_column(tmp_path: Path) -> None:
    rows = list(read_rows(caption_tar(tmp_path / "a.tar", 8)))
    assert [row[1:] for row in rows[3:5]] == [("a bar at the top", "seen"), ("a bar at the bottom", "held-out")]


def test_captions_are_found_wherever_they_stand_in_a_tar(tmp_path: Path) -> None:
    path = caption_tar(tmp_path / "a.tar", 8)
    with tarfile.open(path) as tar:
        files = [(member, tar.extractfile(member)) for member in tar]
        held = [(member, file.read() if file else b"") for member, file in files]
    for name, order in {"texts-last": ".txt", "texts-first": ".png"}.items():
        with tarfile.open(tmp_path / f"{name}.tar", "w") as other:
            for member, data in sorted(held, key=lambda each: each[0].name.endswith(order)):
                other.addfile(member, io.BytesIO(data))
        assert list(read_rows(tmp_path / f"{name}.tar")) == list(read_rows(path))


def test_idx_files_give_their_very_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 6), dtype=np.uint8)
    files = [idx(tmp_path / "i-idx3-ubyte.gz", pixels), idx(tmp_path / "l-idx1-ubyte.gz", np.arange(5, dtype=np.uint8))]
    rows = [row for _, row in read_pictures(files)]
    seen = [View((8, 6), 1).see(row[0].encode("latin-1"))[0] for row in rows]
    assert np.array_equal(np.stack(seen), pixels)
    assert [row[1] for row in rows] == list("01234")
    for wrong, said in (
        ([files[0]], "1 idx files were given"),
        (files[::-1], "is not an idx file of images"),
        ([idx(tmp_path / "c-idx3-ubyte.gz", pixels, cut=9), files[1]], "image 5 of 5 is cut short"),
        ([idx(tmp_path / "n-idx3-ubyte.gz", pixels[:4]), files[1]], "has 4 images"),
    ):
        with pytest.raises(UserError, match=said):
            list(read_pictures(wrong))


def png_header(width: int, height: int) -> bytes:
    """A file that promises so many pixels in a few bytes."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return start + struct.pack(">I", 1000) + b"IDAT" + zlib.compress(bytes(50))


def animated() -> bytes:
    file, frames = io.BytesIO(), [bar(side, random.Random(0)) for side in ("top", "left")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


WHOLE = encoded(bar("top", random.Random(0), size=64, channels=3), "JPEG")
BAD = {
    "empty.png": (b"", "the file is empty"),
    "text.png": (b"no picture at all", "not a picture that can be read"),
    "short.jpg": (WHOLE[: len(WHOLE) // 2], "damaged or cut short"),
    "short.png": (encoded(bar("top", random.Random(0), size=64))[:900], "damaged or cut short"),
    "bomb.png": (png_header(60_000, 60_000), "too large"),
    "large.png": (png_header(8_500, 8_500), "72,250,000|8,500 x 8,500 pixels, more than 64,000,000"),
    "print.jpg": (encoded(Image.new("CMYK", (8, 8)), "JPEG"), r"the colours of print \(CMYK\)"),
    "deep.png": (encoded(Image.fromarray(np.zeros((8, 8), dtype=np.uint16))), "of 16 bits"),
    "real.tiff": (encoded(Image.fromarray(np.zeros((8, 8), dtype=np.float32)), "TIFF"), "floating-point"),
    "moving.gif": (animated(), "animated or has 2 pages"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_picture_that_cannot_be_seen_rightly_is_refused_by_name(name: str, tmp_path: Path) -> None:
    data, said = BAD[name]
    folder = class_folder(tmp_path / "a", 4)
    (folder / "top" / name).write_bytes(data)
    with pytest.raises(UserError, match=said) as found:
        prepare(folder, LabelledPictures(VIEW, ("bottom", "left", "right", "top")), tmp_path / "shards")
    assert str(folder / "top" / name) in str(found.value)
    assert found.value.hint
    assert not (tmp_path / "shards").exists()


def test_what_is_no_picture_folder_is_told(tmp_path: Path) -> None:
    bar("top", random.Random(0)).save(tmp_path / "bare.png")
    with pytest.raises(UserError, match=r"nothing says what .*bare\.png shows"):
        list(read_rows(tmp_path))
    (tmp_path / "bare.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"bare\.txt is not UTF-8"):
        list(read_rows(tmp_path))
    tar = tarred(tmp_path / "a.tar", class_folder(tmp_path / "a", 40), "w")
    tar.write_bytes(tar.read_bytes()[:5_000])
    with pytest.raises(UserError, match=r"a\.tar is not a whole tar"):
        list(read_rows(tar))
    with pytest.raises(UserError, match="holds no pictures"):
        list(read_rows(tarred(tmp_path / "b.tar", class_folder(tmp_path / "b", 4), "w") / "nowhere"))


def test_a_tar_damaged_in_the_middle_loses_no_picture_in_silence(tmp_path: Path) -> None:
    tar = tarred(tmp_path / "a.tar", class_folder(tmp_path / "a", 40), "w")
    with tarfile.open(tar) as file:
        head = file.getmembers()[20].offset
    data = tar.read_bytes()
    tar.write_bytes(data[:head] + bytes(512) + data[head + 512 :])
    with pytest.raises(UserError, match=r"a\.tar is not a whole tar: something follows its end"):
        list(read_rows(tar / "all"))


def test_a_tar_cut_between_two_files_is_no_whole_tar(tmp_path: Path) -> None:
    tar = tarred(tmp_path / "a.tar", class_folder(tmp_path / "a", 40), "w")
    with tarfile.open(tar) as file:
        head = file.getmembers()[-3].offset
    tar.write_bytes(tar.read_bytes()[:head])
    with pytest.raises(UserError, match=r"a\.tar is not a whole tar: it has no end"):
        list(read_rows(tar / "all"))


@pytest.mark.parametrize("mode", ["gz", "xz", "bz2"])
@pytest.mark.parametrize("fault", ["flipped", "cut"])
def test_a_damaged_archive_is_found_by_its_checksum(mode: str, fault: str, tmp_path: Path) -> None:
    tar = tarred(tmp_path / f"a.tar.{mode}", class_folder(tmp_path / "a", 40), f"w:{mode}")
    data = bytearray(tar.read_bytes())
    data[-6] ^= 1  # in the last checksum or mark
    tar.write_bytes(data[:-8] if fault == "cut" else data)
    with pytest.raises(UserError, match="is not a whole tar"):
        list(read_rows(tar / "all"))


def test_a_link_to_nothing_in_a_folder_is_named(tmp_path: Path) -> None:
    folder = class_folder(tmp_path / "a", 4)
    (folder / "lost.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(UserError, match=r"lost\.png is not a file: nothing is there"):
        list(read_rows(folder))


def test_idx_files_that_hold_more_or_nothing_are_refused(tmp_path: Path) -> None:
    images, labels = np.zeros((3, 4, 4), np.uint8), np.zeros(3, np.uint8)
    names = tmp_path / "x-images-idx3-ubyte.gz", tmp_path / "x-labels-idx1-ubyte.gz"
    for path, data in zip(names, (images, labels), strict=True):
        idx(path, data)
    assert len(list(read_rows(list(names)))) == 3
    names[1].write_bytes(gzip.compress(gzip.decompress(names[1].read_bytes()) + b"\1"))
    with pytest.raises(UserError, match=r"labels-idx1-ubyte\.gz goes on behind the 3"):
        list(read_rows(list(names)))
    idx(names[0], np.zeros((3, 0, 4), np.uint8))
    with pytest.raises(UserError, match="says that it holds 3 x 0 x 4 numbers"):
        list(read_rows(list(names)))


def test_shards_give_back_pixels_and_labels(tmp_path: Path) -> None:
    folder, labels = class_folder(tmp_path / "a", 12), ("bottom", "left", "right", "top")
    shards = prepare(folder, LabelledPictures(VIEW, labels), tmp_path / "shards")
    rows = np.array([7, 0, 11])
    batch = collate_images(shards, rows, view=VIEW, weights=torch.ones(4), change=None)
    every = list(read_rows(folder))
    for pixels, label, row in zip(batch.pixels, batch.labels, rows, strict=True):
        assert labels[label] == every[row][1]
        assert np.array_equal(VIEW.normal(VIEW.see(every[row][0].encode("latin-1"))[None])[0], pixels.numpy())
    assert shards.lengths[:, :1].sum() == 12  # a step is so many pictures


def test_augmentation_is_a_function_of_key_and_row() -> None:
    pixels = np.random.default_rng(0).integers(1, 256, (6, 3, 9, 7), dtype=np.uint8)
    rows, change = np.array([4, 8, 15, 16, 23, 42]), Augment(shift=2, flip=True, erase=3)
    whole = change(pixels, rows, (1, 5))
    assert whole.shape == pixels.shape
    assert np.array_equal(change(pixels[3:], rows[3:], (1, 5)), whole[3:])  # whatever its neighbours
    assert not np.array_equal(change(pixels, rows, (1, 6)), whole)
    assert np.array_equal(Augment()(pixels, rows, (1, 5)), pixels)
    flipped = Augment(flip=True)(pixels, rows, (1, 5))
    turned = [np.array_equal(new[..., ::-1], old) for new, old in zip(flipped, pixels, strict=True)]
    kept = [np.array_equal(new, old) for new, old in zip(flipped, pixels, strict=True)]
    assert [one != other for one, other in zip(turned, kept, strict=True)] == [True] * 6
    assert {*turned} == {True, False}


def test_a_shift_moves_by_all_distances_alike_often() -> None:
    pixels = np.zeros((4000, 1, 9, 9), dtype=np.uint8)
    pixels[:, 0, 4, 4] = 255
    moved = Augment(shift=2)(pixels, np.arange(4000), (3, 1))
    counts = (moved[:, 0] > 0).sum(0)[2:7, 2:7]
    assert counts.sum() == 4000
    assert counts.min() > 110  # 160 are expected, with a deviation of 12
    assert counts.max() < 210


def test_the_view_is_kept_and_read_back(tmp_path: Path) -> None:
    view = View((8, 6), 3, (0.1, 0.2, 0.3), (0.5, 0.25, 0.2), (16, 12), 3)
    view.save(tmp_path)
    assert read_view(tmp_path, (8, 6), 3) == view
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
    assert view.of(image).shape == (3, 8, 6)
    (tmp_path / "preprocessor_config.json").write_text('{"do_normalize": false}')
    with pytest.raises(UserError, match="do_normalize is false"):
        read_view(tmp_path, (8, 6), 3)


@pytest.mark.parity
@pytest.mark.parametrize("resize", [(0, 0), (20, 16)])
def test_pixels_are_those_of_transformers(resize: tuple[int, int], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
    for channels in (1, 3):
        view = View((16, 12), channels, resize=resize)
        view.save(tmp_path)
        shown = image.convert("L") if channels == 1 else image
        theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path)(shown, return_tensors="np")["pixel_values"]
        np.testing.assert_allclose(view.normal(view.of(shown)[None]), theirs, atol=1e-6)


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE])
def test_a_link_in_a_tar_is_refused_by_name(kind: bytes, tmp_path: Path) -> None:
    path = tarred(tmp_path / "a.tar", class_folder(tmp_path / "a", 4), "w")
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("all/top/link.png")
        link.type, link.linkname = kind, "all/top/0000.png"
        tar.addfile(link)
    with pytest.raises(UserError, match=r"link\.png is a link"):
        list(read_rows(path))
