"""Every published size builds on the meta device, for nothing, and has the published number of parameters."""

import time
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import UserError
from regard.models.electra import Electra, ElectraConfig
from regard.models.registry import FAMILIES, build_preset, find_preset

MILLION, BILLION = 10**6, 10**9

EXACT = {
    # The weights as published, counted: the parameter count Hugging Face shows for the checkpoint, or what the
    # reference code prints for the same sizes. Heads that the checkpoint has and ours has too are included.
    "bert-base": 110_106_428,  # BertForPreTraining, google-bert/bert-base-uncased
    "bert-large": 336_226_108,  # BertForPreTraining, google-bert/bert-large-uncased
    "minilm-l6": 22_713_216,  # sentence-transformers/all-MiniLM-L6-v2
    "roberta-base": 124_697_433,  # RobertaForMaskedLM, FacebookAI/roberta-base
    "distilbert-base": 66_985_530,  # DistilBertForMaskedLM, distilbert/distilbert-base-uncased
    "electra-small": 13_549_057,  # ElectraForPreTraining, google/electra-small-discriminator
    "gpt": 116_534_784,  # OpenAIGPTLMHeadModel, openai-community/openai-gpt
    "gpt2": 124_439_808,  # openai-community/gpt2
    "gpt2-medium": 354_823_168,  # openai-community/gpt2-medium
    "gpt2-large": 774_030_080,  # openai-community/gpt2-large
    "gpt2-xl": 1_557_611_200,  # openai-community/gpt2-xl
    "llama2-7b": 6_738_415_616,  # meta-llama/Llama-2-7b-hf
    "llama3.1-8b": 8_030_261_248,  # meta-llama/Llama-3.1-8B
    "tinyllama-1.1b": 1_100_048_384,  # TinyLlama/TinyLlama-1.1B-Chat-v1.0
    "smollm2-135m": 134_515_008,  # HuggingFaceTB/SmolLM2-135M
    "smollm2-360m": 361_821_120,  # HuggingFaceTB/SmolLM2-360M
    "qwen2-0.5b": 494_032_768,  # Qwen/Qwen2-0.5B
    "t5-small": 60_506_624,  # google-t5/t5-small
    "t5-base": 222_903_552,  # google-t5/t5-base
    "t5-large": 737_668_096,  # google-t5/t5-large
    "t5-v1.1-small": 76_961_152,  # google/t5-v1_1-small
    "t5-v1.1-base": 247_577_856,  # google/t5-v1_1-base
    "vit-tiny": 5_717_416,  # timm vit_tiny_patch16_224
    "vit-small": 22_050_664,  # timm vit_small_patch16_224
    "vit-base": 86_567_656,  # google/vit-base-patch16-224
    "vit-large": 304_326_632,  # google/vit-large-patch16-224
    "deit-tiny": 5_910_800,  # facebook/deit-tiny-distilled-patch16-224
    "deit-base": 87_338_192,  # facebook/deit-base-distilled-patch16-224
}

ROUNDED = {
    # As the papers print it, and how far from it we may be.
    "bert-base": (110 * MILLION, 0.01),  # Devlin et al. 2018, section 3
    "bert-large": (340 * MILLION, 0.02),  # Devlin et al. 2018, section 3
    "roberta-base": (125 * MILLION, 0.01),  # fairseq, examples/roberta/README.md
    "distilbert-base": (66 * MILLION, 0.02),  # Sanh et al. 2019, table 3
    "electra-small": (14 * MILLION, 0.04),  # Clark et al. 2020, table 1
    "electra-base": (110 * MILLION, 0.02),  # Clark et al. 2020, table 1
    "electra-large": (335 * MILLION, 0.01),  # Clark et al. 2020, table 2
    "gpt": (117 * MILLION, 0.01),  # Radford et al. 2019, the smallest of table 2 "equivalent to the original GPT"
    "gpt2-xl": (1.558 * BILLION, 0.001),  # Radford et al. 2019, released as 1558M
    "gpt3": (175 * BILLION, 0.01),  # Brown et al. 2020, table 2.1
    "transformer-base": (65 * MILLION, 0.03),  # Vaswani et al. 2017, table 3
    "transformer-big": (213 * MILLION, 0.01),  # Vaswani et al. 2017, table 3
    "pegasus-large": (568 * MILLION, 0.01),  # Zhang et al. 2019
    "bart-base": (140 * MILLION, 0.01),  # fairseq, examples/bart/README.md
    "t5-small": (60 * MILLION, 0.01),  # Raffel et al. 2020, section 3.7
    "t5-base": (220 * MILLION, 0.02),  # Raffel et al. 2020, section 3.7
    "t5-large": (770 * MILLION, 0.05),  # Raffel et al. 2020, section 3.7
    "vit-base": (86 * MILLION, 0.01),  # Dosovitskiy et al. 2020, table 1
    "vit-large": (307 * MILLION, 0.01),  # Dosovitskiy et al. 2020, table 1
    "char-gpt": (0.8 * MILLION, 0.02),  # nanoGPT, README: the model for a CPU
}


def on_meta(name: str) -> Any:
    return build_preset(name, device="meta")


@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_those_of_the_published_weights(name: str) -> None:
    assert on_meta(name).n_parameters == EXACT[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_those_of_the_paper(name: str) -> None:
    published, tolerance = ROUNDED[name]
    assert on_meta(name).n_parameters == pytest.approx(published, rel=tolerance)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("marian-base", 74_410_496 - 2 * 512 * 512),  # Helsinki-NLP/opus-mt-en-de; it counts two tables of sinusoids
        ("bart-base", 139_420_416),  # facebook/bart-base
    ],
)
def test_parameters_are_those_of_published_weights_whose_output_bias_is_not_learned(name: str, published: int) -> None:
    model = on_meta(name)
    assert model.n_parameters - model.unembed.bias.numel() == published


def test_bert_without_heads_has_the_bare_models_parameters() -> None:
    """BertModel of google-bert/bert-base-uncased: 109,482,240; bert-large-uncased: 335,141,888."""
    for name, published in {"bert-base": 109_482_240, "bert-large": 335_141_888}.items():
        model = on_meta(name)
        assert model.n_parameters - sum(p.numel() for p in model.heads.parameters()) == published


def test_the_electra_pair_counts_its_shared_table_once() -> None:
    generator, discriminator = on_meta("electra-small-generator"), on_meta("electra-small")
    with torch.device("meta"):
        pair = Electra(ElectraConfig(generator=generator.config, discriminator=discriminator.config))
    assert pair.n_parameters == generator.n_parameters + discriminator.n_parameters - 30_522 * 128


class Allocations(TorchDispatchMode):
    """Bytes of every tensor made on a real device."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        if isinstance(out, Tensor) and not out.is_meta:
            self.bytes += out.nbytes
        return out


@pytest.mark.parametrize("name", [name for family in FAMILIES.values() for name in family.presets])
def test_building_on_meta_is_quick_and_allocates_nothing(name: str) -> None:
    with Allocations() as allocations:
        begin = time.process_time()
        model = on_meta(name)
        seconds = time.process_time() - begin
    assert allocations.bytes == 0
    assert seconds < 2
    assert all(x.is_meta for x in [*model.parameters(), *model.buffers()])


def test_every_preset_has_one_name_and_every_family_has_presets() -> None:
    for family in FAMILIES.values():
        assert family.presets
        assert all(find_preset(name) == (family, config) for name, config in family.presets.items())


def test_an_unknown_preset_offers_the_nearest() -> None:
    with pytest.raises(UserError, match="bert-base"):
        build_preset("bert-bas")
