"""Compile src/regard/layers/kernels for each kind of CPU; what hatchling calls when regard is built or installed.

`python tools/native.py` does the same by hand after a change of the C files. Without a C compiler, or on a CPU that the
files are not written for, nothing is compiled and nothing fails: PyTorch's own products are used.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # by hand
    BuildHookInterface = object

HOME = Path(__file__).parent.parent / "src" / "regard" / "layers" / "kernels"
LEVELS = {"avx2": "-mavx2 -mfma -mf16c", "vnni": "-mavx512f -mavx512bw -mavx512vl -mavx512vnni -mfma -mf16c"}
# No floating-point exception is looked at: without the last two, loops with a comparison stay scalar.
FLAGS = "-O3 -std=gnu11 -fPIC -fopenmp -Wall -Wextra -fno-math-errno -fno-trapping-math"


def compile_all() -> list[Path]:
    """What could be compiled."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if (
        platform.machine().lower() not in ("x86_64", "amd64")
        or sys.platform == "win32"
        or not shutil.which(compiler[0])
    ):
        print("regard: no C compiler for x86-64 here: PyTorch's own products are used", file=sys.stderr)
        return []
    return [path for level, flags in LEVELS.items() if (path := compile_one(compiler, level, flags)) is not None]


def compile_one(compiler: list[str], level: str, flags: str) -> Path | None:
    out = HOME / f"{level}.so"
    with tempfile.TemporaryDirectory() as folder:
        objects, options = [], [*FLAGS.split(), *flags.split(), f"-DMADE_OF={sources()}u"]
        try:
            for source in sorted(HOME.glob("*.c")):
                objects.append(f"{folder}/{source.stem}.o")
                run([*compiler, *options, "-c", str(source), "-o", objects[-1]])
            # Without -fopenmp: the threads are those that PyTorch brings, and there are no others.
            run([*compiler, "-shared", "-o", f"{folder}/out.so", *objects, "-lm"])
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"regard: {out.name} cannot be compiled: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
            return None
        fresh = out.with_suffix(".tmp")
        shutil.copyfile(f"{folder}/out.so", fresh)
        fresh.replace(out)  # a program that has the old one open keeps it
    return out


def sources() -> int:
    """What layers/native.py compares with the files that it finds, so that no old library is taken for a new one."""
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(HOME.glob("*.[ch]"))))


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


class CompileHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        made = compile_all()
        for old in set(HOME.glob("*.so")) - set(made):  # of another day, when there was a compiler
            old.unlink()
        if made:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    for path in compile_all():
        print(path)
