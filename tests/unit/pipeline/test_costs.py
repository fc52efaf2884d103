"""The plan of costs against counting by machine, by hand, and by the code it speaks of."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from condenser.pipeline.stages import STAGES
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from condenser.config import validated
from condenser.data.batches import length_chunks, pack_texts
from condenser.data.blocks import pack_blocks
from condenser.data.spans import sample_spans, span_documents
from condenser.data.tokens import TokenShards
from condenser.files import read_json, save_npy, write_json
from condenser.model.devices import Gpu, claim_gpus
from condenser.model.dropout import dropout
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.pipeline.costs import arithmetic, texts
from condenser.pipeline.costs.arithmetic import Chunk, Shape
from condenser.pipeline.costs.measure import measure_device
from condenser.pipeline.costs.plan import (
    COLUMNS,
    PlanRow,
    current_manifests,
    job_seconds,
    make_plan,
)
from condenser.pipeline.costs.tables import Tables, read_tables
from condenser.retrieve.encode import token_batches
from condenser.train.pretrain import graph_bytes

SMALL = Shape(num_layers=4, dim=32, feed_forward=64, num_heads=4, vocab_size=200, max_positions=64)
BERT_BASE = Shape(
    num_layers=12, dim=768, feed_forward=3072, num_heads=12, vocab_size=30522, max_positions=512
)


@pytest.fixture(scope="module")
def tables(root_folder: Path) -> Tables:
    return read_tables(root_folder / "condenser" / "pipeline" / "costs" / "tables")


@pytest.fixture(scope="module")
def root_folder() -> Path:
    return Path(__file__).resolve().parents[3]


def configured(root_folder: Path, overlay: dict[str, Any]) -> dict[str, Any]:
    """The embedded default under an overlay, as Snakemake merges them."""
    config = yaml.safe_load((root_folder / "config.yaml").read_text())
    for block, settings in overlay.items():
        config[block] = config[block] | settings if block != "backbone" else settings
    return validated(config)


@pytest.fixture(scope="module")
def paper(root_folder: Path) -> dict[str, Any]:
    return configured(root_folder, yaml.safe_load((root_folder / "configs" / "paper.yaml").read_text()))


def rows_by_stage(rows: list[PlanRow]) -> dict[str, PlanRow]:
    return {row.stage: row for row in rows}


# -- one forward and backward pass ------------------------------------------------------------


def small_backbone() -> BertModel:
    config = BertConfig(
        vocab_size=SMALL.vocab_size,
        hidden_size=SMALL.dim,
        num_hidden_layers=SMALL.num_layers,
        num_attention_heads=SMALL.num_heads,
        intermediate_size=SMALL.feed_forward,
        max_position_embeddings=SMALL.max_positions,
    )
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return BertModel(config)


def small_condenser(*, num_head_layers: int, use_late_mlm: bool) -> Condenser:
    backbone = small_backbone()
    return Condenser(
        backbone,
        MaskedLanguageHead(backbone.config),
        num_head_layers=num_head_layers,
        skip_from=2,
        use_late_mlm=use_late_mlm,
        seed=1,
    )


def counted_flops(work: Any) -> int:
    """Matrix products of forward and backward pass, counted by PyTorch."""
    torch.set_num_threads(1)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


@pytest.mark.parametrize(("num_head_layers", "use_late_mlm"), [(2, True), (2, False), (1, True)])
def test_a_condenser_step_has_the_operations_that_pytorch_counts(
    num_head_layers: int, use_late_mlm: bool
) -> None:
    model = small_condenser(num_head_layers=num_head_layers, use_late_mlm=use_late_mlm)
    ids = torch.randint(0, SMALL.vocab_size, (6, 40))
    masked = torch.randperm(6 * 40)[:36]

    def step() -> None:
        output = model(ids, None, masked)
        late = output.late_logits.sum() if output.late_logits is not None else 0.0
        (output.head_logits.sum() + late).backward()

    chunk = Chunk(6, 40, 36)
    forward = arithmetic.condenser_flops(
        SMALL, chunk, num_head_layers=num_head_layers, use_late_mlm=use_late_mlm
    )
    assert 3 * forward == pytest.approx(counted_flops(step), rel=0.02)


def test_a_retriever_step_has_the_operations_that_pytorch_counts() -> None:
    model = Retriever(small_backbone())
    ids = torch.randint(0, SMALL.vocab_size, (5, 24))
    forward = arithmetic.encoder_flops(SMALL, Chunk(5, 24, 0))
    assert 3 * forward == pytest.approx(counted_flops(lambda: model(ids, None).sum().backward()), rel=0.02)
    with torch.no_grad():
        assert forward == pytest.approx(counted_flops(lambda: model(ids, None)), rel=0.001)


def test_the_first_pass_of_the_gradient_cache_has_the_operations_of_an_encoder() -> None:
    model = small_condenser(num_head_layers=2, use_late_mlm=True)
    ids = torch.randint(0, SMALL.vocab_size, (5, 24))
    with torch.no_grad():
        counted = counted_flops(lambda: model.late_cls(ids, None))
    assert arithmetic.encoder_flops(SMALL, Chunk(5, 24, 0)) == pytest.approx(counted, rel=0.001)


@pytest.mark.parametrize("num_head_layers", [1, 3])
def test_weights_are_those_of_the_model(num_head_layers: int) -> None:
    model = small_condenser(num_head_layers=num_head_layers, use_late_mlm=True)
    assert arithmetic.backbone_weights(SMALL) == sum(w.numel() for w in model.backbone.parameters())
    whole = arithmetic.condenser_weights(SMALL, num_head_layers=num_head_layers)
    assert whole == sum(weight.numel() for weight in model.parameters())


def test_bert_base_has_its_published_109_million_weights() -> None:
    assert arithmetic.backbone_weights(BERT_BASE) == 109_482_240


def test_the_embedded_backbone_is_what_the_tables_say(tables: Tables) -> None:
    from condenser.model.backbone import embedded_folder

    settings = json.loads((embedded_folder() / "config.json").read_text())
    shape = tables.shape("embedded")
    names = {
        "num_layers": "num_hidden_layers",
        "dim": "hidden_size",
        "feed_forward": "intermediate_size",
        "num_heads": "num_attention_heads",
        "vocab_size": "vocab_size",
        "max_positions": "max_position_embeddings",
    }
    assert all(getattr(shape, ours) == settings[theirs] for ours, theirs in names.items())


def test_the_plan_foresees_the_gradient_cache_as_training_decides_it() -> None:
    from condenser.train.gradient_cache import Chunk as TrainingChunk
    from condenser.train.pretrain import MaskedRows

    model = small_condenser(num_head_layers=2, use_late_mlm=True)
    chunks, training_chunks = [], []
    for rows, width, masked in ((4, 16, 9), (3, 24, 10)):
        inputs = MaskedRows(
            torch.zeros(rows, width, dtype=torch.int64),
            None,
            torch.arange(masked),
            torch.zeros(masked, dtype=torch.int64),
        )
        training_chunks.append(TrainingChunk("spans", torch.arange(rows), inputs, 0))
        chunks.append(Chunk(rows, width, masked))
    numbers = arithmetic.graph_numbers(SMALL, chunks, num_layers=SMALL.num_layers + 2, num_mlm_heads=2)
    assert 4 * numbers == graph_bytes(training_chunks, model)


# -- texts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shards of 700 rows in all, some with a title, some without a token."""
    random = np.random.default_rng(7)
    folder, prefixes = tmp_path_factory.mktemp("tokens"), []
    for index, num_rows in enumerate((300, 400)):
        rows = []
        for _ in range(num_rows):
            title = int(random.integers(0, 8))
            sentences = random.integers(1, 60, size=int(random.integers(0, 9))).tolist()
            rows.append([title, *sentences])
        lengths = np.array([length for row in rows for length in row], dtype=np.uint16)
        prefix = folder / f"collection.{index}-of-2"
        save_npy(f"{prefix}.tokens.npy", random.integers(5, 60, size=int(lengths.sum())).astype(np.uint16))
        save_npy(f"{prefix}.sentence_lengths.npy", lengths)
        save_npy(f"{prefix}.num_sentences.npy", np.array([len(row) for row in rows], dtype=np.uint16))
        prefixes.append(prefix)
    return prefixes


