from __future__ import annotations

import doctest
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condenser.data import batches, expansions, lengths, near, negatives, token_choice, tokens
from condenser.data.batches import (
    length_chunks,
    negative_window,
    num_items_of,
    num_steps,
    pack_texts,
    positive_index,
    row_windows,
    step_items,
    token_batches,
)
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.papers import terms
from tests.token_shards import hand_made_shards, real_tokenizer_folder, rows_of_lengths

SPECIALS = SimpleNamespace(cls_id=901, sep_id=902, pad_id=900)


def test_a_last_batch_that_is_left_out_is_of_other_items_in_each_epoch() -> None:
    whole = {"batch_size": 4, "seed": 1, "stream": "s"}
    left_out = []
    for epoch in range(3):
        steps = [step_items(10, step=2 * epoch + batch, drop_last=True, **whole) for batch in range(2)]
        assert [found for found, _, _ in steps] == [epoch] * 2 and {len(items) for *_, items in steps} == {4}
        left_out.append({*range(10)} - {int(item) for *_, items in steps for item in items})
    assert [len(items) for items in left_out] == [2] * 3 and left_out[0] != left_out[1]
    assert num_steps(10, batch_size=4, epochs=3, drop_last=True) == 6
    assert num_steps(3, batch_size=4, epochs=2, drop_last=True) == 2  # else nothing would be trained on


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 3))
def test_every_epoch_brings_every_item_once(num_items, batch_size, epochs):
    seen: dict[int, list[int]] = {}
    for step in range(num_steps(num_items, batch_size=batch_size, epochs=epochs)):
        epoch, positions, items = step_items(num_items, batch_size=batch_size, step=step, seed=1, stream="s")
        assert 1 <= len(items) == len(positions) <= batch_size
        assert positions[0] == len(seen.get(epoch, []))
        seen.setdefault(epoch, []).extend(items.tolist())
    assert list(seen) == list(range(epochs))
    assert all(sorted(items) == list(range(num_items)) for items in seen.values())


