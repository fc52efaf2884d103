from __future__ import annotations

import numpy as np
import pytest

from condenser.data.randomness import permutation, stream_key, uniforms


def splitmix64(key: int, steps: int) -> int:
    """The generator of Steele, Lea and Flood (2014) in plain whole numbers."""
    state = (key + steps * 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_splitmix64_gives_the_published_first_numbers():
    # seed 1234567, as in the reference implementation's test vectors
    assert [splitmix64(1234567, step) for step in (1, 2)] == [6457827717110365317, 3203168211198807973]


def test_uniforms_are_splitmix64_seeded_by_position():
    drawn = uniforms(3, "stream", 1, np.array([0, 9]), columns=3)
    for row, position in enumerate((0, 9)):
        # the row's own seed is one SplitMix64 number, too, taken `position` steps from the stream's key
        seed = splitmix64(stream_key(3, "stream", 1), position)
        expected = [(splitmix64(seed, step) >> 11) / 2**53 for step in (1, 2, 3)]
        assert drawn[row].tolist() == expected


@pytest.mark.parametrize("other", [(2, "s", 0), (1, "t", 0), (1, "s", 1)])
def test_seed_stream_and_epoch_each_change_everything(other):
    here, there = (uniforms(*key, np.arange(1000), columns=4) for key in ((1, "s", 0), other))
    assert not (here == there).any()
    assert abs(np.corrcoef(here.ravel(), there.ravel())[0, 1]) < 4 / np.sqrt(4000)


def test_numbers_are_even_and_neighbours_unrelated():
    drawn = uniforms(5, "s", 0, np.arange(20_000), columns=5)
    assert drawn.min() >= 0.0 and drawn.max() < 1.0
    counts = np.bincount((drawn.ravel() * 100).astype(int), minlength=100)
    assert ((counts - 1000) ** 2 / 1000).sum() < 148.2  # chi2, 99 df, p .001
    for one, next_one in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:])):
        assert abs(np.corrcoef(one.ravel(), next_one.ravel())[0, 1]) < 4 / np.sqrt(one.size)


def test_a_permutation_holds_everything_once_and_changes_with_the_epoch():
    orders = [permutation(1, "s", epoch, 50) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert orders[0].tolist() != orders[1].tolist() != orders[2].tolist()
    assert permutation(1, "s", 0, 50).tolist() == orders[0].tolist()
