"""The rules of the house, as checks over a source tree.

Each check takes the package's folder and yields one line per problem. The tables below are the rules;
a line added to them is a decision and carries its reason.
"""

import ast
import functools
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "regard"

OPEN = {"errors", "config", "files", "machine", "runlog"}
"Anyone may import these; in turn they import only each other."

ARROWS: dict[str, set[str]] = {
    "layers": set(),
    "text": set(),
    "data": {"text"},
    "models": {"layers"},
    "decoding": {"layers"},
    "evaluation": {"text"},
    "weights": {"layers", "models", "text", "pretrained"},  # an adapter may name a bundled model as what it changes
    "objectives": {"layers", "models", "data"},
    "inspection": {"layers", "models", "decoding", "text"},
    "training": {"layers", "text", "data", "models", "objectives", "decoding", "evaluation", "weights"},
    "pretrained": set(),  # names and folders of what is bundled; opening them is the others' work
    "tasks": {"text", "data", "models", "weights", "decoding", "inspection", "pretrained"},
}
"Folder -> the folders it may import, beside itself and the open ones."
ARROWS["lab"] = set(ARROWS)
ARROWS["studio"] = {"tasks", "lab", "inspection", "decoding", "text"}  # text: it shows how a tokenizer splits
ARROWS["cli"] = set(ARROWS)
ARROWS["__main__"] = {"cli"}
ARROWS["unpickle"] = {"weights"}  # a program of its own, which nobody imports
ARROWS["__init__"] = set(ARROWS)  # the public names, resolved on first use
ARROWS |= {name: set() for name in OPEN}

NO_TORCH = {"text", "pretrained"} | OPEN
TORCH = ("torch.", "torchvision.", "safetensors.torch.", "transformers.")

SAME_WIRING = {("electra", "bert")}
"The first is a configuration of the second's wiring and may import it; no other family may."
NOT_A_FAMILY = {"__init__", "base", "registry"}

LATE_FILES = {
    "cli/": "a verb imports what it needs when it is called, so that --help answers at once",
    "__init__.py": "public names are resolved on first use",
}
LATE_MODULES = {
    "pyarrow": "extra [data]",
    "torch.utils.tensorboard": "extra [log]",
    "sentencepiece": "extra [spm]",
    "codecarbon": "extra [energy]",
    "huggingface_hub": "a third of a second to import; only hf: names need it",
    "gguf": "most of a second to import; only .gguf files need it",
    "regard.training.sharded": "imports torch.distributed.checkpoint, for a second and a half; few checkpoints need it",
    "transformers": "a peer that `regard verify` compares with where it is installed, never a need",
    "PIL": "a tenth of a second; only pictures need it",
    "regard.text.chat": "imports jinja2, for a tenth of a second that every translation would wait",
    "regard.inspection.heads": "no translation waits for what explains it",
    "regard.inspection.figures.png": "imports pillow, for which every translation would wait",
    "regard.weights.hub": "imports huggingface_hub",
    "regard.weights.gguf": "imports gguf",
}

MAX_FILE, MAX_EXCUSED_FILE, MAX_FUNCTION, MAX_MEDIAN, MAX_ARGUMENTS = 300, 400, 60, 12, 8
LONG_FILES: dict[str, str] = {}
"File -> why it may have up to 400 lines."
BUDGETS: dict[tuple[str, ...], int] = {("layers", "models", "weights"): 5_970, (): 37_200}
"Parts -> lines of Python with their docstrings; no parts mean the whole package."
MAX_TABLES = 1_500
"Lines of TOML in models/ and weights/: sizes and names are data, but data can swell too."
CATCH_ALL = {"utils", "util", "helpers", "misc", "common"}

MAY_UNPICKLE = {"unpickle.py": "the one door for .bin files: a child process, weights_only"}
UNSAFE_IMPORTS = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "torch.serialization.load"}
UNSAFE_CALLS |= {"torch.jit.load", "torch.hub.load"}
UNSAFE_FLAGS = {"shell", "allow_pickle", "trust_remote_code"}

POSIX_FILES: dict[str, str] = {"machine.py": "it asks how much memory there is"}
"The one file that may ask the operating system what only POSIX answers."
POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}


Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    target: str
    "Dotted name as far as it is a module: regard.layers.mask"
    name: str
    "What is taken from it, or nothing."
    line: int
    late: bool
    "Inside a function."
    typing_only: bool
    relative: bool


