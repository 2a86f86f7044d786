"""Opening the model that a verb was given, and saying what of its config.json was not understood."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import QUOTED, USAGE, UserError, cut
from regard.pretrained.bundled import by_name, near_name, usual

if TYPE_CHECKING:
    from regard.weights.precision import Precision

T = TypeVar("T")

HARMLESS = {
    "who wrote it, with what, and for what": """
        transformers_version torch_dtype dtype transformers.js_config unsloth_fixed unsloth_version is_llama_config
        tokenizer_class finetuning_task task_specific_params label2id num_labels language""",
    "how it is run or trained": """
        use_cache output_past output_attentions output_hidden_states return_dict use_return_dict torchscript
        use_bfloat16 gradient_checkpointing chunk_size_feed_forward reorder_and_upcast_attn pretraining_tp
        initializer_range initializer_factor init_std encoder_layerdrop decoder_layerdrop classifier_dropout
        classif_dropout qa_dropout""",
    "how texts are written with it": """
        max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty
        temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size prefix
        encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate
        forced_bos_token_id forced_eos_token_id force_bos_token_to_be_generated remove_invalid_values
        exponential_decay_length_penalty suppress_tokens begin_suppress_tokens sep_token_id""",
    "said a second time, or an older spelling of what was read": """
        is_encoder_decoder tie_word_embeddings tie_encoder_decoder tie_weights_ num_hidden_layers n_ctx dense_act_fn
        is_gated_act rope_theta rope_scaling sliding_window max_window_layers layer_types pooler_output_size""",
    "what transformers does not compute with either": """
        summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type
        summary_use_proj directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_type
        pooler_size_per_head add_bias_logits add_final_layer_norm normalize_before normalize_embedding
        static_position_embeddings extra_pos_embeddings sinusoidal_pos_embds encoder_stride rope_interleaved
        cross_attention_hidden_size""",
}
"Keys of config.json that are not read and do not change a number, by the reason."
OFF: dict[str, tuple[Any, ...]] = {"is_decoder": (False,), "add_cross_attention": (False,), "pooler_act": ("tanh",)}
"Keys that change a number unless they have such a value."


PRECISIONS = ("auto", "fp32", "bf16", "fp16", "int8")
precision_option = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="auto",
    show_default=True,
    help="Bits of the weights: auto takes what is fastest here, mostly int8 (see docs/speed.md).",
)

GIVE = "give the model's directory, a .gguf file, or hf:owner/name"


@contextmanager
def opening(model: str | None, task: str = "Translator") -> Iterator[None]:
    """What is wrong with a name is said at once; after that torch is imported and weights are read, with a sign of it.

    Without a model it is what is bundled or installed for the task.
    """
    check_name(usual(task) if model is None else model)
    with waiting(f"opening {model or 'the model'}"):
        yield


def check_name(model: str) -> None:
    """Only what needs no torch; whatever is there is looked at when it is opened."""
    if not model.strip():
        raise UserError("the name of the model is empty", "give a directory or hf:owner/name", exit_code=USAGE)
    with suppress(OSError, RuntimeError):  # a name too long, an unknown ~user: told when it is opened
        if not model.startswith("hf:") and not Path(by_name(model)).expanduser().exists():
            hint = fetchable(model) or near_name(model) or GIVE
            raise UserError(f"there is no model at '{cut(model, QUOTED)}'", hint)


def fetchable(model: str) -> str:
    """How to come by it, where it is a name that `regard get` knows."""
    from regard.data.catalogue import read_catalogue

    known = read_catalogue().models
    return f"`regard get {model}` fetches it and prints the folder to give instead" if model in known else ""


def open_task(model: str | None, task: type[T], precision: str = "auto") -> T:
    """The model as this task; without one, what is bundled or installed for it."""
    from regard.tasks.load import load_task

    path = find_model(usual(task.__name__) if model is None else model)
    return load_task(path, task, told_precision(precision, path))


def open_any(model: str | None, precision: str = "auto") -> Any:
    """The model as the task that it is made for; without one, the bundled translator."""
    from regard.tasks.load import load

    path = find_model(usual("Translator") if model is None else model)
    return load(path, precision=told_precision(precision, path))


def told_precision(asked: str, path: Path) -> "Precision":
    """What is taken for the model; where that was left to us and is not what the file holds, it is said."""
    from regard.weights.precision import chosen, is_lossless

    found = chosen(asked, path)
    if asked == "auto" and not is_lossless(found, path):
        tell(f"weights in {found}, which is faster here (--precision fp32 keeps the file's numbers)")
    return found


def find_model(model: str) -> Path:
    """The directory or file that is meant; keys of its config.json that nobody here knows are named on stderr."""
    check_name(model)
    from regard.weights.store import locate

    path = locate(by_name(model))
    if unread := unread_keys(path):
        names = ", ".join(key[:40] if key.isprintable() else ascii(key[:40]) for key in unread[:10])
        more = f" and {len(unread) - 10} more" if unread[10:] else ""
        tell(f"config.json has keys this version does not know: {names}{more}; they were ignored")
    return path


class Reading(dict[str, Any]):
    """Settings that remember which of them were asked for."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


def unread_keys(path: Path) -> list[str]:
    """Keys of config.json that nothing here reads though they might change the numbers."""
    from regard.weights.fit import described_by
    from regard.weights.store import home_of, read_layout

    with suppress(UserError), described_by(path):  # what is wrong with the file is told when it is opened
        if (home := home_of(path)).is_dir():
            settings, layout = read_layout(home)
            theirs = Reading(settings)
            known = layout.write(layout.read(theirs)).keys() | theirs.asked | set(" ".join(HARMLESS.values()).split())
            unread = (key for key in theirs.keys() - known if not key.startswith("_"))
            return sorted(key for key in unread if theirs[key] not in (None, [], {}, *OFF.get(key, ())))
    return []
