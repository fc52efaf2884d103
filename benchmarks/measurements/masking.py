"""Masking and batching of a Condenser's batch on one core, against a loop in Python and lines of numpy."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import jobs
import numpy as np
import torch
from measuring import Form, functions, in_turn, lines
from stepping import WIDTH, step_settings, write_step_inputs

from condenser.data.tokens import Tokenizer, TokenShards

IGNORED = -100
LOOP, NUMPY = "a loop over tokens in Python, as transformers' collator", "25 lines of numpy, padded to 128"


def measure(form: Form) -> list[dict[str, Any]]:
    """The same texts through all."""
    torch.set_num_threads(1)
    rows_per_chunk = step_settings("condenser", long=form.long)["rows_per_chunk"]
    num_rows = form.size(1024, 4096)
    folder = write_step_inputs(form, "condenser", "msmarco", num_rows=num_rows)
    shards, tokenizer = TokenShards([folder / "condenser.0-of-1"]), Tokenizer(folder / "backbone")
    lengths = np.minimum(np.diff(shards.row_starts), WIDTH - 2)
    texts, num_masked = (shards, lengths, tokenizer), dict[str, int]()
    works = {
        name: lambda name=name, work=work: num_masked.update({name: work(*texts)})
        for name, work in {
            "ours": partial(jobs.mask, rows_per_chunk=rows_per_chunk), NUMPY: _in_numpy, LOOP: _loop,
        }.items()
    }  # fmt: skip
    seconds = in_turn(works, repeats=5, clock=form.clock)
    # numpy leaves out words that overflow the budget, and follows them by no shorter ones: some 2 % fewer
    same = [abs(num_masked["ours"] / num - 1) < 0.04 for num in num_masked.values()]
    assert all(same), f"not the same work: {num_masked}"
    tokens = float(lengths.sum() + 2 * num_rows)
    peers = {name: tokens / seconds[name] for name in (LOOP, NUMPY)}
    note = f"whole words, {num_rows:,} texts of {tokens / num_rows:.0f} tokens, in chunks of {rows_per_chunk}"
    return lines(
        "masking and batching, one core", "tokens/s", tokens / seconds["ours"], peers, goals={NUMPY: 1.2},
        profile=functions(works["ours"]), note=note,
    )  # fmt: skip


def _in_numpy(shards: TokenShards, lengths: np.ndarray, tokenizer: Tokenizer) -> int:
    """Mask whole words and pad to one width, 64 rows at a time.

    Unlike ours, the masks depend on the order of the batches, and a word that overflows the budget is not
    followed by shorter ones.
    """
    draw, count, starts = np.random.default_rng(0), 0, shards.row_starts[:-1]
    for begin in range(0, len(lengths), 64):
        sizes = lengths[begin : begin + 64]
        ids = np.full((len(sizes), WIDTH), tokenizer.pad_id)
        ids[:, 1:-1] = shards.read(starts[begin : begin + 64], sizes, width=WIDTH - 2, fill=tokenizer.pad_id)
        columns = np.arange(WIDTH)
        is_token = (columns >= 1) & (columns <= sizes[:, None])
        ids[:, 0] = tokenizer.cls_id
        ids[np.arange(len(sizes)), sizes + 1] = tokenizer.sep_id
        is_first = is_token & ~tokenizer.is_continuation[ids]
        words = np.where(is_token, is_first.cumsum(axis=1), 0)
        row, column = np.nonzero(is_token)
        word_order = draw.random((len(sizes), WIDTH)).argsort(axis=1).argsort(axis=1)
        ranks = word_order[row, words[row, column]]
        order = np.lexsort((words[row, column], ranks, row))
        row, column = row[order], column[order]
        places = np.arange(len(row)) - np.repeat(sizes.cumsum() - sizes, sizes)
        budget = np.maximum(1, np.rint(0.15 * sizes)).astype(int)
        starts_word = np.flatnonzero(np.diff(ranks[order], prepend=-1) | np.diff(row, prepend=-1))
        ends = np.repeat(
            np.append(places[starts_word[1:] - 1], places[-1]), np.diff(starts_word, append=len(row))
        )
        chosen = ends < budget[row]
        row, column = row[chosen], column[chosen]
        labels = np.full(ids.shape, IGNORED)
        labels[row, column] = ids[row, column]
        chance = draw.random(len(row))
        random_ids = draw.choice(tokenizer.random_ids, len(row))
        kept = np.where(chance < 0.9, random_ids, ids[row, column])
        ids[row, column] = np.where(chance < 0.8, tokenizer.mask_id, kept)
        for array in (ids, labels, columns <= sizes[:, None] + 1):
            torch.from_numpy(array)
        count += len(row)
    return count


def _loop(shards: TokenShards, lengths: np.ndarray, tokenizer: Tokenizer) -> int:
    """Mask whole words and pad to one width, token by token, as transformers' collator does."""
    is_continuation, ordinary = tokenizer.is_continuation.tolist(), tokenizer.random_ids.tolist()
    is_ordinary, draw, count = set(ordinary), random.Random(0), 0
    starts = shards.row_starts[:-1]
    for begin in range(0, len(lengths), 64):
        ids_of_batch, labels_of_batch, mask_of_batch = [], [], []
        for row in range(begin, min(begin + 64, len(lengths))):
            tokens = shards.read(
                starts[row : row + 1], lengths[row : row + 1], width=int(lengths[row]), fill=0
            )
            ids = [tokenizer.cls_id, *tokens[0].tolist(), tokenizer.sep_id]
            words: list[list[int]] = []
            for place, token in enumerate(ids):
                if token in is_ordinary:
                    if words and is_continuation[token] and words[-1][-1] == place - 1:
                        words[-1].append(place)
                    else:
                        words.append([place])
            left = max(1, round(0.15 * sum(map(len, words))))
            draw.shuffle(words)
            labels = [IGNORED] * len(ids)
            for word in words:
                if len(word) > left:
                    continue
                left -= len(word)
                for place in word:
                    labels[place] = ids[place]
                    chance = draw.random()
                    if chance < 0.8:
                        ids[place] = tokenizer.mask_id
                    elif chance < 0.9:
                        ids[place] = draw.choice(ordinary)
                    count += 1
            padding = WIDTH - len(ids)
            ids_of_batch.append(ids + [tokenizer.pad_id] * padding)
            labels_of_batch.append(labels + [IGNORED] * padding)
            mask_of_batch.append([1] * len(ids) + [0] * padding)
        for rows in (ids_of_batch, labels_of_batch, mask_of_batch):
            torch.tensor(rows)
    return count
