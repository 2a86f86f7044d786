"""BERT, RoBERTa, DistilBERT and ELECTRA on disk."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.models.bert import Bert, BertConfig
from regard.weights.layout import Architecture, Key, Layout, activation

_CONFIG = {
    "vocab_size": Key("vocab_size", 30_522),
    "hidden_size": Key("d_model", 768),
    "num_hidden_layers": Key("n_layers", 12),
    "num_attention_heads": Key("n_heads", 12),
    "intermediate_size": Key("d_ff", 3072),
    "hidden_act": activation("activation", "gelu"),
    "hidden_dropout_prob": Key("dropout", 0.1),
    "attention_probs_dropout_prob": Key("attn_dropout", 0.1),
    "max_position_embeddings": Key("max_len", 512),
    "type_vocab_size": Key("n_segments", 2),
    "layer_norm_eps": Key("norm_eps", 1e-12),
    "pad_token_id": Key("pad_id", 0),
    "bos_token_id": Key("bos_id"),
    "tie_word_embeddings": Key("tie", True),
}
_REFUSED = {"is_decoder": (False, None), "position_embedding_type": ("absolute", None), "add_cross_attention": (False,)}


def _classifier_dropout(theirs: Mapping[str, Any], _names: Collection[str]) -> dict[str, Any]:
    own = theirs.get("classifier_dropout")
    return {"pooled_heads_dropout": theirs.get("hidden_dropout_prob", 0.1) if own is None else own}


def _body(name: str, layer: str = "encoder.layer.{}") -> dict[str, str]:
    """The encoder's tensors, which all but DistilBERT name alike."""
    return {
        f"{name}.embeddings.word_embeddings": "encoder.embed.token",
        f"{name}.embeddings.position_embeddings": "encoder.embed.position",
        f"{name}.embeddings.token_type_embeddings": "encoder.embed.segment",
        f"{name}.embeddings.LayerNorm": "encoder.embed.norm",
        f"{name}.{layer}.attention.self.query": "encoder.blocks.{}.attn.q",
        f"{name}.{layer}.attention.self.key": "encoder.blocks.{}.attn.k",
        f"{name}.{layer}.attention.self.value": "encoder.blocks.{}.attn.v",
        f"{name}.{layer}.attention.output.dense": "encoder.blocks.{}.attn.o",
        f"{name}.{layer}.attention.output.LayerNorm": "encoder.blocks.{}.attn_residual.norm",
        f"{name}.{layer}.intermediate.dense": "encoder.blocks.{}.ffn.up",
        f"{name}.{layer}.output.dense": "encoder.blocks.{}.ffn.down",
        f"{name}.{layer}.output.LayerNorm": "encoder.blocks.{}.ffn_residual.norm",
    }


_TAG = {"classifier": "heads.tag"}
_SPAN = {"qa_outputs": "heads.span"}
_MASKED_LM = {
    "cls.predictions.transform.dense": "heads.masked_lm.dense",
    "cls.predictions.transform.LayerNorm": "heads.masked_lm.norm",
}
_POOLER = {"bert.pooler.dense": "pooler.dense"}
_NEXT = {"cls.seq_relationship": "heads.next_sentence"}


def _output(head: str) -> Callable[[BertConfig], dict[str, str]]:
    """Tied, transformers keeps the bias beside the output layer; untied, inside it, and the other one is dead."""

    def table(config: BertConfig) -> dict[str, str]:
        if config.tie:
            return {f"{head}.bias": "heads.masked_lm.unembed.bias"}
        return {f"{head}.decoder": "heads.masked_lm.unembed"}

    return table


def _dead_bias(head: str) -> Callable[[BertConfig], dict[str, Tensor]]:
    def constants(config: BertConfig) -> dict[str, Tensor]:
        dead = not config.tie and "masked_lm" in config.heads
        return {f"{head}.bias": torch.zeros(config.vocab_size)} if dead else {}

    return constants