class Module(NamedTuple):
    path: str
    "Relative to the package, with slashes."
    lines: int
    tree: ast.Module
    imports: list[Import]

    @property
    def key(self) -> tuple[str, ...]:
        """("layers", "mask"); a folder's __init__ stands for the folder."""
        parts = tuple(self.path.removesuffix(".py").split("/"))
        return parts[:-1] if parts[1:] and parts[-1] == "__init__" else parts

    @property
    def part(self) -> str:
        return self.key[0]

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


def modules(root: Path) -> list[Module]:
    return [_read(root, path, path.stat().st_mtime_ns) for path in sorted(root.rglob("*.py"))]


@functools.cache
def _read(root: Path, path: Path, _changed: int) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    return Module(path.relative_to(root).as_posix(), len(text.splitlines()), tree, list(_imports(tree)))


def _imports(node: ast.AST, *, late: bool = False, typing_only: bool = False) -> Iterator[Import]:
    late |= isinstance(node, Function)
    typing_only |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, "", node.lineno, late, typing_only, False)
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield Import(node.module or "", alias.name, node.lineno, late, typing_only, node.level > 0)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, late=late, typing_only=typing_only)


def _ours(root: Path, found: Import) -> tuple[str, ...]:
    """The key of one of our own modules, else nothing."""
    first, *rest = found.target.split(".")
    if first != PACKAGE or found.relative:
        return ()
    here = root.joinpath(*rest, found.name)
    is_module = found.name and (here.is_dir() or here.with_suffix(".py").is_file())
    return (*rest, found.name) if is_module else tuple(rest) or ("__init__",)


def check_arrows(root: Path) -> Iterator[str]:
    for module in modules(root):
        if module.part not in ARROWS:
            yield f"{module.path}: '{module.part}' is not a part of the house"
            continue
        allowed = ARROWS[module.part] | OPEN | {module.part}
        for found in module.imports:
            there = _ours(root, found)
            version = there == ("__init__",) and found.name == "__version__"
            if there and there[0] not in allowed and not version:
                yield f"{module.at(found.line)}: {module.part} may not import {there[0]}"


def check_import_style(root: Path) -> Iterator[str]:
    """Absolute, of the defining file, at the top."""
    for module in modules(root):
        may_be_late = module.path.startswith(tuple(LATE_FILES))
        for found in module.imports:
            place, there = module.at(found.line), _ours(root, found)
            if found.relative:
                yield f"{place}: relative import; write it in full"
            if len(there) == 1 and (root / there[0]).is_dir():
                yield f"{place}: import the file that defines '{found.name or there[0]}', not its folder"
            excused = may_be_late or not {found.target, found.target.split(".")[0]}.isdisjoint(LATE_MODULES)
            if found.late and not excused:
                yield f"{place}: import of '{found.target}' inside a function"
        for line, name, _ in _calls(module.tree):
            if name in {"importlib.import_module", "import_module", "__import__"} and not may_be_late:
                yield f"{module.at(line)}: import by a computed name; write an import statement"


def check_torch_stays_out(root: Path) -> Iterator[str]:
    """Of the text column altogether, and of what the command line imports before it knows the verb."""
    for module in modules(root):
        at_once = module.part in {"cli", "__init__", "__main__"}
        for found in module.imports:
            full, there = f"{found.target}.{found.name}.", _ours(root, found)
            heavy = full.startswith(TORCH)
            heavy |= at_once and bool(there) and there[0] not in NO_TORCH | {"cli", "__init__"}
            if heavy and (module.part in NO_TORCH or (at_once and not found.late and not found.typing_only)):
                yield f"{module.at(found.line)}: '{found.target}' brings torch into {module.part}"


def check_siblings(root: Path) -> Iterator[str]:
    """A family does not build on another family, but for the pairs that share one wiring."""
    for module in modules(root):
        family = Path(module.path).stem
        if module.part != "models" or family in NOT_A_FAMILY:
            continue
        for found in module.imports:
            there = _ours(root, found)
            other = there[1] if there[:1] == ("models",) and len(there) > 1 else family
            if other not in NOT_A_FAMILY | {family} and (family, other) not in SAME_WIRING:
                yield f"{module.at(found.line)}: family {family} may not import family {other}"


def check_loops(root: Path) -> Iterator[str]:
    """No module waits for itself while it is being imported."""
    graph = {module.key: _early(root, module) for module in modules(root)}
    done = set()

    def visit(key: tuple[str, ...], trail: tuple[tuple[str, ...], ...]) -> Iterator[str]:
        if key in trail:
            yield "import loop: " + " -> ".join(map(".".join, [*trail[trail.index(key) :], key]))
        elif key not in done:
            for other in sorted(graph.get(key, ())):
                yield from visit(other, (*trail, key))
            done.add(key)

    for key in graph:
        yield from visit(key, ())


