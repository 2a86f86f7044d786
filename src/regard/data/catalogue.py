"""What is public and known by name: data sets and models, with their home, licence, size and checksums."""

from dataclasses import dataclass
from pathlib import Path

from regard.config import build, read_toml

CATALOGUE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class RemoteFile:
    path: str
    "Below the address of its set."
    size: int | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class DataSet:
    about: str
    licence: str
    home: str
    "For people to read."
    revision: str
    address: str
    folder: str
    "Below `data/`, where the recipes look for it."
    max_bytes: int
    "No file of the set is larger; a stranger's server may send without end."
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int | None:
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def locate(self, file: RemoteFile, mirror: str | None = None) -> str:
        base = mirror or self.address.format(revision=self.revision)
        return f"{base.rstrip('/')}/{file.path}"


@dataclass(frozen=True)
class PublicModel:
    about: str
    licence: str
    repository: str
    "owner/name on the Hugging Face hub."
    revision: str | None = None
    size: int | None = None
    "Rounded."

    @property
    def source(self) -> str:
        return f"{self.repository}@{self.revision}" if self.revision else self.repository

    @property
    def home(self) -> str:
        return f"https://huggingface.co/{self.repository}"


@dataclass(frozen=True)
class Catalogue:
    data: dict[str, DataSet]
    models: dict[str, PublicModel]


def read_catalogue() -> Catalogue:
    return build(Catalogue, read_toml(CATALOGUE))