BERT = Layout(
    model_type="bert",
    config_class=BertConfig,
    build=Bert,
    keys=_CONFIG,
    refused=_REFUSED,
    read_more=_classifier_dropout,
    write_more=lambda config: {"classifier_dropout": config.pooled_heads_dropout},
    table=_body("bert"),
    more_tensors=_output("cls.predictions"),
    constants=_dead_bias("cls.predictions"),
    prefix="bert",
    ignored=("bert.embeddings.position_ids", "cls.predictions.decoder", "cls.predictions.bias"),
    architectures={
        "BertModel": Architecture({"heads": (), "pooler": "tanh"}, _POOLER, bare=True),
        "BertForPreTraining": Architecture(
            {"heads": ("masked_lm", "next_sentence"), "pooler": "tanh"}, _POOLER | _MASKED_LM | _NEXT
        ),
        "BertForMaskedLM": Architecture({"heads": ("masked_lm",), "pooler": None}, _MASKED_LM),
        "BertForNextSentencePrediction": Architecture({"heads": ("next_sentence",), "pooler": "tanh"}, _POOLER | _NEXT),
        "BertForSequenceClassification": Architecture(
            {"heads": ("classify",), "pooler": "tanh"}, _POOLER | {"classifier": "heads.classify"}, labelled=True
        ),
        "BertForTokenClassification": Architecture({"heads": ("tag",), "pooler": None}, _TAG, labelled=True),
        "BertForQuestionAnswering": Architecture({"heads": ("span",), "pooler": None}, _SPAN),
    },
)

ROBERTA = replace(
    BERT,
    model_type="roberta",
    keys=_CONFIG
    | {
        "vocab_size": Key("vocab_size", 50_265),
        "max_position_embeddings": Key("max_len", 510, lambda rows: rows - 2, lambda length: length + 2),
        "pad_token_id": Key("pad_id", 1),
        "bos_token_id": Key("bos_id", 0),
    },
    fixed={"position_offset": 2},  # rows 0 and 1 of the positions belong to padding
    refused=_REFUSED | {"pad_token_id": (1, None)},
    table=_body("roberta"),
    more_tensors=_output("lm_head"),
    constants=_dead_bias("lm_head"),
    prefix="roberta",
    ignored=("roberta.embeddings.position_ids", "lm_head.decoder", "lm_head.bias"),
    architectures={
        "RobertaForMaskedLM": Architecture(
            {"heads": ("masked_lm",), "pooler": None},
            {"lm_head.dense": "heads.masked_lm.dense", "lm_head.layer_norm": "heads.masked_lm.norm"},
        ),
        "RobertaModel": Architecture(
            {"heads": (), "pooler": "tanh"}, {"roberta.pooler.dense": "pooler.dense"}, bare=True
        ),
        "RobertaForSequenceClassification": Architecture(
            {"heads": ("classify",), "pooler": "tanh"},
            {"classifier.dense": "pooler.dense", "classifier.out_proj": "heads.classify"},
            labelled=True,
        ),
        "RobertaForTokenClassification": Architecture({"heads": ("tag",), "pooler": None}, _TAG, labelled=True),
        "RobertaForQuestionAnswering": Architecture({"heads": ("span",), "pooler": None}, _SPAN),
    },
)

