"""Pairs of query and passage against the tokenizer's own form of two texts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from architectures import TEXTS, tokenizer_of
from small_trainings import Files, prepare
from token_shards import hand_made_shards
from transformers import AutoTokenizer

from condenser.data.batches import pack_pairs, pair_windows
from condenser.data.tokens import Tokenizer, TokenShards

QUERIES = [[[], [11, 12, 13]], [[], []], [[], [14, 15, 16, 17, 18, 19]]]
SPECIALS = SimpleNamespace(cls_id=1, sep_id=2, pad_id=0)
PASSAGES = [[[21, 22, 2], [23, 24]], [[], [25, 26, 27, 28, 29, 30]], [[], []]]  # 2 is [SEP]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("pairs"), dropout=0.0)


def test_titles_are_divided_from_texts_both_texts_are_cut_and_empty_ones_keep_their_separators(
    tmp_path: Path,
) -> None:
    rows = [(0, 0), (2, 1), (1, 2), (1, 0), (0, 2)]
    queries = hand_made_shards(tmp_path / "queries", QUERIES)
    passages = hand_made_shards(tmp_path / "passages", PASSAGES, num_shards=2)
    asked, found = np.array(rows).T
    pairs = pair_windows(queries, asked, passages, found, query_length=6, passage_length=7, num_separators=1)
    ids, types = pack_pairs(queries, passages, pairs, SPECIALS)
    expected = [
        [1, 11, 12, 13, 2, 21, 22, 2, 23, 24, 2],
        [1, 14, 15, 16, 17, 2, 25, 26, 27, 28, 29, 2],
        [1, 2, 2],
        [1, 2, 21, 22, 2, 23, 24, 2],
        [1, 11, 12, 13, 2, 2],
    ]
    assert pairs.lengths.tolist() == [len(row) for row in expected]
    assert ids.tolist() == [row + [0] * (16 - len(row)) for row in expected]
    first, second = [5, 6, 2, 2, 5], [6, 6, 1, 6, 1]
    assert types.tolist() == [
        [0] * one + [1] * other + [0] * (16 - one - other) for one, other in zip(first, second, strict=True)
    ]


def test_they_are_what_the_tokenizer_makes_of_two_texts(files: Files) -> None:
    """The passage's `title [SEP] text` is the second text."""
    tokenizer = AutoTokenizer.from_pretrained(files.backbone)
    queries, passages = TokenShards([files.root / "queries"]), TokenShards(files.tokens)
    asked, found = np.arange(20), np.arange(20) * 7 % 60
    pairs = pair_windows(
        queries, asked, passages, found, query_length=512, passage_length=512, num_separators=1
    )
    ids, types = pack_pairs(
        *(queries, passages, pairs),
        Tokenizer(files.backbone),
    )
    titled = 0
    for row, (query, number) in enumerate(zip(files.queries, found, strict=True)):
        passage = files.passages[number]
        titled += bool(passage.title)
        text = f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text
        expected = tokenizer(query.text, text, return_token_type_ids=True, verbose=False)
        length = pairs.lengths[row]
        assert ids[row, :length].tolist() == expected["input_ids"]
        assert types[row, :length].tolist() == expected["token_type_ids"]
        assert set(ids[row, length:].tolist()) <= {tokenizer.pad_token_id}
    assert 0 < titled < 20


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "mpnet", "modernbert"])
def test_between_two_texts_are_as_many_separators_as_the_library_writes(tmp_path: Path, kind: str) -> None:
    library = tokenizer_of(kind, TEXTS)
    library.save_pretrained(tmp_path)
    pair = library("cat", "mat")["input_ids"]
    assert Tokenizer(tmp_path).num_separators == pair.count(library.sep_token_id) - 1
