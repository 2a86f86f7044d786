"""The house stands as drawn, and each check sees the fault that it is for."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import architecture as house

ROOT = Path(__file__).parent.parent / "src" / "regard"
Check = Callable[[Path], Iterator[str]]


def grow(root: Path, files: dict[str, str]) -> Path:
    """A package with these files, and an empty __init__ in every folder."""
    for name, text in {"__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return root


def body(lines: int) -> str:
    return "".join("    pass\n" for _ in range(lines))


@pytest.mark.parametrize("check", house.CHECKS, ids=lambda check: check.__name__)
def test_the_real_tree_is_clean(check: Check) -> None:
    problems = list(check(ROOT))
    assert not problems, "\n".join(problems)


BAD: dict[Check, list[tuple[str, str, str]]] = {
    house.check_arrows: [
        ("layers/a.py", "from regard.models.bert import Bert", "layers may not import models"),
        ("layers/a.py", "import regard.models.bert", "layers may not import models"),
        ("layers/a.py", "from regard import models", "layers may not import models"),
        ("layers/a.py", "from regard import load", "layers may not import __init__"),
        ("text/a.py", "def f():\n    import regard.data.b", "text may not import data"),
        ("studio/a.py", "from regard.layers.mask import x", "studio may not import layers"),
        ("errors.py", "from regard.layers.mask import x", "errors may not import layers"),
        ("tasks/a.py", "import regard.cli.main", "tasks may not import cli"),
        ("attic.py", "", "'attic' is not a part of the house"),
    ],
    house.check_import_style: [
        ("layers/a.py", "from . import mask", "relative import"),
        ("layers/a.py", "from ..errors import UserError", "relative import"),
        ("models/a.py", "from regard.layers import Block", "defines 'Block'"),
        ("data/a.py", "def f():\n    import json", "'json' inside a function"),
        ("data/a.py", "async def f():\n    import json", "'json' inside a function"),
        ("data/a.py", "import importlib\nimportlib.import_module('x')", "computed"),
    ],
    house.check_torch_stays_out: [
        ("text/a.py", "import torch", "torch into text"),
        ("text/a.py", "from torch.nn import Linear", "torch into text"),
        ("text/a.py", "def f():\n    import torch", "torch into text"),
        ("config.py", "from safetensors import torch", "torch into config"),
        ("runlog.py", "import torch as t", "torch into runlog"),
        ("cli/a.py", "import torch", "torch into cli"),
        ("cli/a.py", "from regard.tasks.load import load", "torch into cli"),
    ],
    house.check_siblings: [
        ("models/vit.py", "from regard.models.bert import Bert", "family vit"),
        ("models/bert.py", "import regard.models.electra", "family electra"),
        ("models/gpt.py", "from regard.models import bert", "family bert"),
    ],
    house.check_loops: [("layers/a.py", "from regard.layers.a import x", "layers.a -> layers.a")],
    house.check_sizes: [
        ("layers/a.py", "x = 1\n" * 301, "301 lines, the limit is 300"),
        ("layers/a.py", "def f():\n" + body(60), "f has 61 lines"),
        (
            "layers/a.py",
            "class A:\n    def __init__(self, a, b, c, d, /, e, *, f, g, h, i): ...",
            "constructor with 9 arguments",
        ),
        ("layers/a.py", "class A:\n    def __init__(s, a, b, c, d, e, f, g, *h, **i): ...", "9"),
    ],
    house.check_median: [("layers/a.py", "def f():\n" + body(12), "median function has 13 lines")],
    house.check_names: [
        ("layers/utils.py", "", "after what it holds"),
        ("data/helpers.py", "", "after what it holds"),
        ("common/a.py", "", "after what it holds"),
        ("layers/types.py", "", "'types' is a module of the standard library"),
        ("inspect/a.py", "", "'inspect' is a module of the standard library"),
    ],
    house.check_safety: [
        ("weights/a.py", "import torch\ntorch.load('x')", "call of torch.load"),
        ("weights/a.py", "import torch as t\nt.load('x')", "call of torch.load"),
        ("weights/a.py", "from torch import load", "import of torch load"),
        ("data/a.py", "import pickle", "import of pickle"),
        ("data/a.py", "from pickle import loads", "import of pickle loads"),
        ("data/a.py", "eval('1')", "call of eval"),
        ("data/a.py", "exec('1')", "call of exec"),
        ("data/a.py", "import os\nos.system('ls')", "call of os.system"),
        ("data/a.py", "run('ls', shell=True)", "shell=True"),
        ("data/a.py", "np.load('x', allow_pickle=True)", "allow_pickle=True"),
    ],
    house.check_portability: [
        ("layers/a.py", "model.cuda()", ".cuda()"),
        ("layers/a.py", "import resource", "POSIX only"),
        ("layers/a.py", "import os\nos.fork()", "POSIX only"),
    ],
}
CASES = [(check, *case) for check, cases in BAD.items() for case in cases]


NEIGHBOURS = ["layers/mask.py", "models/bert.py", "models/electra.py", "data/b.py", "tasks/load.py"]


@pytest.mark.parametrize(("check", "name", "text", "problem"), CASES)
def test_a_bad_file_is_reported(tmp_path: Path, check: Check, name: str, text: str, problem: str) -> None:
    found = list(check(grow(tmp_path, {**dict.fromkeys(NEIGHBOURS, ""), name: text})))
    assert len(found) == 1
    assert problem in found[0]


GOOD = {
    "__main__.py": "from regard.cli.main import main",
    "errors.py": "import difflib",
    "config.py": "from regard.errors import UserError",
    "layers/mask.py": "import torch\nfrom regard import __version__\nfrom regard.errors import T\nm.eval()",
    "layers/block.py": "from regard.layers.mask import causal\nfrom regard.layers import mask",
    "models/bert.py": "from regard.layers.block import Block\nfrom regard.models.registry import add",
    "models/electra.py": "from regard.models.bert import Bert",
    "models/registry.py": "def add(): ...",
    "weights/gguf.py": "import gguf",
    "weights/store.py": "def f():\n    import gguf\n    from regard.weights.gguf import load_gguf",
    "unpickle.py": "import torch\ntorch.load('x', weights_only=True)",
    "training/a.py": "import torch.distributed.checkpoint as dcp\ndcp.load('x')",
    "cli/main.py": "import importlib\ndef f():\n    import torch\n    importlib.import_module('x')",
}


@pytest.mark.parametrize("check", house.CHECKS, ids=lambda check: check.__name__)
def test_a_good_tree_is_not_reported(tmp_path: Path, check: Check) -> None:
    assert list(check(grow(tmp_path, GOOD))) == []


def test_a_loop_of_three_files_is_reported_once(tmp_path: Path) -> None:
    files = {f"layers/{here}.py": f"from regard.layers.{there} import x" for here, there in ("ab", "bc", "ca")}
    assert list(house.check_loops(grow(tmp_path, files))) == [
        "import loop: layers.a -> layers.b -> layers.c -> layers.a"
    ]


def test_an_import_for_types_alone_makes_no_loop(tmp_path: Path) -> None:
    later = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from regard.layers.b import x"
    files = {"layers/a.py": later, "layers/b.py": "from regard.layers.a import x"}
    assert list(house.check_loops(grow(tmp_path, files))) == []


def test_a_long_file_needs_a_reason_and_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = grow(tmp_path, {"layers/a.py": "x = 1\n" * 400, "layers/b.py": "x = 1\n" * 401})
    monkeypatch.setattr(house, "LONG_FILES", {"layers/a.py": "a reason", "layers/b.py": "a reason"})
    assert list(house.check_sizes(root)) == ["layers/b.py: 401 lines, the limit is 400"]


def test_the_line_budgets_are_kept(tmp_path: Path) -> None:
    root = grow(tmp_path, {f"layers/a{number}.py": "x = 1\n" * 300 for number in range(20)})
    assert list(house.check_budgets(root)) == ["layers + models + weights: 6000 lines, the limit is 5970"]
    grow(root, {f"data/a{number}.py": "x = 1\n" * 300 for number in range(105)})
    assert "the package: 37500 lines, the limit is 37200" in list(house.check_budgets(root))


def test_tables_have_a_limit_too(tmp_path: Path) -> None:
    (tmp_path / "models" / "presets").mkdir(parents=True)
    (tmp_path / "models" / "presets" / "all.toml").write_text("x = 1\n" * 1501)
    assert list(house.check_budgets(tmp_path)) == ["models + weights: 1501 lines of tables, the limit is 1500"]


def test_every_excuse_is_still_needed() -> None:
    excused = {**house.LONG_FILES, **house.POSIX_FILES}
    assert [name for name in excused if not (ROOT / name).is_file()] == []


def test_the_text_column_runs_without_torch() -> None:
    column = [module for module in house.modules(ROOT) if module.part in house.NO_TORCH]
    names = [".".join(("regard", *module.key)) for module in column]
    script = f"import {', '.join(names)}, sys\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
