"""What sentence-transformers' files beside a model say about its vectors; what would change them is obeyed or refused.

They are modules.json, the Pooling module's config.json, sentence_bert_config.json (with its namesakes for other
families), config_sentence_transformers.json, and of tokenizer_config.json where texts are cut.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.inputs import read_input_settings
from regard.errors import QUOTED, UserError, cut
from regard.files import read_json, read_json_object
from regard.tasks.pooling import MODES

_FAMILIES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_ORDERS = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"The Pooling module's keys of old: one for each mode, where today `pooling_mode` names them."
_PLAIN: dict[str, tuple[Any, ...]] = {
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "tokenizer_args": (None, {}),
    "processor_kwargs": (None, {}),
    "config_args": (None, {}),
    "config_kwargs": (None, {}),
}
"Keys of the Transformer module that could give other vectors, and the values that do not."


@dataclass(frozen=True)
class SentenceSettings:
    modes: tuple[str, ...] = ("mean",)
    "How the vectors of the tokens become one; several are joined end to end."
    normalise: bool = True
    max_len: int | None = None
    "Longer texts are cut; None takes all that the model can."
    cut_left: bool = False
    "Whether the beginning of a text that is too long is cut off, and not its end."
    lowercase: bool = False
    prompt: str = ""
    "What is put before each text."
    include_prompt: bool = True
    "Whether the tokens of the prompt are pooled too."
    width: int | None = None
    "Numbers of a vector that are kept; None keeps all."


def read_sentence_settings(directory: Path) -> SentenceSettings:
    """As the model's own files say; a plain mean where there is no modules.json."""
    given = read_input_settings(directory)
    if not (directory / "modules.json").exists():
        return SentenceSettings(max_len=given.max_len, cut_left=given.cut_left)
    folder, normalise = _modules(directory / "modules.json")
    modes, include_prompt = _pooling(directory / folder / "config.json")
    stated, lowercase = _transformer(directory)
    prompt, width = _whole(directory / "config_sentence_transformers.json")
    return SentenceSettings(
        modes, normalise, stated or given.max_len, given.cut_left, lowercase, prompt, include_prompt, width
    )


def _modules(path: Path) -> tuple[str, bool]:
    """The folder of the Pooling module, and whether vectors are normalised."""
    try:
        rows = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in read_json(path)]
    except (TypeError, KeyError) as error:
        raise UserError(f"{path} is not a list of modules", "each is an object with 'type' and 'path'") from error
    for _, folder in rows:
        if folder != Path(folder).name and folder:
            raise UserError(f"{path} names the folder {folder!r}", "a module's folder stands beside modules.json")
    kinds = [kind for kind, _ in rows]
    if unknown := [kind for kind in kinds if kind not in _ORDERS[1]]:
        hint = f"regard knows {', '.join(_ORDERS[1])}; without the others the vectors would be different ones"
        raise UserError(f"{path}: the module {unknown[0][:60]!r} is not supported", hint)
    if kinds not in _ORDERS or rows[0][1]:
        found = ", ".join(f"{kind} in {folder!r}" for kind, folder in rows)
        hint = "expected Transformer in '', Pooling and, where vectors are normalised, Normalize, in this order"
        raise UserError(f"{path}: the modules are {found or 'none'}", hint)
    return rows[1][1], len(rows) == 3


def _pooling(path: Path) -> tuple[tuple[str, ...], bool]:
    config = read_json_object(path)
    if strange := [key for key in config if key.startswith("pooling_mode_") and key not in _SWITCHES]:
        raise _refusal(path, strange[0], config[strange[0]], f"the keys are {', '.join(_SWITCHES)}")
    on = [mode for key, mode in _SWITCHES.items() if config.get(key)]
    named = config.get("pooling_mode", on or "mean")
    modes = tuple(named) if isinstance(named, list) else (named,)
    if not modes or not all(isinstance(mode, str) and mode in MODES for mode in modes):
        raise _refusal(path, "pooling_mode", named, f"expected one or a list of {', '.join(MODES)}")
    include = config.get("include_prompt", True)
    if not isinstance(include, bool):
        raise _refusal(path, "include_prompt", include, "expected true or false")
    return modes, include


def _transformer(directory: Path) -> tuple[int | None, bool]:
    """The longest text in tokens, where one is said, and whether texts are lower-cased."""
    paths = [directory / f"sentence_{family}_config.json" for family in _FAMILIES]
    path = next((path for path in paths if path.exists()), paths[0])
    config = _optional(path)
    for key, plain in _PLAIN.items():
        if config.get(key) not in plain:
            raise _refusal(path, key, config[key], "not supported: the vectors would be different ones")
    modality = (config.get("modality_config") or {"text": {}}).get("text", {})
    if modality.get("method_output_name", "last_hidden_state") != "last_hidden_state":
        raise _refusal(path, "modality_config", modality, "regard pools the last hidden states")
    longest, lowercase = config.get("max_seq_length"), config.get("do_lower_case") or False
    if longest is not None and (type(longest) is not int or longest < 1):
        raise _refusal(path, "max_seq_length", longest, "expected a positive number or null")
    if not isinstance(lowercase, bool):
        raise _refusal(path, "do_lower_case", lowercase, "expected true or false")
    return longest, lowercase


def _whole(path: Path) -> tuple[str, int | None]:
    """The prompt that is put before each text, and how many numbers of a vector are kept."""
    config = _optional(path)
    prompts, name, width = config.get("prompts") or {}, config.get("default_prompt_name"), config.get("truncate_dim")
    if not isinstance(prompts, dict):
        raise _refusal(path, "prompts", prompts, "expected an object {name: text}")
    prompts = {"query": "", "document": "", **prompts}  # these two exist always
    if name is not None and not (isinstance(name, str) and isinstance(prompts.get(name), str)):
        raise _refusal(path, "default_prompt_name", name, "expected the name of a text in `prompts`")
    if width is not None and (type(width) is not int or width < 1):
        raise _refusal(path, "truncate_dim", width, "expected a positive number or null")
    return "" if name is None else prompts[name], width


def _refusal(path: Path, key: str, found: object, expected: str) -> UserError:
    return UserError(f"{path}: {key} is {cut(repr(found), QUOTED)}", expected)


def _optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() else {}
