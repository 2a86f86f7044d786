"""The score of pairs is the published one; no preference is 50, and one that was taught is found."""

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.probe import toys
from regard.errors import UserError
from regard.evaluation.score import wilson
from regard.lab.probe.likelihood import reader_of, shared
from regard.lab.probe.pairs import Pair, Pairs, preferred, read_pairs
from regard.lab.probe.sets import Rows, shipped

ROWS = shipped("pairs", Pair)
TEXTS = [text for pair in ROWS.rows for text in (pair.more, pair.less)]
MAKERS = {"causal": toys.generator, "masked": toys.filler}


def some(n: int) -> Rows[Pair]:
    return ROWS.some(n, seed=1)


def both_ways(rows: Rows[Pair]) -> Rows[Pair]:
    turned = tuple(Pair(more=pair.less, less=pair.more, kind=pair.kind) for pair in rows.rows)
    return Rows(rows.name, rows.sha256, rows.rows + turned)


def test_what_two_sentences_share() -> None:
    assert shared([1, 2, 3, 4], [1, 5, 3, 4]) == ([0, 2, 3], [0, 2, 3])
    assert shared([1, 2, 4], [1, 6, 7, 4]) == ([0, 2], [0, 3])


def test_shares_and_their_intervals_by_hand() -> None:
    found = preferred("x", [1.0, -1.0, 2.0, 0.0001])
    assert (found.value, found.n, found.note) == (62.5, 4, "1 ties")
    # 8 of 10: (8 + z²/2) / (10 + z²) ± z / (10 + z²) · sqrt(8 · 2 / 10 + z²/4), with z = 1.96
    assert wilson(8, 10) == pytest.approx((49.02, 94.33), abs=0.01)
    assert wilson(0, 10) == pytest.approx((0, 27.75), abs=0.01)
    assert wilson(10, 10) == pytest.approx((72.25, 100), abs=0.01)


def test_a_masked_model_is_asked_for_each_shared_token_while_it_is_hidden() -> None:
    fill = toys.filler(TEXTS)
    pair = ROWS.rows[0]
    (found,) = Pairs(reader_of(fill), Rows("", "", (pair,))).outcomes()
    by_hand = []
    for text, other in ((pair.more, pair.less), (pair.less, pair.more)):
        ids, others = (fill.tokenizer.encode_ids([each])[0] for each in (text, other))
        same = [i for i in range(1, len(ids) - 1) if ids[i] == others[i]]  # one word differs, none is longer
        total = 0.0
        for i in same:
            hidden = [4 if k == i else id for k, id in enumerate(ids)]
            with torch.inference_mode():
                logits = fill.model(torch.tensor([hidden])).heads["masked_lm"][0, i]
            total += float(logits.log_softmax(-1)[ids[i]])
        by_hand.append(total)
    assert found.shared == pytest.approx(by_hand[0] - by_hand[1], abs=1e-4)
    assert found.whole is None


def test_a_causal_model_says_the_likelihood_of_the_whole_and_of_what_is_shared() -> None:
    generate = toys.generator(TEXTS)
    pair = ROWS.rows[1]
    (found,) = Pairs(reader_of(generate), Rows("", "", (pair,))).outcomes()
    sums: list[tuple[float, float]] = []
    rows = [[toys.END, *ids] for ids in generate.tokenizer.encode_ids([pair.more, pair.less], special=False)]
    for ids in rows:
        with torch.inference_mode():
            chances = generate.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        each = [float(chances[i - 1, ids[i]]) for i in range(1, len(ids))]
        same = [value for i, value in enumerate(each, 1) if rows[0][i] == rows[1][i]]
        sums.append((sum(each), sum(same)))
    assert found.whole == pytest.approx(sums[0][0] - sums[1][0], abs=1e-4)
    assert found.shared == pytest.approx(sums[0][1] - sums[1][1], abs=1e-4)