def _early(root: Path, module: Module) -> set[tuple[str, ...]]:
    found = (_ours(root, found) for found in module.imports if not found.late and not found.typing_only)
    return {key for key in found if key}


def check_sizes(root: Path) -> Iterator[str]:
    for module in modules(root):
        limit = MAX_EXCUSED_FILE if module.path in LONG_FILES else MAX_FILE
        if module.lines > limit:
            yield f"{module.path}: {module.lines} lines, the limit is {limit}"
        for function in _functions(module):
            if _length(function) > MAX_FUNCTION:
                size = f"{_length(function)} lines, the limit is {MAX_FUNCTION}"
                yield f"{module.at(function.lineno)}: {function.name} has {size}"
            if function.name == "__init__" and _arguments(function) > MAX_ARGUMENTS:
                size = f"{_arguments(function)} arguments, the limit is {MAX_ARGUMENTS}"
                yield f"{module.at(function.lineno)}: constructor with {size}"


def check_median(root: Path) -> Iterator[str]:
    lengths = [_length(function) for module in modules(root) for function in _functions(module)]
    if lengths and (median := statistics.median(lengths)) > MAX_MEDIAN:
        yield f"the median function has {median:g} lines, the limit is {MAX_MEDIAN}"


def check_budgets(root: Path) -> Iterator[str]:
    for parts, limit in BUDGETS.items():
        total = sum(module.lines for module in modules(root) if not parts or module.part in parts)
        if total > limit:
            yield f"{' + '.join(parts) or 'the package'}: {total} lines, the limit is {limit}"
    tables = [path for part in ("models", "weights") for path in (root / part).rglob("*.toml")]
    total = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tables)
    if total > MAX_TABLES:
        yield f"models + weights: {total} lines of tables, the limit is {MAX_TABLES}"


def _functions(module: Module) -> list[Function]:
    return [node for node in ast.walk(module.tree) if isinstance(node, Function)]


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _arguments(function: Function) -> int:
    given = function.args
    named = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1  # self
    return named + (given.vararg is not None) + (given.kwarg is not None)


def check_names(root: Path) -> Iterator[str]:
    for path in sorted([*root.rglob("*.py"), *(path.parent for path in root.glob("*/**/__init__.py"))]):
        name, where = path.stem, path.relative_to(root).as_posix()
        if name in CATCH_ALL:
            yield f"{where}: name the file after what it holds"
        if name in sys.stdlib_module_names and not name.startswith("__"):
            yield f"{where}: '{name}' is a module of the standard library"


def check_safety(root: Path) -> Iterator[str]:
    """Nothing that runs what a file or a user wrote."""
    for module in modules(root):
        if module.path in MAY_UNPICKLE:
            continue
        for found in module.imports:
            if found.target.split(".")[0] in UNSAFE_IMPORTS or f"{found.target}.{found.name}" in UNSAFE_CALLS:
                yield f"{module.at(found.line)}: import of {found.target} {found.name}".rstrip()
        for line, name, flags in _calls(module.tree):
            if name in UNSAFE_CALLS:
                yield f"{module.at(line)}: call of {name}"
            yield from (f"{module.at(line)}: {flag}=True" for flag in sorted(flags & UNSAFE_FLAGS))


def check_portability(root: Path) -> Iterator[str]:
    """The device is an argument, and Macs and Windows machines are computers too."""
    for module in modules(root):
        for line, name, _ in _calls(module.tree):
            if name.endswith(".cuda"):
                yield f"{module.at(line)}: .cuda(); move tensors to the device that was asked for"
            if name in {"os.fork", "os.forkpty"} and module.path not in POSIX_FILES:
                yield f"{module.at(line)}: {name} exists on POSIX only"
        for found in module.imports:
            if found.target in POSIX_ONLY and module.path not in POSIX_FILES:
                yield f"{module.at(found.line)}: {found.target} exists on POSIX only"


def _calls(tree: ast.Module) -> Iterator[tuple[int, str, set[str]]]:
    """Every call: line, full name with `import x as y` undone, and the keywords given as True."""
    known = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, *rest = ast.unparse(node.func).split(".")
            flags = {item.arg for item in node.keywords if item.arg and ast.unparse(item.value) == "True"}
            yield node.lineno, ".".join([known.get(first, first), *rest]), flags


CHECKS: list[Callable[[Path], Iterator[str]]] = [
    check_arrows,
    check_import_style,
    check_torch_stays_out,
    check_siblings,
    check_loops,
    check_sizes,
    check_median,
    check_budgets,
    check_names,
    check_safety,
    check_portability,
]