def test_batches_hold_every_row_once_within_the_budget_of_padded_tokens_or_a_long_row_alone():
    lengths = np.append(np.random.default_rng(5).integers(2, 129, size=500), [513, 600])
    batches = list(token_batches(lengths, batch_tokens=512))
    assert sorted(np.concatenate(batches).tolist()) == list(range(502))
    assert [batch.tolist() for batch in batches[:2]] == [[501], [500]]
    assert all(len(batch) * (-(-lengths[batch].max() // 8) * 8) <= 512 for batch in batches[2:])


def test_a_part_of_an_epoch_is_its_first_steps() -> None:
    steps = [num_steps(10, batch_size=4, epochs=epochs) for epochs in (0.01, 1 / 3, 0.5, 1, 1.0, 1.4, 2)]
    assert steps == [1, 1, 2, 3, 3, 5, 6]
    assert 0.07 * 100 > 7  # in floating point
    assert num_steps(400, batch_size=4, epochs=0.07) == 7


@given(
    st.integers(1, 60),
    st.integers(1, 70),
    st.booleans(),
    st.floats(0.01, 4),
    st.tuples(*[st.integers(1, 40)] * 2),
)
def test_bounds_give_the_nearest_number_of_updates_that_they_allow(
    num_items: int, batch_size: int, drop_last: bool, epochs: float, bounds: tuple[int, int]
) -> None:
    cut: dict[str, Any] = {"batch_size": batch_size, "drop_last": drop_last}
    asked = num_steps(num_items, epochs=epochs, **cut)
    least, most = sorted(bounds)
    for updates, allowed in (
        ({"least": least, "most": most}, range(least, most + 1)),
        ({"least": least, "most": None}, range(least, 1000)),
        ({"least": None, "most": most}, range(1, most + 1)),
    ):
        nearest = min(allowed, key=lambda number: abs(number - asked))
        assert num_steps(num_items, epochs=epochs, updates=updates, **cut) == nearest
    assert num_steps(num_items, epochs=None, updates=most, **cut) == most


@given(st.integers(1, 40), st.integers(1, 50), st.booleans(), st.integers(0, 30))
def test_the_items_of_some_steps_are_those_of_their_batches(
    num_items: int, batch_size: int, drop_last: bool, steps: int
) -> None:
    cut: dict[str, Any] = {"batch_size": batch_size, "drop_last": drop_last}
    batches = [step_items(num_items, step=step, seed=1, stream="s", **cut)[2] for step in range(steps)]
    assert num_items_of(num_items, num_steps=steps, **cut) == sum(map(len, batches))


def test_the_order_changes_with_epoch_seed_and_stream():
    orders = [
        tuple(step_items(50, batch_size=50, step=step, seed=seed, stream=stream)[2])
        for step, seed, stream in ((0, 1, "a"), (1, 1, "a"), (0, 2, "a"), (0, 1, "b"))
    ]
    assert len(set(orders)) == 4


@given(st.lists(st.integers(0, 200), max_size=40), st.integers(1, 9))
def test_chunks_hold_each_row_once_longest_first(lengths, rows_per_chunk):
    chunks = length_chunks(np.array(lengths, dtype=np.int64), rows_per_chunk=rows_per_chunk)
    order = [int(row) for chunk in chunks for row in chunk]
    assert order == sorted(range(len(lengths)), key=lambda row: -lengths[row])  # Python's sort is stable
    assert all(len(chunk) == rows_per_chunk for chunk in chunks[:-1])


def test_texts_stand_between_cls_and_sep_padded_to_a_multiple_of_eight(tmp_path):
    shards = hand_made_shards(tmp_path, rows_of_lengths([[0, 3], [0, 9], [0, 0], [0, 6]]))
    starts, lengths = shards.row_starts[:-1], np.diff(shards.row_starts)
    ids, whole = pack_texts(shards, starts, lengths, SPECIALS)
    assert whole.tolist() == [5, 11, 2, 8]
    assert ids.tolist() == [
        [901, 1, 2, 3, 902] + [900] * 11,
        [901, *range(4, 13), 902] + [900] * 5,
        [901, 902] + [900] * 14,
        [901, *range(13, 19), 902] + [900] * 8,
    ]
    chunk = np.array([0, 3])
    assert pack_texts(shards, starts[chunk], lengths[chunk], SPECIALS)[0].shape == (2, 8)


@pytest.mark.parametrize("leading_separator", [False, True])
def test_a_passage_is_what_transformers_makes_of_title_sep_text(tmp_path, leading_separator):
    """As Tevatron feeds it, with a separator before each text too: all tokenised together and cut."""
    from transformers import AutoTokenizer

    tokenizer = Tokenizer(real_tokenizer_folder())
    truth = AutoTokenizer.from_pretrained(real_tokenizer_folder())
    rows = [("Dense Retrieval", "Encoders map text. " * 40), ("", "Encoders map text. " * 40)]
    rows += [("", "No title here."), ("Only a title", ""), ("", "")]
    options = {"split": True, "leading_separator": leading_separator}
    write_token_shard(rows, tmp_path / "t", tokenizer, batch_size=8, **options)
    shards = TokenShards([tmp_path / "t"])
    ids, whole = pack_texts(shards, *row_windows(shards, np.arange(5), max_tokens=128), tokenizer)
    assert whole.tolist()[:2] == [128, 128]
    for row, (title, text) in enumerate(rows):
        joined = title + truth.sep_token + text if title or leading_separator else text
        of_text = truth(joined, add_special_tokens=False, verbose=False).input_ids[:126]
        expected = [truth.cls_token_id, *of_text, truth.sep_token_id]
        assert ids[row].tolist() == expected + [truth.pad_token_id] * (128 - len(expected))
        assert whole[row] == len(expected)


def test_positives_take_turns_from_epoch_to_epoch():
    assert [positive_index(4, 3, seed=42, epoch=epoch) for epoch in range(4)] == [1, 2, 0, 1]
    assert [positive_index(4, 3, seed=seed, epoch=0) for seed in (43, 44)] == [2, 0]  # 42 is 0 modulo 3


def test_windows_of_seven_go_through_thirty_negatives_before_any_comes_again():
    windows = [negative_window(30, 7, seed=1, item=5, epoch=epoch).tolist() for epoch in range(5)]
    drawn = [index for window in windows for index in window]
    assert len(set(drawn[:30])) == 30
    assert drawn[30:] == drawn[:5]  # the fifth window wraps around
    assert [len(set(window)) for window in windows] == [7] * 5
    assert sorted(negative_window(7, 7, seed=1, item=2, epoch=3)) == list(range(7))
    assert len(negative_window(0, 0, seed=1, item=2, epoch=0)) == 0


def test_items_shuffle_their_negatives_each_in_its_own_way():
    first = Counter(int(negative_window(30, 7, seed=1, item=item, epoch=0)[0]) for item in range(3000))
    assert len(first) == 30
    assert sum((count - 100) ** 2 / 100 for count in first.values()) < 58.3  # chi2, 29 df, p .001


@pytest.mark.parametrize("num_negatives", [30, 3])
def test_negatives_are_drawn_by_seed_and_item(num_negatives):
    windows = {
        tuple(negative_window(num_negatives, 7, seed=seed, item=item, epoch=0))
        for seed, item in ((1, 5), (2, 5), (1, 6))
    }
    assert len(windows) == 3


def test_fewer_negatives_than_wanted_are_drawn_with_repeats_anew_each_epoch():
    windows = [tuple(negative_window(3, 7, seed=1, item=2, epoch=epoch)) for epoch in range(50)]
    assert len(set(windows)) > 40
    counts = Counter(int(index) for window in windows for index in window)
    assert set(counts) == {0, 1, 2}
    assert windows[4] == tuple(negative_window(3, 7, seed=1, item=2, epoch=4))


@pytest.mark.parametrize(
    "module", [batches, expansions, lengths, near, negatives, terms, token_choice, tokens]
)
def test_examples_in_the_docstrings_are_true(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
