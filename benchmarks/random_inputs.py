"""Random inputs of the stages that compute on a GPU, for benchmarks/steps.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from condenser.data.records import Query, TrainExample, write_examples, write_queries
from condenser.data.tokens import Tokenizer, packed_counts
from condenser.experiment import home, root
from condenser.files import save_npy
from condenser.model.backbone import backbone_from, new_backbone
from condenser.pipeline.costs.data import checkpoint_shape
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.costs.texts import Texts, assumed_passages, assumed_queries, assumed_texts
from condenser.shards import shard_files


def write_inputs(
    folder: Path,
    config: dict[str, Any],
    stages: Mapping[str, Any],
    *,
    tables: Tables,
    counts: Mapping[str, int],
    initial: Path | None,
    dataset: str,
    mean_tokens: float | None,
    variation: float,
) -> None:
    """Write a backbone, and random tokens that last for `counts` batches of each stage.

    The backbone has the shape of the checkpoint below the first model of `stages`. Texts are as long as the
    plan assumes for `dataset`, or `mean_tokens` on average with `variation` (standard deviation over mean).
    Queries, examples and ids go with the tokens of the stage train.
    """
    random = np.random.default_rng(config["seed"])
    if initial is None:
        checkpoint = root(config, next(name for name in stages if name in config["models"]))
        wanted = checkpoint_shape(config["models"][checkpoint], tables)
        texts = (f"w{number} w{number}" for number in range(wanted.vocab_size))
        names = ("num_layers", "hidden_size", "intermediate_size", "num_heads", "vocab_size", "max_positions")
        of_backbone = dict(zip(names, astuple(wanted), strict=False))  # without the head's layers
        new_backbone(folder / "backbone", shape=of_backbone, texts=texts, seed=config["seed"])
    else:
        backbone_from(initial, folder / "backbone", seed=config["seed"])

    for stage, settings in stages.items():
        corpus = home(config, stage, dataset) if stage in config["models"] else dataset
        if mean_tokens is None:
            texts = assumed_passages(config["datasets"][corpus], tables)
        else:
            asked = {"tokens": str(mean_tokens), "variation": str(variation), "title_tokens": "0"}
            texts = assumed_texts(tables.row("collections", "msmarco") | asked, 1, why="--tokens")
        num_rows = _rows_needed(stage, settings, counts[stage])
        write_random_tokens(folder, f"{stage}.0-of-1", texts, num_rows, random)
        (folder / f"{stage}.doc_ids.txt").write_text("".join(f"{row}\n" for row in range(num_rows)))
        if stage == "train":
            split, sample = config["datasets"][dataset]["train_split"], settings["negatives"]["sample"]
            num_queries = counts[stage] * settings["batch_size"]
            texts = assumed_queries(config["datasets"][dataset], split, tables)
            write_random_tokens(folder, "queries.train", texts, num_queries, random)
            write_queries(folder / "queries.jsonl", (Query(str(row), "") for row in range(num_queries)))
            drawn = (random.choice(num_rows, size=1 + sample, replace=False) for _ in range(num_queries))
            ids = (tuple(map(str, rows)) for rows in drawn)
            examples = (TrainExample(str(row), some[:1], some[1:]) for row, some in enumerate(ids))
            write_examples(folder / "examples.jsonl", examples)


def _rows_needed(stage: str, settings: Mapping[str, Any], count: int) -> int:
    """Texts for `count` batches of a stage."""
    if stage == "encode":
        return count * settings["block_rows"] + 1  # a block ends when the next one begins
    if stage == "train":
        passages = settings["batch_size"] * settings["passages_per_query"]
        return max(count * passages, 1 + settings["negatives"]["sample"])
    return 2 * count * settings["batch_size"]  # an objective may leave out short texts


def write_random_tokens(
    folder: Path, name: str, texts: Texts, num_rows: int, random: np.random.Generator
) -> None:
    """A token shard whose rows are as long as random rows of the sample `texts`."""
    sentences = [texts.sentences[row] for row in random.choice(texts.num_rows, size=num_rows)]
    lengths = np.array([length for row in sentences for length in row])
    nums = np.array([len(row) for row in sentences])
    tokenizer = Tokenizer(folder / "backbone")
    tokens = random.choice(tokenizer.random_ids, size=lengths.sum())
    parts = (tokens.astype(tokenizer.dtype), packed_counts(lengths), packed_counts(nums))
    for file, numbers in zip(shard_files(folder / name), parts, strict=True):
        save_npy(file, numbers)
