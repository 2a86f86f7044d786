"""Pictures that a verb was given by name."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.cli.records import records
from regard.errors import UserError


def are_pictures(texts: Sequence[str]) -> bool:
    """Whether all of these are plainly meant as pictures: names with such an ending, whether or not they are there."""
    if not texts or not any("." in text for text in texts):
        return False
    from regard.data.pictures import is_picture

    return all(is_picture(text) and (len(text.split()) == 1 or Path(text).exists()) for text in texts)


def listed(texts: Sequence[str]) -> Iterator[str]:
    """The names of all pictures: files as they are given, of a folder those in it; stdin for none or `-`."""
    from regard.data.pictures import is_picture

    for text in records(texts):
        path = Path(text).expanduser()
        if path.is_dir():
            found = sorted(str(each) for each in path.rglob("*") if is_picture(each))
            if not found:
                raise UserError(f"{path} holds no pictures", "give a folder with .png or .jpg files")
            yield from found
        elif not path.is_file():
            raise UserError(f"there is no picture {path}", "give the path of a file or a folder")
        else:
            yield str(path)