ELECTRA = replace(
    BERT,
    model_type="electra",
    keys=_CONFIG
    | {
        "embedding_size": Key("d_embed", 128),
        "hidden_size": Key("d_model", 256),
        "num_attention_heads": Key("n_heads", 4),
        "intermediate_size": Key("d_ff", 1024),
    },
    more_tensors=lambda config: {},
    constants=lambda config: {},
    table=_body("electra") | {"electra.embeddings_project": "encoder.embed.project"},
    prefix="electra",
    ignored=("electra.embeddings.position_ids", "generator_lm_head"),
    architectures={
        "ElectraForPreTraining": Architecture(
            {"heads": ("replaced_token",), "pooler": None},
            {
                "discriminator_predictions.dense": "heads.replaced_token.dense",
                "discriminator_predictions.dense_prediction": "heads.replaced_token.out",
            },
        ),
        "ElectraForMaskedLM": Architecture(
            {"heads": ("masked_lm",), "pooler": None},
            {
                "generator_predictions.dense": "heads.masked_lm.dense",
                "generator_predictions.LayerNorm": "heads.masked_lm.norm",
                "generator_lm_head": "heads.masked_lm.unembed",
            },
        ),
        "ElectraModel": Architecture({"heads": (), "pooler": None}, bare=True),
        "ElectraForSequenceClassification": Architecture(
            {"heads": ("classify",), "pooler": "gelu"},
            {"classifier.dense": "pooler.dense", "classifier.out_proj": "heads.classify"},
            labelled=True,
        ),
        "ElectraForTokenClassification": Architecture({"heads": ("tag",), "pooler": None}, _TAG, labelled=True),
        "ElectraForQuestionAnswering": Architecture({"heads": ("span",), "pooler": None}, _SPAN),
    },
)

_LAYER = "distilbert.transformer.layer.{}"
DISTILBERT = Layout(
    model_type="distilbert",
    config_class=BertConfig,
    build=Bert,
    keys={
        "vocab_size": Key("vocab_size", 30_522),
        "dim": Key("d_model", 768),
        "n_layers": Key("n_layers", 6),
        "n_heads": Key("n_heads", 12),
        "hidden_dim": Key("d_ff", 3072),
        "activation": activation("activation", "gelu"),
        "dropout": Key("dropout", 0.1),
        "attention_dropout": Key("attn_dropout", 0.1),
        "max_position_embeddings": Key("max_len", 512),
        "pad_token_id": Key("pad_id", 0),
        "seq_classif_dropout": Key("pooled_heads_dropout", 0.2),
        "tie_word_embeddings": Key("tie", True),
        "bos_token_id": Key("bos_id"),
    },
    fixed={"n_segments": 0, "norm_eps": 1e-12},
    table={
        "distilbert.embeddings.word_embeddings": "encoder.embed.token",
        "distilbert.embeddings.position_embeddings": "encoder.embed.position",
        "distilbert.embeddings.LayerNorm": "encoder.embed.norm",
        f"{_LAYER}.attention.q_lin": "encoder.blocks.{}.attn.q",
        f"{_LAYER}.attention.k_lin": "encoder.blocks.{}.attn.k",
        f"{_LAYER}.attention.v_lin": "encoder.blocks.{}.attn.v",
        f"{_LAYER}.attention.out_lin": "encoder.blocks.{}.attn.o",
        f"{_LAYER}.sa_layer_norm": "encoder.blocks.{}.attn_residual.norm",
        f"{_LAYER}.ffn.lin1": "encoder.blocks.{}.ffn.up",
        f"{_LAYER}.ffn.lin2": "encoder.blocks.{}.ffn.down",
        f"{_LAYER}.output_layer_norm": "encoder.blocks.{}.ffn_residual.norm",
    },
    prefix="distilbert",
    ignored=("vocab_projector",),
    architectures={
        "DistilBertForMaskedLM": Architecture(
            {"heads": ("masked_lm",), "pooler": None},
            {
                "vocab_transform": "heads.masked_lm.dense",
                "vocab_layer_norm": "heads.masked_lm.norm",
                "vocab_projector": "heads.masked_lm.unembed",
            },
        ),
        "DistilBertModel": Architecture({"heads": (), "pooler": None}, bare=True),
        "DistilBertForSequenceClassification": Architecture(
            {"heads": ("classify",), "pooler": "relu"},
            {"pre_classifier": "pooler.dense", "classifier": "heads.classify"},
            labelled=True,
        ),
        "DistilBertForTokenClassification": Architecture({"heads": ("tag",), "pooler": None}, _TAG, labelled=True),
        "DistilBertForQuestionAnswering": Architecture({"heads": ("span",), "pooler": None}, _SPAN),
    },
)

LAYOUTS = (BERT, ROBERTA, ELECTRA, DISTILBERT)