def test_counted_texts_are_those_of_the_shards(shards: list[Path]) -> None:
    counted, real = texts.counted_texts(shards), TokenShards(shards)
    assert counted.num_rows == pytest.approx(real.num_rows)
    assert counted.num_tokens == pytest.approx(real.row_starts[-1])
    lengths = texts.passages(counted, max_tokens=64).lengths
    assert sorted(lengths) == sorted(np.minimum(np.diff(real.row_starts) + 2, 64))


def test_a_sample_of_a_larger_collection_stands_for_all_of_it(
    shards: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "SAMPLE_ROWS", 350)
    counted, real = texts.counted_texts(shards), TokenShards(shards)
    assert len(counted.weights) == 350
    assert counted.num_rows == pytest.approx(real.num_rows)
    assert counted.num_tokens == pytest.approx(real.row_starts[-1], rel=0.08)


@pytest.mark.parametrize("short_probability", [0.0, 0.1, 1.0])
def test_blocks_are_as_many_and_as_long_as_training_packs(
    shards: list[Path], short_probability: float
) -> None:
    planned = texts.blocks(texts.counted_texts(shards), max_tokens=62, short_probability=short_probability)
    packed = pack_blocks(TokenShards(shards), max_tokens=62, short_probability=short_probability, seed=3)
    exact = 1e-9 if short_probability == 0 else 0.03
    assert planned.num_rows == pytest.approx(len(packed), rel=exact)
    assert planned.num_tokens == pytest.approx((np.minimum(packed.lengths, 62) + 2).sum(), rel=exact)


