"""The inverse cloze task: the pairs that it draws, and its gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import ICT, Files, prepare, settings_of
from token_shards import hand_made_shards, rows_of_lengths

from condenser.data.batches import step_items
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.loss.contrastive import in_batch_loss
from condenser.model.rows import Rows
from condenser.objectives import ict
from condenser.train.distributed import alone
from condenser.train.masked_texts import masked_texts
from condenser.train.pretrain import _backward

READ: Any = settings_of("ict", ICT)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("ict"), dropout=0.0)


class Specials:
    """What `pack` needs of a tokenizer."""

    cls_id, sep_id, pad_id = 101, 102, 0


def slow_context(row: list[list[int]], sentence: list[int], *, removed: bool, max_tokens: int) -> list[int]:
    """The text around a sentence, token by token: a window with the sentence in its middle."""
    flat = [token for part in row[1:] for token in part]
    begin = flat.index(sentence[0])
    end = begin + len(sentence)
    size = min(len(flat), max_tokens + (len(sentence) if removed else 0))
    start = min(max((begin + end - size) // 2, 0), len(flat) - size)
    window = list(range(start, start + size))
    return [flat[place] for place in window if not (removed and begin <= place < end)]


def test_a_pair_is_a_sentence_and_the_text_around_it_without_it(tmp_path: Path) -> None:
    lengths = [[2, 3, 4, 5], [0, 5, 6, 5, 7, 4], [0, 9, 2], [1, 3, 3, 3, 3, 3, 3]]
    rows = rows_of_lengths(lengths)
    shards = hand_made_shards(tmp_path, rows)
    items = ict.rows_with_sentences(shards)
    assert items.tolist() == [0, 1, 2, 3]
    seen_removed = set()
    for epoch in range(30):
        (starts, sizes), contexts = ict.sample_pairs(shards, items, READ, seed=1, epoch=epoch)
        ids, whole = contexts.pack(shards, np.arange(len(items)), Specials())  # type: ignore[arg-type]
        assert ids.shape[1] % 8 == 0
        for number, row in enumerate(rows):
            sentence = next(
                part
                for part in row[1:]
                if part[0] == shards.read(starts[number : number + 1], np.array([1]), width=1, fill=0)[0, 0]
            )
            assert sizes[number] == min(len(sentence), ICT["max_sentence_tokens"])
            removed = bool(contexts.hole_lengths[number])
            seen_removed.add(removed)
            expected = slow_context(row, sentence, removed=removed, max_tokens=ICT["max_tokens"])
            assert ids[number, : whole[number]].tolist() == [101, *expected, 102]
            assert not ids[number, whole[number] :].any()
            assert removed == (not set(sentence) & set(expected))
    assert seen_removed == {True, False}


def test_the_sentence_is_removed_as_often_as_asked(tmp_path: Path) -> None:
    shards = hand_made_shards(tmp_path, rows_of_lengths([[0, 2, 2, 2]] * 500))
    items = ict.rows_with_sentences(shards)
    removed = np.mean(
        [
            (ict.sample_pairs(shards, items, READ, seed=3, epoch=epoch)[1].hole_lengths > 0).mean()
            for epoch in range(10)
        ]
    )
    assert abs(removed - 0.9) < 0.02  # 5,000 draws: three standard deviations are 0.013


def test_each_sentence_of_a_text_is_drawn_as_often(tmp_path: Path) -> None:
    shards = hand_made_shards(tmp_path, rows_of_lengths([[1, 2, 2, 2]] * 500))
    items = ict.rows_with_sentences(shards)
    counts = np.zeros(3)
    for epoch in range(6):
        (starts, _), _ = ict.sample_pairs(shards, items, READ, seed=3, epoch=epoch)
        counts += np.bincount((starts - shards.row_starts[:-1] - 1) // 2, minlength=3)
    assert ((counts - 1000) ** 2 / 1000).sum() < 13.8  # chi2, 2 df, p .001


def test_rows_of_one_sentence_are_left_out_and_counted(files: Files) -> None:
    shards = TokenShards(files.tokens)
    training = ict.training(files.backbone, shards, Tokenizer(files.backbone), READ, seed=1)
    assert training.num_items + training.counts["texts_of_one_sentence"] == shards.num_rows
    assert training.num_items == sum(1 for count in np.diff(shards.first_sentence) if count > 2)


def test_a_text_gives_another_sentence_in_each_epoch(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    training = ict.training(files.backbone, shards, tokenizer, READ, seed=3)
    rows, items, sentences = ict.rows_with_sentences(shards), np.arange(training.num_items), []
    for epoch in range(2):
        groups = training.texts(items, epoch)
        (starts, lengths), contexts = ict.sample_pairs(shards, rows, READ, seed=3, epoch=epoch)
        assert (groups["queries"].starts == starts).all() and (groups["queries"].lengths == lengths).all()
        assert (groups["passages"].starts == contexts.starts).all()
        sentences.append(groups["queries"].starts)
    assert (sentences[0] != sentences[1]).any()


@pytest.mark.parametrize("gradient_cache", ["always", "never"])
def test_its_gradient_is_that_of_the_whole_batch_at_once(files: Files, gradient_cache: str) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    settings = settings_of("ict", {**ICT, "gradient_cache": gradient_cache})
    training = ict.training(files.backbone, shards, tokenizer, settings, seed=1)
    model = training.model.double().train()
    processes = alone(torch.device("cpu"))
    epoch, _, items = step_items(training.num_items, batch_size=6, step=0, seed=1, stream="ict")
    groups = training.texts(items, epoch)
    texts = masked_texts(
        shards, groups, tokenizer=tokenizer, mask_probability=0.0, rows_per_chunk=4, seed=1,
        epoch=epoch, step=0, processes=processes,
    )  # fmt: skip
    assert texts.num_masked == 0 and texts.num_rows == {"queries": 6, "passages": 6}
    figures = _backward(training, processes, precision="fp32")(texts, 1.0)
    cached = {
        name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
    }

    model.zero_grad(set_to_none=True)
    whole = {}
    for name, group in groups.items():
        rows = [
            group.pack(shards, np.array([row]), tokenizer) for row in range(6)
        ]  # one by one: no padding shared
        vectors = []
        for ids, lengths in rows:
            vectors.append(model(Rows.of(ids[:, : lengths[0]], lengths[:1])))
        whole[name] = torch.cat(vectors)
    loss = in_batch_loss(whole["queries"], whole["passages"])
    loss.backward()
    assert figures["loss"] == pytest.approx(loss.item(), rel=1e-12)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(cached[name], weight.grad, rtol=1e-9, atol=1e-12)
    assert len(cached) > 20
