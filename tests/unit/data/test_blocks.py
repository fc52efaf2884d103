from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.randomness import uniforms
from condenser.data.tokens import TokenShards
from tests.token_shards import hand_made_shards, rows_of_lengths

ROWS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=8)


def slow_blocks(
    lengths: list[list[int]], *, max_tokens: int, short_probability: float, seed: int
) -> list[tuple[int, int]]:
    """(start, length) of every block, one sentence at a time."""
    blocks: list[tuple[int, int]] = []
    position = sentence = 0
    for row in lengths:
        position, sentence = position + row[0], sentence + 1  # the title
        begin, size, target = position, 0, -1
        for length in row[1:]:
            if target < 0 or size + length > target:
                if size:
                    blocks.append((begin, size))
                short, share = uniforms(seed, "block targets", 0, np.array([sentence]), columns=2)[0]
                target = 1 + int(share * max_tokens) if short < short_probability else max_tokens
                begin, size = position, 0
            size += length
            position, sentence = position + length, sentence + 1
        if size:
            blocks.append((begin, size))
    return blocks


def packed(shards: TokenShards, **options) -> list[tuple[int, int]]:
    blocks = pack_blocks(shards, **{"max_tokens": 10, "short_probability": 0.0, "seed": 1, **options})
    return list(zip(blocks.starts.tolist(), blocks.lengths.tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(ROWS, st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3))
def test_blocks_are_those_of_packing_one_sentence_at_a_time(
    tmp_path_factory, lengths, max_tokens, short_probability, num_shards
):
    shards = hand_made_shards(
        tmp_path_factory.mktemp("shards"), rows_of_lengths(lengths), num_shards=num_shards
    )
    options = {"max_tokens": max_tokens, "short_probability": short_probability, "seed": 3}
    assert packed(shards, **options) == slow_blocks(lengths, **options)


def test_sentences_fill_a_block_to_the_brim_and_one_over_the_limit_is_a_block_by_itself(tmp_path):
    rows = [[2, 4, 6, 1, 9], [0, 3, 25, 4, 10], [3], [0], [1, 2]]
    shards = hand_made_shards(tmp_path, rows_of_lengths(rows))
    # row 0: title 0-1 | 4 + 6 fill ten | 1 + 9 fill ten; row 1 begins anew, its last is just within the limit
    expected = [(2, 10), (12, 10), (22, 3), (25, 25), (50, 4), (54, 10), (68, 2)]
    assert packed(shards) == expected
    blocks = pack_blocks(shards, max_tokens=10, short_probability=0.0, seed=1)
    assert (len(blocks), blocks.num_long, blocks.num_empty_rows) == (7, 1, 2)


def test_short_targets_come_as_often_as_asked(tmp_path):
    shards = hand_made_shards(tmp_path, rows_of_lengths([[0, *[1] * 20]] * 1500))
    blocks = pack_blocks(shards, max_tokens=20, short_probability=0.1, seed=5)
    first = np.searchsorted(blocks.starts, shards.row_starts[:-1])
    # a short target of 1..20 keeps the row's first block short of 20 in 19 of 20 cases
    share = np.mean(blocks.lengths[first] < 20)
    assert abs(share - 0.1 * 19 / 20) < 4 * np.sqrt(0.095 * 0.905 / 1500)
    every = pack_blocks(shards, max_tokens=20, short_probability=1.0, seed=5)
    of_first = np.bincount(every.lengths[np.searchsorted(every.starts, shards.row_starts[:-1])], minlength=21)
    assert of_first[0] == 0 and (abs(of_first[1:] - 75) < 4 * np.sqrt(75)).all()  # 1 to 20 alike


def test_a_long_block_gives_another_window_inside_it_each_epoch(tmp_path):
    shards = hand_made_shards(tmp_path, rows_of_lengths([[0, 50], [0, 7]]))
    blocks = pack_blocks(shards, max_tokens=10, short_probability=0.0, seed=1)
    windows = [
        block_windows(blocks, np.array([1, 0]), max_tokens=10, seed=1, epoch=epoch) for epoch in range(400)
    ]
    starts = {int(starts[1]) for starts, _ in windows}
    assert starts == set(range(41))  # every place that holds ten of fifty
    assert all(lengths.tolist() == [7, 10] and starts[0] == 50 for starts, lengths in windows)


def test_a_window_depends_on_its_block_and_not_on_the_batch(tmp_path):
    shards = hand_made_shards(tmp_path, rows_of_lengths([[0, 50]] * 6))
    blocks = pack_blocks(shards, max_tokens=10, short_probability=0.0, seed=1)
    whole = block_windows(blocks, np.arange(6), max_tokens=10, seed=1, epoch=2)[0]
    for item in range(6):
        assert block_windows(blocks, np.array([item]), max_tokens=10, seed=1, epoch=2)[0] == whole[item]
