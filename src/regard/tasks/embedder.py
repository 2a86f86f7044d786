"""One vector per text: texts that mean the same have vectors that point the same way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import UserError
from regard.files import read_json, read_json_object
from regard.inspection.summary import Summary, summarise
from regard.models.bert import Bert
from regard.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096
"Tokens, with padding, that go through the model at once."

PoolKind = Literal["first", "mean", "last"]

_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLING: dict[str, PoolKind] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
_POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
    "max": "pooling_mode_max_tokens",
    "sqrt": "pooling_mode_mean_sqrt_len_tokens",
}


@dataclass(frozen=True)
class Pooling:
    """How the vectors of the tokens become one."""

    kind: PoolKind = "mean"
    normalise: bool = True
    max_len: int | None = None
    "Longer texts are cut; None takes all that the model can."


def read_pooling(directory: Path) -> Pooling:
    """As the model's own configuration says (sentence-transformers' modules.json); a plain mean where it is silent."""
    if not (directory / "modules.json").exists():
        return Pooling()
    modules = {kind.rpartition(".")[2]: path for kind, path in _modules(directory / "modules.json")}
    if unknown := [kind for kind in modules if kind not in _MODULES]:
        hint = f"regard knows {', '.join(_MODULES)}; without the others the vectors would be different ones"
        raise UserError(f"{directory / 'modules.json'}: the module {unknown[0][:60]!r} is not supported", hint)
    pooling = _optional(directory / modules.get("Pooling", "1_Pooling") / "config.json")
    modes = [name for name, key in _POOLING_KEYS.items() if pooling.get(key)]
    named = pooling.get("pooling_mode")
    modes = [named] if named in _POOLING else modes or ["mean"]
    if len(modes) != 1 or modes[0] not in _POOLING:
        raise UserError(f"{directory}: the pooling is not one of {', '.join(_POOLING)}", "see 1_Pooling/config.json")
    max_len = _optional(directory / "sentence_bert_config.json").get("max_seq_length")
    return Pooling(_POOLING[modes[0]], "Normalize" in modules, max_len if isinstance(max_len, int) else None)


def _modules(path: Path) -> list[tuple[str, str]]:
    modules = read_json(path)
    try:
        rows = [(str(module["type"]), str(module["path"])) for module in modules]
    except (TypeError, KeyError) as error:
        raise UserError(f"{path} is not a list of modules") from error
    for _, folder in rows:
        if folder != Path(folder).name and folder:
            raise UserError(f"{path} names the folder {folder!r}", "a module's folder stands beside modules.json")
    return rows


def _optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() else {}


class Embedder:
    """`embed(["a text", "another"])` gives a float32 array with one row a text."""

    def __init__(self, model: Bert, tokenizer: Tokenizer, pooling: Pooling) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.max_len = min(pooling.max_len or model.config.max_len, model.config.max_len)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], *, first: int = 1) -> NDArray[np.float32]:
        """`first` is the number of the first text, for whoever gives them in portions and wants errors to count on."""
        if isinstance(texts, str):
            raise UserError("one text was given where a list is expected", "write embed([text])")
        rows = [self._cut(encoding.ids) for encoding in self.tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(rows), self.model.config.d_model), dtype=np.float32)
        for batch in batches(rows):
            vectors[batch] = self._run([rows[i] for i in batch])
        if (broken := ~np.isfinite(vectors).all(axis=1)).any():
            raise UserError(
                f"input line {first + int(broken.argmax())}: the model's weights give no number (NaN or infinity)",
                "the weights are damaged: get the model again; `regard convert --check-finite` names the tensors",
            )
        return vectors

    def _cut(self, ids: list[int]) -> list[int]:
        """Too long: keep the beginning and the closing special token."""
        return ids if len(ids) <= self.max_len else [*ids[: self.max_len - 1], ids[-1]]

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        valid = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            valid[i, : len(row)] = True
        mask = None if bool(valid.all()) else valid.to(self.model.device)
        pooled = self.model.vectors(ids.to(self.model.device), mask, self.pooling.kind)
        if self.pooling.normalise:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        return pooled.float().cpu().numpy()

    def summary(self) -> Summary:
        return summarise(self.model)


def batches(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Row numbers in groups of like length: little padding, a bounded number of tokens."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    groups: list[list[int]] = []
    for i in order:
        if not groups or (len(groups[-1]) + 1) * len(rows[i]) > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(i)
    return groups
