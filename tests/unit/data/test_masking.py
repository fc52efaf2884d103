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
    batch = mask_tokens(ids, positions=positions, **{**SETTINGS, **options})
    expected, masked, labels = slow_mask(ids, lengths, positions, **options)
    assert batch.input_ids.tolist() == expected.tolist()
    assert batch.masked_positions.tolist() == masked
    assert batch.labels.tolist() == labels


def masked_table(ids: np.ndarray, masked: np.ndarray) -> np.ndarray:
    table = np.zeros(ids.shape, dtype=bool)
    table.ravel()[masked] = True
    return table


def test_words_are_masked_whole():
    ids, _ = texts(300, width=64)
    batch = mask_tokens(ids, positions=np.arange(300), **SETTINGS)
    table = masked_table(ids, batch.masked_positions)
    follows = IS_CONTINUATION[ids[:, 2:]]  # column 1 begins a word whatever it holds
    assert follows.any()
    assert (table[:, 2:][follows] == table[:, 1:-1][follows]).all()


def test_the_budget_is_met_by_single_token_words_and_never_passed():
    ids, lengths = texts(300, width=64)
    budgets = np.maximum(1, [round(0.15 * (length - 2)) for length in lengths])
    batch = mask_tokens(ids, positions=np.arange(300), **SETTINGS)
    assert (masked_table(ids, batch.masked_positions).sum(axis=1) <= budgets).all()
    ids = np.where(ids >= 40, 5, ids)
    batch = mask_tokens(ids, positions=np.arange(300), **SETTINGS)
    counts = masked_table(ids, batch.masked_positions).sum(axis=1)
    assert (counts == np.where(lengths > 2, budgets, 0)).all()


def test_specials_and_padding_are_never_masked_even_inside_a_text():
    ids, lengths = texts(200, width=32, low=0)
    batch = mask_tokens(ids, positions=np.arange(200), **{**SETTINGS, "probability": 1.0})
    assert (batch.labels >= 5).all()
    rows, columns = np.divmod(batch.masked_positions, 32)
    assert (columns > 0).all() and (columns < lengths[rows] - 1).all()
    inside = [row[1 : length - 1] for row, length in zip(ids, lengths, strict=True)]
    assert len(batch.labels) == sum(int((row >= 5).sum()) for row in inside)


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


def test_a_mask_depends_on_the_row_and_not_on_the_batch_or_its_padding():
    ids, lengths = texts(50, width=40)
    positions = np.random.default_rng(3).permutation(1000)[:50]
    whole = mask_tokens(ids, positions=positions, **SETTINGS)
    for row in range(50):
        width = max(int(lengths[row]), 8)
        alone = mask_tokens(ids[row : row + 1, :width], positions=positions[row : row + 1], **SETTINGS)
        assert alone.input_ids[0].tolist() == whole.input_ids[row, :width].tolist()


def test_texts_without_content_have_no_mask():
    ids = np.array([[CLS, SEP, PAD, PAD], [CLS, SEP, SEP, PAD]])
    batch = mask_tokens(ids, positions=np.arange(2), **SETTINGS)
    assert batch.input_ids.tolist() == ids.tolist()
    assert len(batch.masked_positions) == len(batch.labels) == 0


def test_the_ids_given_are_left_alone():
    ids, _ = texts(20, width=24)
    before = ids.copy()
    mask_tokens(ids, positions=np.arange(20), **SETTINGS)
    assert (ids == before).all()