def test_spans_are_as_many_and_as_long_as_training_samples(shards: list[Path]) -> None:
    planned = texts.spans(
        texts.counted_texts(shards), min_tokens=10, span_tokens=(40, 60), short_probability=0.1
    )
    real = TokenShards(shards)
    documents = span_documents(real, min_tokens=10)
    _, lengths = sample_spans(
        real,
        documents,
        np.arange(len(documents)),
        is_continuation=np.zeros(60, dtype=bool),
        min_tokens=10,
        lengths=(40, 60),
        short_probability=0.1,
        seed=3,
        epoch=0,
    )
    assert planned.num_rows == 2 * len(documents)
    assert planned.num_tokens == pytest.approx((lengths + 2).sum(), rel=0.02)


def test_a_batch_is_padded_as_training_pads_it(shards: list[Path]) -> None:
    real = TokenShards(shards)
    rows = np.flatnonzero(np.diff(real.row_starts) < 500)[:96]
    starts, lengths = real.row_starts[rows], np.diff(real.row_starts)[rows]
    padded = [
        pack_texts(real, starts[chunk], lengths[chunk], cls_id=1, sep_id=2, pad_id=0)[0].shape
        for chunk in length_chunks(lengths, rows_per_chunk=20)
    ]
    planned = texts.length_chunks(np.sort(lengths + 2), rows_per_chunk=20, mask_probability=0.15)
    assert [(chunk.rows, chunk.width) for chunk in planned] == padded


