"""Tiny random transformers models that exercise every option of every layout, as (class, configuration) by name."""

from typing import Any

import transformers as hf

VOCAB, LENGTH = 37, 24

_BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": LENGTH,
}
_SEQ2SEQ = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": LENGTH,
    "pad_token_id": VOCAB - 1,
    "eos_token_id": 0,
    "decoder_start_token_id": VOCAB - 1,
    "bos_token_id": None,
    "forced_eos_token_id": None,
}
_LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": LENGTH,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_T5 = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
}
_VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 12,
    "patch_size": 4,
    "num_labels": 5,
}
_GPT2 = {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def _bert(cls: str, **options: Any) -> tuple[str, Any]:
    return cls, hf.BertConfig(**_BERT | options)


def _roberta(cls: str, **options: Any) -> tuple[str, Any]:
    return cls, hf.RobertaConfig(**_BERT | {"type_vocab_size": 1, "max_position_embeddings": LENGTH + 2} | options)


def _electra(cls: str, **options: Any) -> tuple[str, Any]:
    return cls, hf.ElectraConfig(**_BERT | {"embedding_size": 8} | options)


def _distilbert(cls: str, **options: Any) -> tuple[str, Any]:
    sizes = {"vocab_size": VOCAB, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    return cls, hf.DistilBertConfig(**sizes | {"max_position_embeddings": LENGTH} | options)


def _gpt2(cls: str, **options: Any) -> tuple[str, Any]:
    return cls, hf.GPT2Config(**_GPT2 | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0} | options)


def _gpt(cls: str, **options: Any) -> tuple[str, Any]:
    sizes = {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH}
    return cls, hf.OpenAIGPTConfig(**sizes | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0} | options)


ENCODERS = {
    "bert bare": _bert("BertModel"),
    "bert pre-training": _bert("BertForPreTraining"),
    "bert masked lm, relu": _bert("BertForMaskedLM", hidden_act="relu"),
    "bert masked lm, untied": _bert("BertForMaskedLM", tie_word_embeddings=False),
    "bert next sentence": _bert("BertForNextSentencePrediction"),
    "bert classification": _bert("BertForSequenceClassification", num_labels=3),
    "bert tags": _bert("BertForTokenClassification", num_labels=4),
    "bert span, tanh-gelu": _bert("BertForQuestionAnswering", hidden_act="gelu_new"),
    "roberta bare": _roberta("RobertaModel"),
    "roberta masked lm": _roberta("RobertaForMaskedLM"),
    "roberta masked lm, relu": _roberta("RobertaForMaskedLM", hidden_act="relu"),
    "roberta classification": _roberta("RobertaForSequenceClassification"),
    "roberta tags": _roberta("RobertaForTokenClassification"),
    "roberta span": _roberta("RobertaForQuestionAnswering"),
    "distilbert bare": _distilbert("DistilBertModel"),
    "distilbert masked lm": _distilbert("DistilBertForMaskedLM"),
    "distilbert classification": _distilbert("DistilBertForSequenceClassification"),
    "distilbert tags": _distilbert("DistilBertForTokenClassification"),
    "distilbert span": _distilbert("DistilBertForQuestionAnswering"),
    "electra bare": _electra("ElectraModel"),
    "electra bare, wide embedding": _electra("ElectraModel", embedding_size=16),
    "electra discriminator": _electra("ElectraForPreTraining"),
    "electra generator": _electra("ElectraForMaskedLM"),
    "electra generator, relu": _electra("ElectraForMaskedLM", hidden_act="relu"),
    "electra classification": _electra("ElectraForSequenceClassification"),
    "electra tags": _electra("ElectraForTokenClassification"),
    "electra span": _electra("ElectraForQuestionAnswering"),
}

DECODERS = {
    "gpt2": _gpt2("GPT2LMHeadModel"),
    "gpt2 untied, relu, narrow": _gpt2(
        "GPT2LMHeadModel", tie_word_embeddings=False, activation_function="relu", n_inner=20
    ),
    "gpt": _gpt("OpenAIGPTLMHeadModel"),
    "gpt untied, silu": _gpt("OpenAIGPTLMHeadModel", tie_word_embeddings=False, afn="silu"),
    "llama": ("LlamaForCausalLM", hf.LlamaConfig(**_LLAMA)),
    "llama grouped, tied, biases": (
        "LlamaForCausalLM",
        hf.LlamaConfig(**_LLAMA, num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    ),
    "llama one key head, wide heads, llama3 rope": (
        "LlamaForCausalLM",
        hf.LlamaConfig(**_LLAMA, num_key_value_heads=1, head_dim=6, rope_parameters=_LLAMA3),
    ),
    "llama linear rope": (
        "LlamaForCausalLM",
        hf.LlamaConfig(**_LLAMA, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}),
    ),
    "qwen2": ("Qwen2ForCausalLM", hf.Qwen2Config(**_LLAMA, num_key_value_heads=2, tie_word_embeddings=True)),
}

BARE_DECODERS = {
    "gpt2 bare": _gpt2("GPT2Model"),
    "gpt bare": _gpt("OpenAIGPTModel"),
    "gpt2 classification": _gpt2("GPT2ForSequenceClassification", num_labels=3),
    "llama bare": ("LlamaModel", hf.LlamaConfig(**_LLAMA)),
    "llama classification": ("LlamaForSequenceClassification", hf.LlamaConfig(**_LLAMA, num_labels=3, pad_token_id=0)),
}

SEQ2SEQ = {
    "marian": ("MarianMTModel", hf.MarianConfig(**_SEQ2SEQ, scale_embedding=True)),
    "marian, swish, own tables": (
        "MarianMTModel",
        hf.MarianConfig(
            **_SEQ2SEQ,
            activation_function="swish",
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=VOCAB + 4,
        ),
    ),
    "marian untied": ("MarianMTModel", hf.MarianConfig(**_SEQ2SEQ, tie_word_embeddings=False)),
    "pegasus untied": ("PegasusForConditionalGeneration", hf.PegasusConfig(**_SEQ2SEQ, tie_word_embeddings=False)),
    "bart untied": ("BartForConditionalGeneration", hf.BartConfig(**_SEQ2SEQ, tie_word_embeddings=False)),
    "pegasus": ("PegasusForConditionalGeneration", hf.PegasusConfig(**_SEQ2SEQ, scale_embedding=True)),
    "bart": ("BartForConditionalGeneration", hf.BartConfig(**_SEQ2SEQ)),
    "bart scaled, relu": (
        "BartForConditionalGeneration",
        hf.BartConfig(**_SEQ2SEQ, scale_embedding=True, activation_function="relu"),
    ),
    "t5": ("T5ForConditionalGeneration", hf.T5Config(**_T5, decoder_start_token_id=0)),
    "t5 v1.1": (
        "T5ForConditionalGeneration",
        hf.T5Config(**_T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0),
    ),
}

IMAGES = {
    "vit": ("ViTForImageClassification", hf.ViTConfig(**_VIT)),
    "vit bare, no bias": ("ViTModel", hf.ViTConfig(**_VIT, qkv_bias=False)),
    "deit": ("DeiTForImageClassification", hf.DeiTConfig(**_VIT)),
    "deit with teacher": ("DeiTForImageClassificationWithTeacher", hf.DeiTConfig(**_VIT)),
    "deit bare": ("DeiTModel", hf.DeiTConfig(**_VIT)),
}

ALL = ENCODERS | DECODERS | BARE_DECODERS | SEQ2SEQ | IMAGES
