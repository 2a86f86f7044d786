"""Arrays that stay in their files: read through a memory map, and the pages given back after each use."""

import mmap

import numpy as np

CHUNK = 256
"Entries read before their pages are given back: one touch may pull 64 KiB of a file into memory."
SPAN = 8 << 20
"Or as many entries as stand in so many bytes: closer ones share their pages."


def take(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`array[index]`, at the same cost in memory whether the array has a megabyte or a terabyte."""
    if not isinstance(array, np.memmap):
        return array[index]
    found = np.empty((len(index), *array.shape[1:]), dtype=array.dtype)
    order = np.argsort(index, kind="stable")  # neighbours in the file are read together
    n_chunks = min(-(-len(order) // CHUNK), -(-len(array) * array.strides[0] // SPAN))
    for part in np.array_split(order, n_chunks):
        found[part] = array[index[part]]
        give_back(array)
    return found


def give_back(array: np.ndarray) -> None:
    """Count the pages of a map as the system's again. Nothing is lost: they are the file's own."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):  # Windows has its own way and needs no hint
        mapping.madvise(mmap.MADV_DONTNEED)
