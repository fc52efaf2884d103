"""How long texts are: counted beside their shards, chosen by `auto`, and said to be cut."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import do

from condenser.blocks import AutoLengths, Lengths
from condenser.data.batches import row_windows
from condenser.data.lengths import (
    TextLengths,
    TokenCounts,
    counts_of,
    read_text_lengths,
    resolve_lengths,
    total,
)
from condenser.data.records import Passage, write_passages
from condenser.data.tokens import Tokenizer, TokenShards, tokenise_collection
from condenser.files import read_json, write_json
from condenser.model.text_vector import TextVector, write_text_vector
from condenser.settings import partly
from condenser.shards import counts_file
from tests.token_shards import real_tokenizer_folder

AUTO_LENGTHS = partly(AutoLengths, {"share": 0.95, "multiple": 8})
NO_PROMPTS = {"query": 0, "passage": 0}
WORDS = ["river", "mill", "stone", "electroencephalogram", "wool"]


def in_shards(folder: Path, passages: list[Passage], num_shards: int) -> list[Path]:
    """The token shards of a collection."""
    folder.mkdir()
    write_passages(folder / "c.jsonl", passages)
    (folder / "ids.txt").write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    tokenizer, prefixes = Tokenizer(real_tokenizer_folder()), []
    for number in range(num_shards):
        prefixes.append(folder / f"c.{number}-of-{num_shards}")
        tokenise_collection(
            *(folder / "c.jsonl", folder / "ids.txt", prefixes[-1], tokenizer),
            **{"shard": f"{number}-of-{num_shards}", "multiple_of": 1, "leading_separator": False},
            batch_size=3,
        )
    return prefixes


@pytest.fixture
def passages() -> list[Passage]:
    random = np.random.default_rng(3)
    return [
        Passage(f"d{row}", "Title" if row % 3 else "", " ".join(random.choice(WORDS, row % 9)))
        for row in range(1, 30)
    ]


def test_counts_of_shards_add_up_to_those_of_the_whole_and_are_what_an_encoder_reads(
    tmp_path: Path, passages: list[Passage]
) -> None:
    (whole,) = in_shards(tmp_path / "one", passages, 1)
    parts = [counts_of(read_json(counts_file(one))) for one in in_shards(tmp_path / "four", passages, 4)]
    counts = counts_of(read_json(counts_file(whole)))
    assert total(parts) == counts and counts.num_rows == 29
    shards = TokenShards([whole])
    _, uncut = row_windows(shards, np.arange(29), max_tokens=1000)
    _, cut = row_windows(shards, np.arange(29), max_tokens=9)
    assert counts.num_tokens == uncut.sum() and counts.tokens_above(9) == (uncut - cut).sum() > 0
    assert counts.rows_above(9) == (uncut > cut).sum()


def test_words_are_those_of_the_text_and_unknown_ones_those_that_become_unk(tmp_path: Path) -> None:
    rows = [
        Passage("a", "River mill", "wool, electroencephalogram."),
        Passage("b", "", "wool \U00012345\U00012346 q"),
    ]
    (prefix,) = in_shards(tmp_path / "t", rows, 1)
    counts = counts_of(read_json(counts_file(prefix)))
    assert (counts.num_words, counts.num_unknown) == (6 + 3, 1)  # two are punctuation marks
    assert counts.unknown_share == pytest.approx(1 / 9)


@given(st.lists(st.integers(0, 600), min_size=1, max_size=60))
def test_auto_is_the_least_multiple_of_8_that_leaves_95_percent_whole(lengths: list[int]) -> None:
    counts = TokenCounts()
    counts.add(np.array(lengths), num_words=0)
    of_rows = [length + 2 for length in lengths]
    fit = [at for at in range(8, 1000, 8) if sum(one <= at for one in of_rows) >= 0.95 * len(of_rows)]
    assert counts.covering(0.95, multiple=8, num_positions=10_000) == fit[0]
    assert counts.covering(0.95, multiple=8, num_positions=100) == min(fit[0], 100)


@pytest.mark.parametrize(("num_short", "expected"), [(95, 24), (94, 40)])
def test_the_share_itself_is_enough_to_be_left_whole(num_short: int, expected: int) -> None:
    counts = TokenCounts(rows=Counter({20: num_short, 40: 100 - num_short}))
    assert counts.covering(0.95, multiple=8, num_positions=512) == expected


def test_counts_of_several_shards_are_sums() -> None:
    parts = [TokenCounts(9, 2, Counter({5: 1, 7: 2})), TokenCounts(4, 1, Counter({7: 3}))]
    assert total(parts) == TokenCounts(13, 3, Counter({5: 1, 7: 5}))


def text_lengths(prompts: dict[str, int] | None = None) -> TextLengths:
    return TextLengths(
        512,
        TokenCounts(100, 37, Counter({100: 90, 171: 8, 900: 2})),
        {"train": TokenCounts(9, 0, Counter({20: 10})), "dev": TokenCounts(9, 0, Counter({41: 10}))},
        NO_PROMPTS if prompts is None else prompts,
        AUTO_LENGTHS,
    )


def test_a_prompt_counts_within_the_length_of_a_bi_encoder_alone() -> None:
    texts = text_lengths({"query": 8, "passage": 3})
    both: dict[str, Any] = {"query": "auto", "passage": "auto"}
    assert texts.resolve(both, in_one_row=False) == {"query": 56, "passage": 176}  # 41 + 8, 171 + 3
    assert texts.resolve({"passage": "auto", "query": 32}, in_one_row=True)["passage"] == 176
    ((said, num_cut),) = texts.cuts({"query": 64, "passage": 173}, splits=["dev"], in_one_row=False)
    assert num_cut == 10 and said.startswith("10 of 100 passages")  # 171 tokens behind a prompt of 3
    assert text_lengths().cuts({"query": 64, "passage": 173}, splits=["dev"], in_one_row=False)[0][1] == 2


def test_lengths_are_resolved_alike_in_every_job_and_only_where_they_are_auto(tmp_path: Path) -> None:
    texts, file = text_lengths(), tmp_path / "lengths.json"
    texts.write(file)
    assert read_text_lengths(file) == texts
    both: dict[str, Any] = {"query": "auto", "passage": "auto"}
    for lengths, expected, read in (
        (both, {"query": 48, "passage": 176}, file),
        ({"passage": "auto"}, {"passage": 176}, file),
        ({"query": 32, "passage": 128}, {"query": 32, "passage": 128}, None),
        ({"query": 32, "passage": "auto"}, {"query": 32, "passage": 176}, file),
    ):
        assert vars(resolve_lengths(partly(Lengths, lengths), read)) == expected


def test_auto_of_a_cross_encoder_leaves_room_for_the_query() -> None:
    texts = TextLengths(512, TokenCounts(rows=Counter({2000: 3})), {}, NO_PROMPTS, AUTO_LENGTHS)
    lengths: dict[str, Any] = {"query": 33, "passage": "auto"}
    assert texts.resolve(lengths, in_one_row=False) == {"query": 33, "passage": 512}
    assert texts.resolve(lengths, in_one_row=True) == {"query": 33, "passage": 480}  # they share a [CLS]


def test_what_is_cut_is_said_of_passages_always_and_of_queries_where_it_happens() -> None:
    fixed = text_lengths().cuts({"query": 32, "passage": 128}, splits=["train", "dev"], in_one_row=False)
    unread = (8 * (171 - 128) + 2 * (900 - 128)) / (90 * 98 + 8 * 169 + 2 * 898)
    assert fixed == [
        (f"10 of 100 passages (10.0 %) are longer than 128 tokens; {100 * unread:.1f} % of the tokens are "
         "never read.", 10),
        ("10 of 10 dev queries (100.0 %) are longer than 32 tokens; 23.1 % of the tokens are never "
         "read.", 10),
    ]  # fmt: skip
    passages, queries = text_lengths().cuts(
        {"query": "auto", "passage": 900}, splits=["dev"], in_one_row=False
    )
    assert passages == ("None of the 100 passages is longer than 900 tokens.", 0)
    assert queries[0] == "lengths.query: auto is 48. None of the 10 dev queries is longer than 48 tokens."


def test_the_program_adds_up_the_counts_and_reads_the_positions(
    tmp_path: Path, passages: list[Passage]
) -> None:
    counts = [counts_file(prefix) for prefix in in_shards(tmp_path / "t", passages, 3)]
    model = tmp_path / "model"
    shutil.copytree(real_tokenizer_folder(), model)
    (model / "config.json").write_text('{"model_type": "bert", "max_position_embeddings": 77}')
    write_text_vector(TextVector(query_prompt="wool: "), model, dim=8, assumed=[["inner_product"]])
    queries = tmp_path / "queries.dev.counts.json"
    write_json(queries, TokenCounts(5, 1, Counter({7: 2})).as_json())
    do(
        "lengths",
        settings={"auto_lengths": vars(AUTO_LENGTHS)},
        input={"model": model / "model.safetensors", "passages": counts, "queries": [queries]},
        output={"lengths": tmp_path / "lengths.json", "manifest": tmp_path / "m.json"},
    )
    found = read_text_lengths(tmp_path / "lengths.json")
    assert found.num_positions == 77 and found.passages.num_rows == 29
    assert found.queries == {"dev": TokenCounts(5, 1, Counter({7: 2}))}
    assert found.prompts == {"query": 2, "passage": 0}  # "wool", ":"
    assert "the inner product is assumed" in found.assumed[0]
