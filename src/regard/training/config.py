"""A run is one TOML file. Every key is here, with its default and its meaning."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.config import require
from regard.text.train import TokenizerConfig
from regard.training.schedule import ScheduleKind

TaskName = Literal[
    "translate", "classify", "tag", "answer", "fill", "generate", "recognise", "caption", "embed", "embed-in-context",
    "sentences", "replaced", "spans",
]  # fmt: skip
"The last three are pre-training: BERT's, ELECTRA's and T5's."


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    train: tuple[str, ...]
    "Tables with a column for each text and for the label (tsv, csv, jsonl, parquet), or line-parallel text files; .gz."
    valid: tuple[str, ...] = ()
    "Sentences to score while training; never trained on."
    test: tuple[str, ...] = ()
    "Sentences to score at the end; the report says if training has seen them."
    columns: tuple[str, ...] = ()
    "Names of the columns, texts first, label last; `#2` is the second of a table without names."
    hold_out: float = 0.0
    "The share of the training rows that is kept for validation where data.valid is empty; a hash of the text decides."
    names: dict[str, str] = field(default_factory=dict)
    "Label in the file -> its name in the model, where the file has numbers or codes."
    numbers: bool = False
    "Whether what is to be foreseen is a number, and not a label."
    max_len: int = 128
    "Longest text in tokens; of pairs that are read together, both."
    shift: int = 0
    "Pixels that a picture is moved at most while it is learnt from, to any side."
    flip: bool = False
    "Whether left and right change places in every other picture that is learnt from."
    erase: int = 0
    "Side of a grey square that covers some place of a picture that is learnt from."
    too_long: Literal["drop", "cut", "error"] = "drop"
    "What becomes of longer ones where they can be left out; a text to be classified is always cut."
    whole_words: bool = False
    "fill, sentences, replaced: whether all pieces of a word are hidden together."
    pack: Literal["no", "rows", "files"] = "no"
    "generate: join texts, and cut windows of just max_len tokens; files: each file is one text, its end is held out."
    memory: int = 0
    "With pack: so many tokens before a window are looked back at, and not learnt from (Transformer-XL)."

    def __post_init__(self) -> None:
        require(0 <= self.hold_out < 1, f"data.hold_out is {self.hold_out}", "expected a share from 0 to below 1")
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        require(not twice, f"data.columns names {', '.join(dict.fromkeys(twice))} twice", "name each column once")
        require(self.max_len >= 1, f"data.max_len is {self.max_len}", "expected at least 1")
        require(0 <= self.memory <= 2**20, f"data.memory is {self.memory}", "expected how many tokens, 0 or more")
        require(
            not self.memory or self.pack != "no",
            f"data.memory is {self.memory}, but texts are not joined",
            'set data.pack to "rows" or "files"',
        )
        for name in ("shift", "erase"):
            value = getattr(self, name)
            require(0 <= value <= 1024, f"data.{name} is {value}", "expected so many pixels, 0 or more")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    steps: int = 10_000
    "Optimizer steps of the whole run."
    epochs: float = 0.0
    "Rounds through the data; where this is not 0, it decides the steps."
    batch_tokens: int = 6_000
    "Tokens of one step, both sides and padding counted; the same on any number of machines."
    accumulate: int = 1
    "Parts that a step is cut into, one after the other, when it does not fit in memory; ranks deal them out."
    optimizer: Literal["adam", "adamw"] = "adamw"
    lr: float = 1e-3
    "The highest learning rate, reached after warm-up."
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    schedule: ScheduleKind = "inverse_sqrt"
    min_lr: float = 0.0
    "What cosine and linear go down to."
    warmup: int = 1_000
    "Steps in which the rate rises; with epochs at most a tenth of all."
    layer_decay: float = 1.0
    "Each layer below the top learns so much slower than the one above it."
    freeze: tuple[str, ...] = ()
    "Beginnings of the names of weights that stay as they are, such as encoder.embed."
    class_weights: Literal["none", "balanced"] = "none"
    "balanced: rows of rare labels count more, so that all labels count alike."
    clip: float = 1.0
    "Longest gradient; longer ones are shortened to it."
    label_smoothing: float = 0.1
    teacher_forcing: float = 1.0
    "Probability that the decoder sees the true word before and not its own."
    teacher: str = ""
    "A trained model whose judgement of each picture is learnt as well as its label: its folder."
    distil: Literal["hard", "soft"] = "hard"
    "What is learnt from the teacher: the label that it would give, or how likely it thinks each."
    temperature: float = 3.0
    "Softens what teacher and pupil say before they are compared; for distil = soft."
    init: Literal["xavier", "normal", "t5", "mimetic"] = "xavier"
    "mimetic is for pictures: attention begins by looking at patches that are near and alike (models/mimetic.py)."
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    "auto takes bf16 where the processor has it."
    save_minutes: float = 10.0
    "A checkpoint at least so often."
    average: int = 5
    "The last checkpoints at a validation that are averaged in the end."
    on_nan: Literal["skip", "stop"] = "skip"
    "What to do with a step whose loss is not a number."
    parallel: Literal["none", "ddp", "fsdp"] = "none"
    "How ranks started by torchrun share the work: ddp has the whole model on each, fsdp a share of it."
    device: Literal["cpu", "cuda"] = "cpu"
    timeout_minutes: float = 10.0
    "How long ranks wait for one that does not answer; then it is named and the run ends."

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "average"):
            require(getattr(self, name) >= 1, f"train.{name} is {getattr(self, name)}", "expected at least 1")
        require(
            self.timeout_minutes > 0, f"train.timeout_minutes is {self.timeout_minutes}", "expected a positive time"
        )
        for name in ("lr", "clip", "eps", "temperature"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"train.{name} is {value}", "expected a positive number")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"train.{name} is {value}", "expected 0 up to, not including, 1")
        for name in ("weight_decay", "warmup", "save_minutes", "min_lr"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"train.{name} is {value}", "expected 0 or more")
        require(0 < self.layer_decay <= 1, f"train.layer_decay is {self.layer_decay}", "expected 0 to 1")
        require(0 <= self.epochs < 1e6, f"train.epochs is {self.epochs}", "expected 0 or more")
        require(0 <= self.label_smoothing < 1, f"train.label_smoothing is {self.label_smoothing}", "expected 0 to 1")
        require(0 < self.teacher_forcing <= 1, f"train.teacher_forcing is {self.teacher_forcing}", "expected 0 to 1")


@dataclass(frozen=True, kw_only=True)
class ValidConfig:
    every: int = 1_000
    "Steps between two validations; 0 validates after each epoch."
    sentences: int = 500
    "How many of the validation sentences are translated; the loss is of all."
    patience: int = 0
    "Stop after so many validations without a better score; 0 never stops early."
    metric: str = ""
    "The score that chooses the best model, such as Matthews; the task's own first one where this is empty."

    def __post_init__(self) -> None:
        for name, least in {"every": 0, "sentences": 0, "patience": 0}.items():
            value = getattr(self, name)
            require(value >= least, f"valid.{name} is {value}", f"expected at least {least}")


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """Adapters (layers/lora.py) instead of the weights themselves; heads that are new are trained as they are."""

    rank: int = 0
    "Of what is added to a weight; 0 trains the weights themselves."
    alpha: float = 16.0
    "Over the rank, the scale of what is added."
    dropout: float = 0.0
    targets: tuple[str, ...] = ("q", "v")
    "Layers that get an adapter: q k v o up down gate."

    def __post_init__(self) -> None:
        require(0 <= self.rank <= 2**14, f"lora.rank is {self.rank}", "expected 0 (none) or more, for example 8")


DECIDED = {
    "vocab_size": "text.vocab_size",
    "max_len": "data.max_len",
    "pad_id": "the tokenizer",
    "start_id": "the tokenizer",
    "eos_ids": "the tokenizer",
}
"Keys of a model that a run takes from elsewhere."


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    task: TaskName = "translate"
    seed: int = 1
    "Order of the data, first weights and dropout are functions of it."
    about: str = ""
    "What the run is, what it should reach, and how long it takes."
    data: DataConfig
    text: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"preset": "transformer-small"})
    "`preset`, or `init`: a trained model to go on from; and any key of its configuration that is to differ."
    train: TrainConfig = field(default_factory=TrainConfig)
    lora: LoraSettings = field(default_factory=LoraSettings)
    valid: ValidConfig = field(default_factory=ValidConfig)

    def __post_init__(self) -> None:
        for name, where in DECIDED.items():
            require(name not in self.model, f"model.{name} is decided by {where}", f"leave it out and set {where}")
        require(not {"preset", "init"} <= self.model.keys(), "model has both preset and init", "give one of them")
        packs = self.data.pack == "no" or self.task == "generate"
        require(packs, f"data.pack is '{self.data.pack}' for {self.task}", "only texts to be continued are joined")
        weighs = self.train.class_weights == "none" or (
            self.task in ("classify", "recognise") and not self.data.numbers
        )
        require(weighs, f"train.class_weights for {self.task}", "only labels of whole texts and pictures are weighed")
        require(not self.lora.rank or "init" in self.model, "lora.rank without model.init", "name what is adapted")
        least, size = self.text.least("translation"), self.text.vocab_size
        hint = f"the kind {self.text.kind} needs at least {least}: special tokens, 256 bytes if it spells, a piece"
        require(size >= least, f"text.vocab_size is {size}", hint)