def test_batches_of_encoding_are_cut_as_encoding_cuts_them(shards: list[Path]) -> None:
    lengths = np.minimum(np.diff(TokenShards(shards).row_starts) + 2, 128)
    cut = [
        (len(batch), -(-int(lengths[batch].max()) // 8) * 8)
        for batch in token_batches(lengths, batch_tokens=2048)
    ]
    planned = texts.token_chunks(np.sort(lengths), batch_tokens=2048)
    assert [(chunk.rows, chunk.width) for chunk in planned] == cut


def test_assumed_texts_have_the_mean_and_spread_asked_for() -> None:
    assumed = texts.assumed_texts(5000, mean_tokens=80, variation=0.5, sentence_tokens=20, title_tokens=0)
    lengths = [sum(row) for row in assumed.sentences]
    assert assumed.num_rows == pytest.approx(5000)
    assert statistics.mean(lengths) == pytest.approx(80, rel=0.01)
    assert statistics.pstdev(lengths) / statistics.mean(lengths) == pytest.approx(0.5, rel=0.03)
    assert assumed.num_tokens / assumed.num_sentences == pytest.approx(20, rel=0.15)


def test_masked_positions_follow_the_budget_of_each_row() -> None:
    (chunk,) = texts.length_chunks(np.array([5, 12, 102]), rows_per_chunk=3, mask_probability=0.15)
    assert chunk.masked == 1 + 2 + 15  # max(1, round(.45)), round(1.5) to even, 15


def test_an_average_batch_follows_the_weights() -> None:
    lengths = texts.Lengths(np.array([30, 10]), np.array([3.0, 1.0]))
    assert texts.even_batch(lengths, num_rows=4).tolist() == [10, 30, 30, 30]


# -- the papers' scale by hand -----------------------------------------------------------------

# BERT-base: 768 wide, 3,072 in the feed-forward, 30,522 words. A matrix of a x b costs a token 2 a b.
SQUARE = 2 * 768 * 768  # query, key, value or output projection
FEED_FORWARD = 2 * 2 * 768 * 3072  # up and down
WORDS = 2 * 768 * 30_522  # logits
NUM_PASSAGES = 8_841_823
MEAN_TOKENS, VARIATION, TITLE_TOKENS = 75, 0.45, 9  # collections.tsv, msmarco


def hand_widths(lengths: np.ndarray, num_groups: int) -> np.ndarray:
    """Widths of sorted rows, in groups of equal size, each as wide as its longest, to a multiple of 8."""
    groups = np.array_split(np.sort(lengths), num_groups)
    return np.concatenate([np.full(len(group), np.ceil(group[-1] / 8) * 8) for group in groups])


def hand_lengths(mean: float, variation: float) -> np.ndarray:
    """Lengths of many texts, drawn log-normally."""
    spread = math.sqrt(math.log(1 + variation**2))
    drawn = np.random.default_rng(11).lognormal(math.log(mean) - spread**2 / 2, spread, 100_000)
    return np.maximum(1, drawn.round())


def hand_blocks(lengths: np.ndarray, sentence_tokens: float) -> list[float]:
    """Blocks that texts are packed into: at most 126 tokens, whole sentences, one target in ten short."""
    random = np.random.default_rng(5)
    found = []
    for length in lengths:
        block, target, left = 0.0, 0.0, length
        while left > 0:
            sentence = min(left, max(1, round(random.uniform(0.4, 1.6) * sentence_tokens)))
            if block == 0 or block + sentence > target:
                found.append(min(block, 126))
                block, target = 0.0, 126 if random.random() > 0.1 else random.integers(1, 127)
            block, left = block + sentence, left - sentence
        found.append(min(block, 126))
    return [block for block in found if block]


def hand_layer(tokens: float, keys: float) -> float:
    """A whole layer at `tokens` positions, each of which looks at `keys`: scores, then values."""
    return tokens * (4 * SQUARE + FEED_FORWARD + 2 * 2 * 768 * keys)


def hand_encoder(width: float) -> float:
    """Eleven layers everywhere; of the twelfth keys and values, and all of it at [CLS]."""
    at_cls = 2 * SQUARE + FEED_FORWARD + 2 * 2 * 768 * width
    return 11 * hand_layer(width, width) + 2 * SQUARE * width + at_cls


def hand_condenser(width: float, masked: float) -> float:
    """The encoder; the twelfth layer at masked words; two head layers, the last at masked words; logits."""
    at_masked = masked * (SQUARE + FEED_FORWARD) + width * (SQUARE + 2 * 2 * 768 * width)
    head = hand_layer(width, width) + 2 * SQUARE * width + at_masked
    return hand_encoder(width) + at_masked + head + 2 * masked * (SQUARE + WORDS)


@pytest.fixture(scope="module")
def paper_plan(paper: dict[str, Any], tables: Tables) -> dict[str, PlanRow]:
    return rows_by_stage(make_plan(paper, "msmarco", [], tables=tables, device=tables.device("H200")))


def test_condenser_pre_training_at_the_papers_scale_agrees_with_a_hand_calculation(
    paper: dict[str, Any], paper_plan: dict[str, PlanRow]
) -> None:
    assert (paper["condenser"]["epochs"], paper["condenser"]["batch_size"]) == (8, 1024)
    counts, kinds = [], []
    parts = paper["datasets"]["wikibook"]["parts"]
    for part, (rows, mean, variation, sentence) in zip(
        parts, [(51_000_000, 87, 0.8, 25), (74_004_228, 15, 0.6, 15)], strict=True
    ):
        joined = part.get("rows_per_passage") or 1
        lengths = hand_lengths(mean * joined, variation)[:5000]
        kinds.append(np.array(hand_blocks(lengths, sentence)))
        counts.append(rows / joined * len(kinds[-1]) / len(lengths))
    # as many blocks of either kind as there are, in batches of 1,024 that are computed 128 at a time
    shares = [round(20_000 * count / sum(counts)) for count in counts]
    random = np.random.default_rng(3)
    blocks = np.concatenate([random.choice(kind, share) for kind, share in zip(kinds, shares, strict=True)])
    widths = hand_widths(blocks + 2, 1024 // 128)
    a_block = np.mean(hand_condenser(widths, np.maximum(1, 0.15 * np.sort(blocks))))
    total = 3 * 8 * a_block * sum(counts)
    assert paper_plan["pretrain_condenser wikibook"].flops == pytest.approx(total, rel=0.05)


def test_cocondenser_pre_training_at_the_papers_scale_agrees_with_a_hand_calculation(
    paper: dict[str, Any], paper_plan: dict[str, PlanRow]
) -> None:
    settings = paper["cocondenser"]
    assert (settings["epochs"], settings["batch_size"], settings["min_span_tokens"]) == (8, 2048, 16)
    lengths = hand_lengths(MEAN_TOKENS, VARIATION)
    long_enough = np.repeat(lengths[lengths >= 2 * 16], 2)  # two spans each
    random = np.random.default_rng(2)
    asked = np.where(
        random.random(len(long_enough)) < 0.1,
        random.integers(16, 81, len(long_enough)),
        random.integers(80, 129, len(long_enough)),
    )
    spans = np.minimum(asked, long_enough // 2)  # the two do not overlap
    widths = hand_widths(spans + 2, 4096 // 128)
    once = np.mean(hand_condenser(widths, 0.15 * np.sort(spans)))
    # 4,096 graphs of a span do not fit beside one another, so every span is encoded once more before
    num_spans = NUM_PASSAGES * len(long_enough) / len(lengths)
    total = 8 * num_spans * (3 * once + np.mean(hand_encoder(widths)))
    assert paper_plan["pretrain_cocondenser"].flops == pytest.approx(total, rel=0.05)
    assert "with the gradient cache" in paper_plan["pretrain_cocondenser"].assumption


def test_fine_tuning_and_retrieval_at_the_papers_scale_agree_with_a_hand_calculation(
    paper: dict[str, Any], paper_plan: dict[str, PlanRow]
) -> None:
    # mean of min(X, limit) of a log-normal X in closed form, limit = 128 less two specials and the title
    limit, spread = 128 - 2 - TITLE_TOKENS, math.sqrt(math.log(1 + VARIATION**2))
    location = math.log(MEAN_TOKENS) - spread**2 / 2
    normal, z = statistics.NormalDist(), (math.log(limit) - location) / spread
    mean = MEAN_TOKENS * normal.cdf(z - spread) + limit * (1 - normal.cdf(z)) + TITLE_TOKENS + 2
    assert mean == pytest.approx(82, abs=1)
    # rows of like length, thousands of them, stand together: padded by 0..7, 3.5 in the mean
    encoded = NUM_PASSAGES * hand_encoder(mean + 3.5)
    for system in ("condenser-round1", "cocondenser-round2"):
        assert paper_plan[f"encode {system}"].flops == pytest.approx(encoded, rel=0.05)
        assert paper_plan[f"encode {system}"].bytes_on_disk == pytest.approx(NUM_PASSAGES * 768 * 4)
    # a query of 7.5 tokens and 8 passages, all 64 passages of a batch as wide as the longest: 128
    examples = 502_939 * (0.8 + 1.0)
    step = 3 * (8 * hand_encoder(16) + 64 * hand_encoder(128))
    assert paper_plan["retriever cocondenser-round2"].flops == pytest.approx(
        3 * examples / 8 * step, rel=0.05
    )
    assert paper_plan["retriever cocondenser-round2"].tokens == pytest.approx(
        3 * examples * (9.5 + 8 * mean), rel=0.02
    )
    inner_products = 502_939 * NUM_PASSAGES * 768 * 2
    assert paper_plan["search condenser-round1 train"].flops == pytest.approx(inner_products, rel=1e-6)
    # 64 shards, each with 200 row numbers of 8 bytes and scores of 4 for every train query
    kept = 64 * 502_939 * 200 * 12
    assert paper_plan["search condenser-round1 train"].bytes_on_disk == pytest.approx(kept, rel=1e-6)


# -- the plan ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(root_folder: Path) -> dict[str, Any]:
    overlay = yaml.safe_load((root_folder / "configs" / "tiny.yaml").read_text())
    for entry in overlay["datasets"].values():
        entry["path"] = str(root_folder / entry["path"])
    overlay["tables"] = {"pretrained": ["condenser", "cocondenser"], "rounds": 2}
    return configured(root_folder, overlay)


def test_every_stage_of_the_pipeline_has_a_cost_and_every_rate_a_stage(
    tiny: dict[str, Any], paper: dict[str, Any], tables: Tables
) -> None:
    planned = set()
    for config, dataset in ((tiny, "tiny"), (paper, "msmarco")):
        for kind in ("H200", "cpu"):
            device = replace(tables.device("H200"), kind="cpu" if kind == "cpu" else "gpu")
            rows = make_plan(config, dataset, [], tables=tables, device=device)
            planned |= {row.stage.split()[0] for row in rows}
            assert all(row.seconds > 0 and row.memory_bytes >= 0 for row in rows)
    assert planned - {"total"} == set(STAGES) - {"plan"}
    assert {stage for stage, _, _ in tables.rates} - {"*"} <= set(STAGES)


def test_the_total_sums_what_adds_up_and_takes_the_largest_memory(
    tiny: dict[str, Any], tables: Tables
) -> None:
    *rows, total = make_plan(tiny, "tiny", [], tables=tables, device=tables.device("A100"))
    assert total.stage == "total"
    for column in ("jobs", "tokens", "flops", "bytes_on_disk", "seconds"):
        assert getattr(total, column) == pytest.approx(sum(getattr(row, column) for row in rows))
    assert total.memory_bytes == max(row.memory_bytes for row in rows)


def test_shards_make_more_jobs_of_the_same_work(tiny: dict[str, Any], tables: Tables) -> None:
    whole, cut = (
        rows_by_stage(
            make_plan(
                tiny | {"encode": {**tiny["encode"], "shards": shards}},
                "tiny",
                [],
                tables=tables,
                device=tables.device("H100"),
            )
        )["encode condenser-round1"]
        for shards in (1, 6)
    )
    assert (whole.jobs, cut.jobs) == (1, 6)
    assert cut.flops == pytest.approx(whole.flops)
    assert cut.bytes_on_disk == pytest.approx(whole.bytes_on_disk)
    assert cut.seconds > whole.seconds  # each job starts anew


def test_lines_of_a_users_own_collection_are_counted(tiny: dict[str, Any], tables: Tables) -> None:
    rows = rows_by_stage(make_plan(tiny, "tiny", [], tables=tables, device=tables.device("H100")))
    folder = Path(tiny["datasets"]["tiny"]["path"])
    passages = len((folder / "corpus.jsonl").read_bytes().splitlines())
    assert rows["encode condenser-round1"].bytes_on_disk == pytest.approx(passages * 32 * 4)
    judged = {line.split("\t")[0] for line in (folder / "qrels" / "dev.tsv").read_text().splitlines()[1:]}
    assert rows["encode_queries condenser-round1 dev"].bytes_on_disk == pytest.approx(len(judged) * 32 * 4)
    assert rows["tokens"].basis == "assumed"
    assert "corpus.jsonl" in rows["tokens"].assumption


@pytest.fixture
def made(tiny: dict[str, Any], shards: list[Path], tmp_path: Path) -> Path:
    """A results folder in which collection, tokens and BM25's examples have been made."""
    folder = tmp_path / "tiny"
    for index, prefix in enumerate(shards):
        for part in ("tokens", "sentence_lengths", "num_sentences"):
            target = folder / "tokens" / f"collection.{index}-of-2.{part}.npy"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(prefix.with_name(f"{prefix.name}.{part}.npy").read_bytes())
    dataset = {"dataset": "tiny"}
    for stage, wildcards, name, counts in (
        ("collect", dataset, "data.manifest.json", {"passages": 700, "queries": {"train": 90, "dev": 30}}),
        ("tokens", dataset | {"shard": "0-of-2"}, "tokens/collection.0-of-2.manifest.json", {}),
        ("tokens", dataset | {"shard": "1-of-2"}, "tokens/collection.1-of-2.manifest.json", {}),
        ("examples", dataset | {"system": "bm25"}, "examples/bm25.jsonl.manifest.json", {"examples": 77}),
    ):
        write_json(folder / name, {"spec": spec_of(stage, wildcards), "counts": counts})
    return tmp_path


def spec_of(stage: str, wildcards: dict[str, str]) -> dict[str, Any]:
    return {"stage": stage, "wildcards": wildcards, "code": "today's"}


def test_counts_take_the_place_of_assumptions(
    tiny: dict[str, Any], tables: Tables, made: Path, shards: list[Path]
) -> None:
    manifests = current_manifests(tiny, "tiny", made, spec=spec_of)
    assert len(manifests) == 4
    rows = rows_by_stage(make_plan(tiny, "tiny", manifests, tables=tables, device=tables.device("H100")))
    assert rows["tokens"].basis == "counted"
    assert rows["tokens"].tokens == pytest.approx(TokenShards(shards).row_starts[-1])
    assert rows["encode condenser-round1"].basis == "counted"
    assert rows["encode condenser-round1"].bytes_on_disk == pytest.approx(700 * 32 * 4)
    assert rows["pretrain_condenser"].basis == "counted"
    queries = rows["encode_queries condenser-round1 train"]
    assert queries.bytes_on_disk == pytest.approx(90 * 32 * 4)
    assert "lengths as assumed" in queries.assumption  # the queries have no tokens yet
    # one epoch of 77 examples in batches of 8: nine and a short one
    line = tables.assumption("log_line_bytes")
    weights = 4 * arithmetic.backbone_weights(
        Shape(num_layers=2, dim=32, feed_forward=64, num_heads=2, vocab_size=600, max_positions=128)
    )
    assert rows["retriever condenser-round1"].bytes_on_disk == pytest.approx(weights + 10 * line)


def test_counts_of_another_configuration_are_not_used(tiny: dict[str, Any], made: Path) -> None:
    def changed(stage: str, wildcards: dict[str, str]) -> dict[str, Any]:
        return spec_of(stage, wildcards) | ({"code": "another"} if stage == "tokens" else {})

    used = current_manifests(tiny, "tiny", made, spec=changed)
    assert [path.name for path in used] == ["data.manifest.json", "bm25.jsonl.manifest.json"]


def test_a_collection_with_a_shard_missing_is_not_counted_in_part(
    tiny: dict[str, Any], tables: Tables, made: Path
) -> None:
    manifests = [
        path for path in current_manifests(tiny, "tiny", made, spec=spec_of) if "1-of-2" not in path.name
    ]
    rows = rows_by_stage(make_plan(tiny, "tiny", manifests, tables=tables, device=tables.device("H100")))
    assert rows["tokens"].basis == "assumed"
    assert rows["encode condenser-round1"].bytes_on_disk == pytest.approx(700 * 32 * 4)


def test_time_is_the_work_at_its_rates(tables: Tables) -> None:
    rates = {
        ("encode", "cpu", "flops"): {"rate": "0.5", "threads": "0"},  # of 100 a second
        ("*", "cpu", "layers"): {"rate": "10", "threads": "0"},
        ("encode", "host", "hits"): {"rate": "4", "threads": "2"},  # twice as many on four threads
        ("encode", "host", "rows"): {"rate": "4", "threads": "0"},
    }
    device = replace(tables.device("H100"), kind="cpu", flops_per_s=100.0)
    work = {"flops": 100.0, "layers": 30.0, "hits": 16.0, "rows": 2.0}
    seconds = job_seconds("encode", work, tables=replace(tables, rates=rates), device=device, threads=4)
    assert seconds == pytest.approx(100 / 50 + 30 / 10 + 16 / 8 + 2 / 4)
    with pytest.raises(ValueError, match=r"rates.tsv: expected a rate of hits of stage encode on a cpu"):
        job_seconds("encode", {"hits": 1.0}, tables=replace(tables, rates={}), device=device, threads=4)


def test_a_late_loss_of_no_weight_spares_its_logits(paper: dict[str, Any], tables: Tables) -> None:
    without = paper | {"condenser": {**paper["condenser"], "late_mlm_weight": 0.0}}
    whole, spared = (
        rows_by_stage(make_plan(config, "msmarco", [], tables=tables, device=tables.device("H100")))[
            "pretrain_condenser wikibook"
        ].flops
        for config in (paper, without)
    )
    # of 230 M operations a token (13 layers, logits of .15) the late loss has 10 M: .15 (48 + 11) + 1.4 M
    assert spared / whole == pytest.approx(1 - 10 / 225, abs=0.01)


def test_the_gradient_cache_costs_a_pass_and_saves_memory(paper: dict[str, Any], tables: Tables) -> None:
    with_cache, without = (
        rows_by_stage(
            make_plan(
                paper | {"cocondenser": {**paper["cocondenser"], "gradient_cache": choice}},
                "msmarco",
                [],
                tables=tables,
                device=tables.device("H200"),
            )
        )["pretrain_cocondenser"]
        for choice in ("always", "never")
    )
    assert 1.15 < with_cache.flops / without.flops < 1.34  # a forward pass without the heads, of three with
    assert with_cache.memory_bytes < without.memory_bytes / 5


def test_unknown_devices_backbones_and_corpora_are_refused_by_name(
    paper: dict[str, Any], tables: Tables
) -> None:
    with pytest.raises(ValueError, match=r"device: expected one out of H200, .*, got 'H2000'"):
        tables.device("H2000")
    device = tables.device("H200")
    other = paper | {"backbone": {"source": "hub", "id": "no/such", "revision": "main"}}
    with pytest.raises(ValueError, match=r"backbones\.tsv"):
        make_plan(other, "msmarco", [], tables=tables, device=device)
    parts = {**paper["datasets"]["wikibook"], "parts": [{"id": "no/such"}]}
    other = paper | {"datasets": {**paper["datasets"], "wikibook": parts}}
    with pytest.raises(ValueError, match=r"'no/such'. Add a row with its size to collections.tsv"):
        make_plan(other, "msmarco", [], tables=tables, device=device)


def test_a_broken_table_is_named_with_its_line(root_folder: Path, tmp_path: Path) -> None:
    for table in (root_folder / "condenser" / "pipeline" / "costs" / "tables").glob("*.tsv"):
        (tmp_path / table.name).write_bytes(table.read_bytes())
    devices = tmp_path / "devices.tsv"
    devices.write_text(devices.read_text() + "H300\tgpu\n")
    lines = len(devices.read_text().splitlines())
    with pytest.raises(ValueError, match=rf"devices.tsv:{lines}: expected 8 columns, got 2"):
        read_tables(tmp_path)


def run_program(
    config: dict[str, Any], output: Path, manifest: Path, *, root: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """plan.py by this machine's rates."""
    spec = {"stage": "plan", "wildcards": {"dataset": "tiny", "on": ""}, "config": config}
    command = [sys.executable, str(root / "workflow_scripts" / "plan.py"), "--spec", json.dumps(spec)]
    command += ["--device", "measure", "--output", str(output), "--manifest", str(manifest)]
    command += ["--tables", str(root / "condenser" / "pipeline" / "costs" / "tables")]
    kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment = {**kept, "PYTHONPATH": str(root), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_the_program_writes_the_plan_with_its_manifest(
    tiny: dict[str, Any], root_folder: Path, tmp_path: Path
) -> None:
    output, manifest = tmp_path / "plan.tsv", tmp_path / "plan.tsv.manifest.json"
    done = run_program(tiny, output, manifest, root=root_folder)
    assert done.returncode == 0, done.stderr
    header, *lines = output.read_text().splitlines()
    assert header.split("\t") == list(COLUMNS)
    assert {line.split("\t")[COLUMNS.index("device")] for line in lines} == {"this machine, 1 threads"}
    counts = read_json(manifest)["counts"]
    assert counts["stages"] == len(lines) - 1
    assert counts["device"]["flops_per_s"] > 1e8  # any processor of this century


def test_no_rates_are_measured_on_the_gpu_of_another_job(
    tiny: dict[str, Any], root_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho GPU-a, 0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    ((_, claim),) = claim_gpus([Gpu("GPU-a", 0)], count=1, lock_folder=tmp_path)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run_program(
        tiny | {"compute": {**tiny["compute"], "device": "auto"}},
        tmp_path / "plan.tsv", tmp_path / "plan.tsv.manifest.json",
        root=root_folder, PATH=path, CONDENSER_GPU_LOCKS=str(tmp_path),
    )  # fmt: skip
    os.close(claim)
    assert done.returncode == 1
    assert done.stderr.startswith("error: GPUs: expected 1 free, got 0 of 1.")


def test_a_matrix_product_is_not_slower_than_the_elementwise_yardstick() -> None:
    device = measure_device(
        torch.device("cpu"), precision="fp32", threads=1, clock=time.process_time, dropout=dropout
    )
    assert device.host_flops_per_s == device.flops_per_s
    assert (
        device.flops_per_s > device.bytes_per_s / 8
    )  # 2 operations on numbers in cache, or one through memory
    assert device.memory_bytes > 1e8
