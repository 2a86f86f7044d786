"""All families by name: what they are, their published sizes (presets/*.toml), and how to build one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.config import build, read_toml
from regard.errors import pick
from regard.models import bert, captioner, convnet, elmo, gpt, recurrent, transformer, vit, wordvectors
from regard.models.base import Model, ModelConfig, without_memory


@dataclass(frozen=True)
class Family:
    name: str
    build: Callable[[Any], Model]
    config: type[ModelConfig]

    @cached_property
    def presets(self) -> Mapping[str, ModelConfig]:
        """Published sizes; `like` in the file names the size that one is derived from."""
        path = Path(__file__).parent / "presets" / f"{self.name}.toml"
        tables: dict[str, dict[str, Any]] = {}
        for name, table in read_toml(path).items():
            tables[name] = {**tables.get(table.pop("like", ""), {}), **table}
        return {name: build(self.config, table, f"{path.name}: {name}") for name, table in tables.items()}


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("transformer", transformer.Transformer, transformer.TransformerConfig),
        Family("t5", transformer.Transformer, transformer.TransformerConfig),
        Family("bert", bert.Bert, bert.BertConfig),
        Family("electra", bert.Bert, bert.BertConfig),
        Family("gpt", gpt.Gpt, gpt.GptConfig),
        Family("llama", gpt.Gpt, gpt.GptConfig),
        Family("vit", vit.Vit, vit.VitConfig),
        Family("captioner", captioner.Captioner, captioner.CaptionerConfig),
        Family("convnet", convnet.Convnet, convnet.ConvnetConfig),
        Family("recurrent", recurrent.build, recurrent.RecurrentConfig),
        Family("wordvectors", wordvectors.WordVectorModel, wordvectors.WordVectorsConfig),
        Family("elmo", elmo.Elmo, elmo.ElmoConfig),
    )
}


def find_preset(name: str) -> tuple[Family, ModelConfig]:
    presets = {preset: family for family in FAMILIES.values() for preset in family.presets}
    family = pick(name, presets, "preset", listing="regard list presets")
    return family, family.presets[name]


def build_preset(name: str, *, device: str = "cpu") -> Model:
    """A fresh model of a published size; on the device `meta` it costs nothing, whatever the size."""
    family, config = find_preset(name)
    with without_memory() if device == "meta" else torch.device(device):
        return family.build(config)
