from __future__ import annotations

import numpy as np
import pytest

from condenser.data.masking import mask_tokens
from condenser.data.randomness import uniforms

PAD, CLS, SEP, MASK = 0, 2, 3, 4
VOCAB = 60  # 0-4 special, 5-39 begin a word, 40-59 continue one
IS_CONTINUATION = np.arange(VOCAB) >= 40
RANDOM_IDS = np.arange(5, VOCAB)
SETTINGS = {
    "is_continuation": IS_CONTINUATION,
    "random_ids": RANDOM_IDS,
    "mask_id": MASK,
    "probability": 0.15,
    "max_predictions": 512,
    "seed": 7,
    "epoch": 0,
}


def texts(num_rows: int, *, width: int, seed: int = 0, low: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """[CLS] random tokens [SEP], padded; lengths from 2 to the width."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, width + 1, num_rows)
    lengths[0] = 2
    ids = np.full((num_rows, width), PAD)
    for row, length in enumerate(lengths):
        ids[row, :length] = [CLS, *random.integers(low, VOCAB, length - 2), SEP]
    return ids, lengths


def slow_mask(ids: np.ndarray, lengths: np.ndarray, positions: np.ndarray, **options):
    """The same draws, a token at a time."""
    settings = {**SETTINGS, **options}
    order = uniforms(settings["seed"], "mask order", settings["epoch"], positions, columns=ids.shape[1])
    out, masked, labels = ids.copy(), [], []
    for row in range(len(ids)):
        words: list[list[int]] = []
        for column in range(1, lengths[row] - 1):
            token = ids[row, column]
            if token < 5:
                continue
            if words and token >= 40 and words[-1][-1] == column - 1:
                words[-1].append(column)
            else:
                words.append([column])
        left = min(max(1, round(settings["probability"] * sum(map(len, words)))), settings["max_predictions"])
        taken = []
        for word in sorted(words, key=lambda word: order[row, word[0]]):
            if len(word) <= left:
                taken += word
                left -= len(word)
        for column in sorted(taken):
            masked.append(row * ids.shape[1] + column)
            labels.append(ids[row, column])
            place = np.array([positions[row] * 65536 + column])
            action, choice = uniforms(settings["seed"], "mask actions", settings["epoch"], place, columns=2)[
                0
            ]
            if action < 0.8:
                out[row, column] = MASK
            elif action < 0.9:
                out[row, column] = RANDOM_IDS[int(choice * len(RANDOM_IDS))]
    return out, masked, labels


@pytest.mark.parametrize(
    ("probability", "max_predictions", "low"),
    [
        (0.15, 512, 0),
        (0.15, 512, 5),
        (0.5, 512, 30),
        (0.5, 3, 5),
        (1.0, 512, 5),
        (1.0, 3, 30),
        (1.0, 512, 40),
    ],
)  # from 40 on a row is one word
def test_masks_are_those_of_taking_one_token_at_a_time(probability, max_predictions, low):
    ids, lengths = texts(60, width=40, low=low)
    options = {"probability": probability, "max_predictions": max_predictions, "epoch": 2}
    positions = np.arange(60) * 3
    given = ids.copy()
    batch = mask_tokens(given, positions=positions, **{**SETTINGS, **options})
    assert (given == ids).all()  # they are left alone
    expected, masked, labels = slow_mask(ids, lengths, positions, **options)
    assert batch.input_ids.tolist() == expected.tolist()
    assert batch.masked_positions.tolist() == masked
    assert batch.labels.tolist() == labels


def test_eight_of_ten_become_masks_one_another_word_one_stays():
    ids = np.full((2000, 34), 5)
    ids[:, 0], ids[:, -1] = CLS, SEP
    batch = mask_tokens(ids, positions=np.arange(2000), **{**SETTINGS, "probability": 0.5})
    total = len(batch.labels)
    assert total == 2000 * 16
    now = batch.input_ids.ravel()[batch.masked_positions]
    num_random = total * 0.1 * (1 - 1 / len(RANDOM_IDS))  # a random token may be the old one
    for count, expected in (
        ((now == MASK).sum(), 0.8 * total),
        (((now != MASK) & (now != 5)).sum(), num_random),
        ((now == 5).sum(), 0.2 * total - num_random),
    ):
        assert abs(count - expected) < 5 * np.sqrt(expected)
    others = np.bincount(now[(now != MASK) & (now != 5)], minlength=VOCAB)[6:]
    assert (np.abs(others - others.mean()) < 5 * np.sqrt(others.mean())).all()


def test_texts_without_content_have_no_mask():
    ids = np.array([[CLS, SEP, PAD, PAD], [CLS, SEP, SEP, PAD]])
    batch = mask_tokens(ids, positions=np.arange(2), **SETTINGS)
    assert batch.input_ids.tolist() == ids.tolist()
    assert len(batch.masked_positions) == len(batch.labels) == 0
