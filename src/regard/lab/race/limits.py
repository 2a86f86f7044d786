"""What attention finds hard (Hahn 2020; Bhattamishra et al. 2020): to count modulo two, and to keep a stack; and its
strength, the short path. Trained on short texts, tried on longer ones."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.lab.race.copying import drawn
from regard.lab.race.practice import Pupil, practise
from regard.lab.race.racers import LSTM, TRANSFORMER, Racer, config_of
from regard.lab.race.setting import LONGER, Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.training.step import seed_of

LONGEST, ROWS, TRIED, LEARNT = 16, 32, 256, 0.9
"The longest text in training."
TRIES = (8, 16, 32, 64, 128, 256)
Texts = Callable[[int, int, int], tuple[Tensor, Tensor]]


def parity(n_rows: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bits (B, n), and at each whether the ones so far are odd."""
    bits = torch.randint(2, (n_rows, length), generator=torch.Generator().manual_seed(seed))
    return bits, bits.cumsum(1) % 2


def brackets(n_rows: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """( [ ) ] as 0 to 3, always well nested; at each, which kind is open innermost: 0, 1, or 2 for none."""
    luck = torch.Generator().manual_seed(seed)
    opens = torch.rand((n_rows, length), generator=luck).lt(0.5).tolist()
    kinds = torch.randint(2, (n_rows, length), generator=luck).tolist()
    ids, answers = [], []
    for row_opens, row_kinds in zip(opens, kinds, strict=True):
        stack, row, open_ = list[int](), [], []
        for is_open, kind in zip(row_opens, row_kinds, strict=True):
            if is_open or not stack:
                stack.append(kind)
                row.append(kind)
            else:
                row.append(2 + stack.pop())
            open_.append(stack[-1] if stack else 2)
        ids.append(row)
        answers.append(open_)
    return torch.tensor(ids), torch.tensor(answers)


@torch.inference_mode()
def accuracy(racer: Racer, texts: Texts, length: int, *, seed: int) -> tuple[float, float]:
    """Right at the last token, and what the commonest answer alone would get."""
    ids, answers = texts(TRIED, length, seed_of(seed, -length))
    said, truth = racer.output(ids).logits[:, -1].argmax(-1), answers[:, -1]
    return float((said == truth).float().mean()), float(truth.bincount().max()) / TRIED


def asking(task: str, texts: Texts) -> Callable[[Setting], Iterator[Row]]:
    def ask(setting: Setting) -> Iterator[Row]:
        def batch(racer: Racer, step: int) -> Any:
            length = drawn(setting.seed, step, LONGEST)
            return racer.batch(*texts(ROWS, length, seed_of(setting.seed, step)), 1)

        racers = [Racer(name, config_of(name, setting.size), setting.seed) for name in (LSTM, TRANSFORMER)]
        pupils = [Pupil(f"{task}, {racer.name}", racer, batch) for racer in racers]
        went_on = practise(pupils, setting, setting.until - 0.1 * setting.left)
        for pupil in pupils:
            found = {n: accuracy(pupil.racer, texts, n, seed=setting.seed) for n in TRIES if n <= setting.longest}
            yield {"racer": pupil.racer.name, "found": found, "steps": pupil.steps, "seconds": pupil.seconds}
        if not went_on:
            raise KeyboardInterrupt

    return ask


def answering(task: str, title: str) -> Callable[[list[Row], Setting], list[Sheet]]:
    def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
        table: list[Row] = []
        for row in rows:
            shares = {_length(n): 100 * share for n, (share, _) in row["found"].items()}
            table.append({"": row["racer"], "steps": row["steps"], "cpu s": row["seconds"], **shares})
        chance = {_length(n): 100 * common for n, (_, common) in rows[0]["found"].items()}
        table.append({"": "commonest answer", "steps": None, "cpu s": None, **chance})
        says = [f"Trained on texts of up to {LONGEST} tokens; * marks longer ones."]
        shortest = min(rows[0]["found"])
        if max(row["found"][shortest][0] for row in rows) < LEARNT:
            says.append(f"Even texts of {shortest} tokens are not learnt yet{LONGER}.")
        series = {row[""]: [row[key] for key in chance] for row in table}
        xs = range(len(chance))
        return [Sheet(task, title, table, says, frozenset({"cpu s"}), xs, series, "tokens: 8, 16, 32, 64 ...")]

    return answer


def _length(n: int) -> str:
    return f"{n}{'*' * (n > LONGEST)}"


# ---- paths


KERNEL = 3


def paths(n: int, window: int, kernel: int = KERNEL) -> dict[str, int]:
    """Layers or cells between the first and the last of n tokens (Vaswani et al. 2017, table 1), one way only."""
    dilated, reach = 0, 1
    while reach < n:  # each layer reaches as far as all before it, times the kernel
        dilated, reach = dilated + 1, reach * kernel
    return {
        "attention": 1,
        f"local attention, window {window}": math.ceil((n - 1) / window),
        f"convolution, kernel {kernel}": math.ceil((n - 1) / (kernel - 1)),
        f"dilated convolution, kernel {kernel}": dilated,
        "recurrence": n - 1,
    }


def ask_paths(setting: Setting) -> Iterator[Row]:
    lengths = [n for n in (16, 64, 256, 1024, 4096) if n <= setting.longest] or [setting.longest]
    for name in paths(lengths[0], setting.size.window):
        yield {"": name, **{f"{n:,}": paths(n, setting.size.window)[name] for n in lengths}}


def answer_paths(rows: list[Row], setting: Setting) -> list[Sheet]:
    says = ["Counted, not measured: how often a signal is passed on from the first token to the last."]
    return [Sheet("paths", "Length of the path through so many tokens", rows, says)]


NESTED = "Brackets: which kind is open innermost, % right at the last of so many tokens"
COUNTED = "Parity: an odd number of ones so far, % right at the last of so many tokens"
PARITY = Question("parity", 3.0, asking("parity", parity), answering("parity", COUNTED))
BRACKETS = Question("brackets", 3.0, asking("brackets", brackets), answering("brackets", NESTED))
PATHS = Question("paths", 0.1, ask_paths, answer_paths)