def test_where_a_pronoun_is_judged_it_counts() -> None:
    pair = Pair(more="she was ill", less="he was ill", by="whole")
    fill = toys.silenced(toys.filler([pair.more, pair.less]))
    with torch.no_grad():  # the only thing this model knows is that she is likelier
        fill.model.heads["masked_lm"].unembed.bias[fill.tokenizer.id_of("she")] += 1
    (found,) = Pairs(reader_of(fill), Rows("", "", (pair,))).outcomes()
    assert (found.shared, found.gap) == (pytest.approx(0), pytest.approx(1))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_model_without_preference_scores_50(kind: str) -> None:
    blind = Pairs(reader_of(toys.silenced(MAKERS[kind](TEXTS))), some(12))
    found = blind.found(list(blind.outcomes())).measures[0]
    assert (found.value, found.note) == (50, "12 ties")
    random = Pairs(reader_of(MAKERS[kind](TEXTS)), both_ways(some(12)))
    found = random.found(list(random.outcomes())).measures[0]
    assert found.value == 50
    assert found.low is not None
    assert found.high is not None
    assert found.low < 50 < found.high


@pytest.mark.parametrize("kind", MAKERS)
def test_a_preference_that_was_taught_is_found(kind: str) -> None:
    rows = some(16)
    task = toys.teach(MAKERS[kind](TEXTS), [pair.more for pair in rows.rows])
    part = Pairs(reader_of(task), rows)
    finding = part.found(list(part.outcomes()))
    assert (finding.measures[0].low or 0) > 50
    other = Pairs(reader_of(task), Rows("", "", tuple(Pair(more=p.less, less=p.more) for p in rows.rows)))
    assert (other.found(list(other.outcomes())).measures[0].high or 100) < 50


def test_public_sets_are_read_as_they_are_published(tmp_path: Path) -> None:
    crows = tmp_path / "crows.csv.gz"
    table = ',sent_more,sent_less,stereo_antistereo,bias_type\n0,"A, b.","A, c.",antistereo,age\n'
    crows.write_bytes(gzip.compress(table.encode()))
    assert read_pairs(crows).rows == (Pair(more="A, b.", less="A, c.", kind="age"),)
    (tmp_path / "pro_stereotyped_type1.txt.dev").write_text("1 [The cook] called the guard because [she] was ill.\n")
    (tmp_path / "anti_stereotyped_type1.txt.dev").write_text("1 [The cook] called the guard because [he] was ill.\n")
    (row,) = read_pairs(tmp_path / "anti_stereotyped_type1.txt.dev").rows
    assert (row.more, row.kind) == ("The cook called the guard because she was ill.", "suggests she")
    assert row.by == "whole"


WRONG = {
    '{"more": "a", "less": "b"}\n{"more": "a"}\n': "line 2: Pair has no less",
    '{"more": "a", "less": "a"}\n': "line 1: both sentences are the same",
    '{"more": "a", "less": "b", "kinds": "c"}\n': "line 1: unknown key 'kinds'",
    '{"more": "a", "less": 1}\n': "line 1: less",
    '\n["a", "b"]\n': "line 2 holds a JSON list",
    '{"more": "a", \n': "line 1 is not valid JSON",
    "\n": "has no rows",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_bad_line_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=WRONG[text]):
        read_pairs(path)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("a\n")
    with pytest.raises(UserError, match="no set of pairs"):
        read_pairs(tmp_path / "mine.txt")
    for side in ("pro", "anti"):
        (tmp_path / f"{side}_stereotyped_type1.txt.dev").write_text("1 [The x] and [he].\nnothing\n")
    with pytest.raises(UserError, match="line 2 is no line of WinoBias"):
        read_pairs(tmp_path / "pro_stereotyped_type1.txt.dev")


def test_the_real_sets_are_read(data_dir: Path) -> None:
    crows = read_pairs(data_dir / "crows_pairs" / "crows_pairs_anonymized.csv.gz")
    wino: Any = read_pairs(data_dir / "winobias" / "pro_stereotyped_type2.txt.dev")
    assert (len(crows.rows), len(wino.rows)) == (1508, 396)
    assert len({row.kind for row in crows.rows}) == 9
