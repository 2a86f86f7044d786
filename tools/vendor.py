"""Fetch the page's libraries again, or check those that are here: `python tools/vendor.py [--check]`.

Each folder with a vendor.json names its packages: version, licence, the registry's integrity of the whole package, and
for each file kept here where it comes from and its own integrity. Files are the published bytes, unchanged. Needs npm,
which asks whatever registry it is configured for; `--check` needs nothing.
"""

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT / "src" / "regard" / "studio" / "static" / "vendor", ROOT / "tests" / "browser" / "vendor"]


def integrity(data: bytes) -> str:
    """As browsers and registries write it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode("ascii")


def wrong(folder: Path) -> list[str]:
    """Files that are missing, changed, or in no list."""
    listed = {name: each for package in read(folder).values() for name, each in package["files"].items()}
    here = {path.name for path in folder.iterdir()} - {"vendor.json"}
    now = {name: integrity((folder / name).read_bytes()) for name in here & listed.keys()}
    return sorted([*(name for name, hash in now.items() if hash != listed[name]["integrity"]), *(here ^ listed.keys())])


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "vendor.json").read_text(encoding="utf-8"))
    return found


def fetch(folder: Path) -> None:
    """Nothing is written unless the whole package is what its integrity says."""
    packages = read(folder)
    for name, package in packages.items():
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(["npm", "pack", "--silent", f"{name}@{package['version']}"], cwd=place, check=True)
            (archive,) = Path(place).glob("*.tgz")
            if integrity(archive.read_bytes()) != package["integrity"]:
                sys.exit(f"{name} {package['version']} is not the package that {folder / 'vendor.json'} names")
            with tarfile.open(archive) as tar:
                for file, each in package["files"].items():
                    member = tar.extractfile(f"package/{each['from']}")
                    assert member is not None, each["from"]
                    data = member.read()
                    each["integrity"] = integrity(data)
                    (folder / file).write_bytes(data)
        print(f"{name} {package['version']}: {', '.join(package['files'])}")
    text = json.dumps(packages, indent=2, ensure_ascii=False) + "\n"
    (folder / "vendor.json").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare what is here with the lists, and fetch nothing")
    check = parser.parse_args().check
    for folder in FOLDERS:
        if not check:
            fetch(folder)
        if names := wrong(folder):
            sys.exit(f"{folder}: not as listed: {', '.join(names)}")


if __name__ == "__main__":
    main()
