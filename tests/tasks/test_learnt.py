"""What is learnt from the encodings of training is what comes out: both find the same words in the same windows."""

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy

from regard.data.windows import IGNORED, Window, labels_of, offsets_of, span_of, windows_of
from regard.data.words import first_tokens, joined
from regard.models.base import initialise
from regard.models.bert import Bert
from regard.tasks.answerer import Answerer
from regard.tasks.batching import padded
from regard.tasks.tagger import Tagger
from tasks.span_readers import LABELS, model, tokenizer

SIZES = {"max_len": 28, "stride": 10}
CPU = torch.device("cpu")

SENTENCES = [
    "president B-person|obama I-person|flew O|to O|san B-place|francisco I-place|. O",
    "obama B-person|'s O|e-mail O|\u200b O|the O|u.s. B-place|of O|zanzibar B-place|! O",
    "who O|flew O|in O|the O|zoo O|of O|san B-place|marino I-place|with O|mr. B-person|o'brien I-person|? O",
]
CONTEXT = (
    "obama flew to san francisco, in the u.s.; o'brien was to be seen in zanzibar. where? in a zoo of 1999, they say."
)
ANSWERS = {"who flew": "obama", "where to": "san francisco", "who was seen": "o'brien", "of": "1999", "the": ""}


def learn(made: Bert, windows: Sequence[Window], targets: Sequence[Sequence[int]], steps: int = 120) -> Bert:
    """Where a target is a row of labels, of its tokens; where it is a pair, of start and end."""
    initialise(made, std=0.1)
    ids, valid = padded([window.ids for window in windows], 0, CPU)
    segments, _ = padded([window.segments for window in windows], 0, CPU)
    head = made.config.heads[0]
    labels = padded(targets, IGNORED, CPU)[0] if head == "tag" else torch.tensor(targets)
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)  # the last steps settle
    for _ in range(steps):
        scores = made(ids, valid, segments=segments).heads[head]  # (B, T, n)
        if head == "span" and valid is not None:
            scores = scores.masked_fill(~valid[..., None], -1e4)
        loss = cross_entropy(scores.transpose(1, 2) if head == "tag" else scores, labels, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    assert loss.item() < 0.05
    return made.eval().fuse()


def test_tags_that_were_learnt_are_found_again() -> None:
    rows = [[pair.rsplit(" ", 1) for pair in sentence.split("|")] for sentence in SENTENCES]
    windows, targets = [], []
    for row in rows:
        text, words = joined([word for word, _ in row])
        found = windows_of(tokenizer(), text, **SIZES)
        firsts = first_tokens(text, words, offsets_of(found))
        windows += found
        targets += labels_of(found, firsts, [LABELS.index(tag) for _, tag in row])
    assert len(windows) > len(rows)
    tag = Tagger(learn(model("tag"), windows, targets), tokenizer(), **SIZES)
    ours = tag.tag_words([[word for word, _ in row] for row in rows])
    assert [[word.tag for word in each.words] for each in ours] == [[tag for _, tag in row] for row in rows]


def test_answers_that_were_learnt_are_found_again() -> None:
    """In windows of 28 tokens, most of which do not hold the answer; one question has none."""
    windows, targets = [], []
    for question, answer in ANSWERS.items():
        at = CONTEXT.index(answer)
        for window in windows_of(tokenizer(), CONTEXT, question, **SIZES):
            windows.append(window)
            targets.append(span_of(window, at, at + len(answer)))
    assert targets.count((0, 0)) > len(targets) / 2
    answer = Answerer(learn(model("span"), windows, targets), tokenizer(), **SIZES)
    found = answer.many([(question, CONTEXT) for question in ANSWERS], no_answer=True)
    assert [each.text for each in found] == list(ANSWERS.values())
