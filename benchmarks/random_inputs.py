"""Random inputs of the stages that compute on a GPU, for benchmarks/steps.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from condenser.data.records import Query, TrainExample, write_examples, write_queries
from condenser.data.tokens import Tokenizer, shard_files
from condenser.files import save_npy
from condenser.model.backbone import prepare_backbone
from condenser.pipeline.costs.sizes import Counted, backbone_shape, collection_size, query_size
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.costs.texts import Texts, assumed_texts


def write_inputs(
    folder: Path,
    config: dict[str, Any],
    *,
    tables: Tables,
    counts: Mapping[str, int],
    initial: Path | None,
    dataset: str,
    mean_tokens: float | None,
    variation: float,
) -> None:
    """Write a backbone, and random tokens that last for `counts` batches of each stage.

    Texts are as long as the plan assumes for `dataset`, or `mean_tokens` on average with `variation`
    (standard deviation over mean). Queries, examples and ids go with the tokens of the stage retriever.
    """
    random = np.random.default_rng(config["seed"])
    source: dict[str, Any] = dict.fromkeys(("hub_id", "revision", "mirror", "path", "shape", "texts"))
    if initial is None:
        wanted = backbone_shape(config, tables)
        source["texts"] = (f"w{number} w{number}" for number in range(wanted.vocab_size))
        source["shape"] = {
            "hidden_size": wanted.dim, "num_layers": wanted.num_layers, "num_heads": wanted.num_heads,
            "intermediate_size": wanted.feed_forward, "vocab_size": wanted.vocab_size,
            "max_positions": wanted.max_positions,
        }  # fmt: skip
    kind = "folder" if initial else "scratch"
    prepare_backbone(kind, folder / "backbone", seed=config["seed"], **source | {"path": initial})

    for stage, count in counts.items():
        if mean_tokens is None:
            corpus = config[stage]["corpus"] if stage in ("condenser", "cocondenser") else "collection"
            name = dataset if corpus == "collection" else corpus
            texts = collection_size(config, name, Counted({}), tables, num_shards=1).texts
        else:
            sentence = float(tables.collections["msmarco"]["sentence_tokens"])
            texts = assumed_texts(
                1, mean_tokens=mean_tokens, variation=variation, sentence_tokens=sentence, title_tokens=0
            )
        least, num_rows = rows_needed(config, stage, count)
        write_random_tokens(folder, f"{stage}.0-of-1", texts, least, num_rows, random)
        (folder / f"{stage}.doc_ids.txt").write_text("".join(f"{row}\n" for row in range(num_rows)))
        if stage == "retriever":
            split, sample = config["datasets"][dataset]["train_split"], config["negatives"]["sample"]
            num_queries = count * config["finetune"]["batch_size"]
            texts = query_size(config, dataset, split, Counted({}), tables, num_passages=num_rows).texts
            write_random_tokens(folder, "queries.train", texts, 0, num_queries, random)
            write_queries(folder / "queries.jsonl", (Query(str(row), "") for row in range(num_queries)))
            drawn = (random.choice(num_rows, size=1 + sample, replace=False) for _ in range(num_queries))
            ids = (tuple(map(str, rows)) for rows in drawn)
            examples = (TrainExample(str(row), some[:1], some[1:]) for row, some in enumerate(ids))
            write_examples(folder / "examples.jsonl", examples)


def rows_needed(config: Mapping[str, Any], stage: str, count: int) -> tuple[int, int]:
    """The least tokens of a text that the stage uses, and how many such texts `count` batches need."""
    if stage == "condenser":
        return 1, count * config["condenser"]["batch_size"]
    if stage == "cocondenser":
        return 2 * config["cocondenser"]["min_span_tokens"], count * config["cocondenser"]["batch_size"]
    if stage == "retriever":
        passages = config["finetune"]["batch_size"] * config["finetune"]["passages_per_query"]
        return 0, max(count * passages, 1 + config["negatives"]["sample"])
    return 0, count * config["encode"]["block_rows"] + 1  # a block ends when the next one begins


def write_random_tokens(
    folder: Path, name: str, texts: Texts, least: int, num_rows: int, random: np.random.Generator
) -> None:
    """A token shard whose rows are as long as rows of the sample `texts` with `least` tokens or more."""
    shares = np.array(texts.weights) * [sum(row) >= least for row in texts.sentences]
    if not shares.any():
        raise ValueError(f"--tokens: expected some texts of {least} tokens or more, got only shorter ones.")
    rows = random.choice(len(shares), size=num_rows, p=shares / shares.sum())
    sentences = [[texts.titles[row], *texts.sentences[row]] for row in rows]
    lengths = np.array([length for row in sentences for length in row], dtype=np.uint16)
    nums = np.array([len(row) for row in sentences], dtype=np.uint16)
    tokenizer = Tokenizer(folder / "backbone")
    tokens = random.choice(tokenizer.random_ids, size=int(lengths.sum(dtype=np.int64)))
    for file, numbers in zip(
        shard_files(folder / name), (tokens.astype(tokenizer.dtype), lengths, nums), strict=True
    ):
        save_npy(file, numbers)
