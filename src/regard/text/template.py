"""What a vocabulary puts around a text: [CLS] ... [SEP], <s> ... </s>, or one token at an end."""

import tokenizers
from tokenizers import processors

from regard.errors import UserError
from regard.text.guard import guarded


def cls_sep(core: tokenizers.Tokenizer, cls: str, sep: str) -> None:
    """BERT: [CLS] a [SEP] b [SEP], where b and its [SEP] are segment 1."""
    single = [f"{cls}:0", "$A:0", f"{sep}:0"]
    with guarded("building the template"):
        core.post_processor = processors.TemplateProcessing(
            single=single,
            pair=[*single, "$B:1", f"{sep}:1"],
            special_tokens=[(token, _id(core, token)) for token in dict.fromkeys((cls, sep))],
        )


def cls_sep_sep(core: tokenizers.Tokenizer, cls: str, sep: str, *, add_prefix_space: bool) -> None:
    """RoBERTa and BART: <s> a </s></s> b </s>, all of segment 0."""
    with guarded("building the template"):
        core.post_processor = processors.RobertaProcessing(
            (sep, _id(core, sep)), (cls, _id(core, cls)), trim_offsets=True, add_prefix_space=add_prefix_space
        )


def ends(core: tokenizers.Tokenizer, bos: str | None, eos: str | None) -> None:
    """`bos` before and `eos` after each text, where given: GPT and Llama, T5, Marian."""
    if bos is None and eos is None:
        return
    before, after = [bos] if bos else [], [eos] if eos else []
    used = dict.fromkeys([*before, *after])
    with guarded("building the template"):
        core.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", *after, *before, "$B:1", *after],
            special_tokens=[(token, _id(core, token)) for token in used],
        )


def _id(core: tokenizers.Tokenizer, token: str) -> int:
    id = core.token_to_id(token)
    if id is None:
        raise UserError(f"the vocabulary lacks {token!r}, which belongs around every text")
    return id
