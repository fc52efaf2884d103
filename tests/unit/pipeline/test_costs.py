"""The plan of costs against counting by machine, by hand, and by the code it speaks of."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graphs import Load
from own_collections import write_beir, write_tsv
from runs import environment
from safetensors.torch import load_file
from small_generators import write_generator
from small_models import OPERATORS, full_rows, small_backbone, small_condenser, small_config
from token_shards import hand_made_shards, real_tokenizer_folder
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from condenser import kinds
from condenser.data.lengths import TokenCounts
from condenser.data.passages import windows
from condenser.data.sources import dpr, squad
from condenser.data.tokens import TokenShards
from condenser.encoders import BertConfig, read_encoder_config
from condenser.files import read_json
from condenser.manifest import Manifest
from condenser.model.devices import Gpu, claim_gpus
from condenser.model.masked_language import MaskedLanguageModel
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.retriever import Retriever
from condenser.model.text_vector import TextVector
from condenser.pipeline.costs import jobs as planned
from condenser.pipeline.costs import texts as cost_texts
from condenser.pipeline.costs.data import Data, checkpoint_shape
from condenser.pipeline.costs.forecast import planned_seconds
from condenser.pipeline.costs.jobs import Job, read_jobs
from condenser.pipeline.costs.measure import measure_device, product_rate
from condenser.pipeline.costs.plan import Row, make_plan, rendered, write_plan
from condenser.pipeline.costs.shape import Shape
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.costs.texts import Texts, assumed_texts, counted_texts
from condenser.settings import Settings
from condenser.shards import counts_file, prefix_of, shard_files
from configs import OnPlainValues
from configs import sources as written_sources

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT / "condenser" / "pipeline" / "costs" / "tables"
tables = Tables(TABLES)
H200 = tables.device("H200")

on_plain = OnPlainValues(cost_texts)


def run_workflow(
    folder: Path, targets: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    asked = [f"results/{target}" for target in targets.split()]
    command = [sys.executable, "-m", "snakemake", *asked, "--snakefile", str(ROOT / "Snakefile")]
    env = {**environment(), **variables}
    return subprocess.run(
        [*command, "--cores", "1", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def read_own_jobs(file: Path) -> list[Job]:
    """The jobs of a plan; a data set's own files are those of this checkout."""
    jobs = read_jobs(file)
    for job in jobs:
        dataset = getattr(job.config, "dataset", None)
        if getattr(dataset, "path", None):
            dataset.path = str(ROOT / dataset.path)
    return jobs


@pytest.fixture(scope="module")
def paper(load: Load, tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    graph = load(configfile="configs/paper.yaml")
    return read_own_jobs(graph.write_plan_of("msmarco", "table2", tmp_path_factory.mktemp("paper")))


@pytest.fixture(scope="module")
def adapt(load: Load, tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """The jobs of the table with a model of each objective, at the papers' scale, on the passages."""
    graph = load({"datasets": {"msmarco": {"documents": None}}}, configfile="configs/paper.yaml")
    return read_own_jobs(graph.write_plan_of("msmarco", "adapt", tmp_path_factory.mktemp("adapt")))


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Job]]:
    """A folder in which the tiny table has been planned by this machine's rates, and its jobs.

    Another table is planned by the same command.
    """
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copy(ROOT / "config.yaml", folder)
    shutil.copytree(ROOT / "tests" / "data", folder / "tests" / "data")
    overlay = str(ROOT / "configs" / "tiny.yaml")
    done = run_workflow(folder, "tiny/table2.plan.tsv tiny/table7.plan.H200.tsv", "--configfile", overlay)
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = (folder / "results" / ".work" / "plan" / "tiny" / "table2").glob("jobs-*.json")
    return folder, read_own_jobs(written)


@pytest.fixture
def tiny(tiny_run: tuple[Path, list[Job]]) -> list[Job]:
    """The jobs of the tiny table, to be changed."""
    return deepcopy(tiny_run[1])


def plan(
    jobs: list[Job], device: Device = H200, *, dataset: str = "tiny", threads: int = 1
) -> dict[str, Row]:
    """The rows of a plan by their rule."""
    rows = make_plan(jobs, dataset, tables=tables, device=device, threads=threads)
    return {row["rule"]: row for row in rows}


def only(jobs: list[Job], rule: str, **wildcards: str) -> Job:
    (job,) = [job for job in jobs if job.rule == rule and wildcards.items() <= job.wildcards.items()]
    return job


def changed(jobs: list[Job], rule: str, model: str, **settings: Any) -> list[Job]:
    """The jobs with other settings of a model."""
    jobs = deepcopy(jobs)
    for job in jobs:
        if (job.rule, job.wildcards.get("model")) == (rule, model):
            vars(job.config.model).update(settings)
    return jobs


# ---- a model ----------------------------------------------------------------------------------


def shape_of(config: BertConfig, *, num_head_layers: int = 0) -> Shape:
    return Shape(
        config.num_hidden_layers,
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads,
        config.vocab_size,
        config.max_position_embeddings,
        num_head_layers,
    )


def test_an_lstm_has_the_weights_and_products_of_pytorchs(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"word{row} 1 2 3\n" for row in range(7)))
    shape = checkpoint_shape(Settings(source="lstm", path=str(vectors), hidden_size=5, vocab_size=10), tables)
    lstm = torch.nn.LSTM(3, 5, bidirectional=True)
    assert shape.num_weights == 10 * 3 + sum(weight.numel() for weight in lstm.parameters())
    matrices = [weight for name, weight in lstm.named_parameters() if name.startswith("weight")]
    assert shape.token_flops(20.0) == 2 * sum(matrix.numel() for matrix in matrices)


def test_a_token_has_the_operations_that_pytorch_counts() -> None:
    """Pooled by the mean, a model leaves no layer out; a loss of masked words has some logits."""
    rows = full_rows(torch.randint(0, 40, (8, 16)))
    backbone, shape = small_backbone(), shape_of(small_config())
    retriever = Retriever(backbone, TextVector("mean"))
    model = MaskedLanguageModel(backbone, MaskedLanguageHead(backbone.config)).double()
    masked = rows.chosen(np.repeat(np.arange(8), 4), np.tile([2, 5, 7, 9], 8))  # a quarter of the tokens

    def counted(work: Callable[[], torch.Tensor]) -> float:
        """Operations a token of forward and backward pass."""
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping=OPERATORS) as counter,
        ):
            work().sum().backward()
        return counter.get_total_flops() / 128

    assert counted(lambda: retriever(rows)) == pytest.approx(3 * shape.token_flops(16), rel=0.02)
    logits = shape.token_flops(16, num_logits=0.25) - shape.token_flops(16)
    num_layers = shape.num_layers - 1  # the last one at masked tokens, with keys and values of all
    assert 3 * (num_layers / shape.num_layers * shape.token_flops(16) + logits) < counted(
        lambda: model(rows, masked)
    )
    assert counted(lambda: model(rows, masked)) < 3 * shape.token_flops(16, num_logits=0.25)


@pytest.mark.parametrize("num_head_layers", [1, 3])
def test_weights_are_those_of_the_model(num_head_layers: int) -> None:
    model, config = small_condenser(num_head_layers=num_head_layers), small_config()
    assert shape_of(config).num_weights == sum(weight.numel() for weight in model.backbone.parameters())
    whole = shape_of(config, num_head_layers=num_head_layers).num_weights
    assert whole == sum(weight.numel() for weight in model.parameters())


def test_bert_base_has_its_published_109_million_weights() -> None:
    assert tables.shape("bert-base-uncased").num_weights == 109_482_240


def test_the_embedded_backbone_is_as_the_tables_say() -> None:
    assert tables.shape("embedded") == shape_of(read_encoder_config(real_tokenizer_folder()))


# ---- texts ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    """Two shards of 700 rows in all, some with a title, some without a token."""
    random = np.random.default_rng(7)
    rows = []
    for _ in range(700):
        lengths = [int(random.integers(0, 8)), *random.integers(1, 60, size=int(random.integers(0, 9)))]
        rows.append([random.integers(5, 60, size=length).tolist() for length in lengths])
    folder = tmp_path_factory.mktemp("tokens")
    shards = hand_made_shards(folder, rows, num_shards=2)
    shards.prefixes = [prefix_of(file) for file in sorted(folder.glob("*.tokens.npy"))]
    for prefix in shards.prefixes:
        counts = TokenCounts()
        counts.add(np.diff(TokenShards([prefix]).row_starts), num_words=0)
        counts.write(counts_file(prefix))
    return shards


def counted(shards: TokenShards, **changes: float) -> Texts:
    row = tables.row("collections", "own") | {"tokens": "9", "variation": "0.4"}
    return replace(counted_texts(shards.prefixes, assumed_texts(row, 5, why="")), **changes)


def test_lengths_of_counted_texts_are_those_of_their_shards(shards: TokenShards) -> None:
    lengths = np.diff(shards.row_starts)
    texts = counted(shards)
    assert (texts.count, texts.num_tokens, texts.assumption) == (700, lengths.sum(), "")
    assert sorted(texts.lengths) == sorted(lengths)
    assert texts.cut(64) == pytest.approx(np.minimum(lengths + 2, 64).mean())


def test_a_sample_of_a_larger_collection_stands_for_all_of_it(
    shards: TokenShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condenser.pipeline.costs.texts.SAMPLE_ROWS", 70)
    texts = counted(shards)
    assert (len(texts.lengths), texts.count) == (70, 700)
    assert texts.num_tokens == pytest.approx(shards.row_starts[-1], rel=0.02)


def test_assumed_texts_have_the_mean_and_spread_asked_for() -> None:
    row = {"tokens": "80", "variation": "0.5", "sentence_tokens": "20", "title_tokens": "9", "id_bytes": "8"}
    texts = assumed_texts(row, 5000, why="")
    lengths = texts.bodies.tolist()
    assert texts.count == 5000 and (texts.lengths - texts.bodies == 9).all()
    assert statistics.mean(lengths) == pytest.approx(80, rel=0.01)
    assert statistics.pstdev(lengths) / 80 == pytest.approx(0.5, rel=0.03)


# ---- the papers' scale by hand -------------------------------------------------------------------

MORE = 0.1  # the plan counts every layer at every token: some 8 % more than these calculations

# BERT-base: 768 wide, 3,072 in the feed-forward, 30,522 words. A matrix of a x b costs a token 2 a b.
SQUARE = 2 * 768 * 768  # query, key, value or output projection
FEED_FORWARD = 2 * 2 * 768 * 3072  # up and down
WORDS = 2 * 768 * 30_522  # logits
NUM_PASSAGES = 8_841_823
COCONDENSER = "pretrain msmarco-documents cocondenser"
MEAN_TOKENS, VARIATION, TITLE_TOKENS = 75, 0.45, 9  # collections.tsv, msmarco


def hand_lengths(mean: float, variation: float) -> np.ndarray:
    """Lengths of many texts, drawn log-normally."""
    spread = math.sqrt(math.log(1 + variation**2))
    drawn = np.random.default_rng(11).lognormal(math.log(mean) - spread**2 / 2, spread, 100_000)
    return np.maximum(1, drawn.round())


def hand_blocks(lengths: np.ndarray, sentence_tokens: float) -> np.ndarray:
    """Blocks that texts are packed into: at most 126 tokens, whole sentences, one target in ten short."""
    random, found = np.random.default_rng(5), []
    for left in lengths:
        block, target = 0.0, 0.0
        while left > 0:
            sentence = min(left, max(1, round(random.uniform(0.4, 1.6) * sentence_tokens)))
            if block == 0 or block + sentence > target:
                found.append(min(block, 126))
                block, target = 0.0, 126 if random.random() > 0.1 else random.integers(1, 127)
            block, left = block + sentence, left - sentence
        found.append(min(block, 126))
    return np.array([block for block in found if block])


def hand_layer(tokens: float, keys: float) -> float:
    """A whole layer at `tokens` positions, each of which looks at `keys`: scores, then values."""
    return tokens * (4 * SQUARE + FEED_FORWARD + 2 * 2 * 768 * keys)


def hand_encoder(tokens: float) -> float:
    """Eleven layers everywhere; of the twelfth keys and values, and all of it at [CLS]."""
    at_cls = 2 * SQUARE + FEED_FORWARD + 2 * 2 * 768 * tokens
    return 11 * hand_layer(tokens, tokens) + 2 * SQUARE * tokens + at_cls


def hand_condenser(tokens: float, masked: float) -> float:
    """The encoder; the twelfth layer at masked words; two head layers, the last at masked words; logits."""
    at_masked = masked * (SQUARE + FEED_FORWARD) + tokens * (SQUARE + 2 * 2 * 768 * tokens)
    head = hand_layer(tokens, tokens) + 2 * SQUARE * tokens + at_masked
    return hand_encoder(tokens) + at_masked + head + 2 * masked * (SQUARE + WORDS)


@pytest.fixture(scope="module")
def paper_plan(paper: list[Job]) -> dict[str, Row]:
    return plan(paper, dataset="msmarco")


def test_condenser_pre_training_at_the_papers_scale_agrees_with_a_hand_calculation(
    paper_plan: dict[str, Row],
) -> None:
    # Wikipedia's paragraphs; BookCorpus, 32 sentences a passage: texts, mean tokens, variation, sentence
    parts = [(51_000_000, 87, 0.8, 25), (74_004_228 / 32, 32 * 15, 0.6, 15)]
    counts, found = [], []
    for count, mean, variation, sentence in parts:
        lengths = hand_lengths(mean, variation)[:5000]
        found.append(hand_blocks(lengths, sentence))
        counts.append(count * len(found[-1]) / len(lengths))
    # as many blocks of either kind as there are
    random, shares = np.random.default_rng(3), [round(20_000 * count / sum(counts)) for count in counts]
    blocks = np.concatenate([random.choice(kind, share) for kind, share in zip(found, shares, strict=True)])
    a_block = np.mean(hand_condenser(blocks + 2, np.maximum(1, 0.15 * blocks)))
    expected = 3 * 8 * a_block * sum(counts)  # three passes, eight epochs
    assert paper_plan["pretrain wikibook condenser"]["flops"] == pytest.approx(expected, rel=MORE)


def test_cocondenser_pre_training_at_the_papers_scale_agrees_with_a_hand_calculation(
    paper_plan: dict[str, Row],
) -> None:
    lengths = hand_lengths(1520, 1.5)  # of documents: collections.tsv, msmarco_doc
    long_enough = np.repeat(lengths[lengths >= 2 * 16], 2)  # two spans each
    random = np.random.default_rng(2)
    is_short, short = random.random(len(long_enough)) < 0.1, random.integers(16, 81, len(long_enough))
    asked = np.where(is_short, short, random.integers(80, 127, len(long_enough)))
    spans = np.minimum(asked, long_enough // 2)  # the two do not overlap
    once = np.mean(hand_condenser(spans + 2, 0.15 * spans))
    # the graphs of 4,096 spans do not fit together, so every span is encoded once more before
    num_spans = 3_213_835 * len(long_enough) / len(lengths)
    expected = 8 * num_spans * (3 * once + np.mean(hand_encoder(spans + 2)))
    assert paper_plan[COCONDENSER]["flops"] == pytest.approx(expected, rel=MORE)
    assert "with the gradient cache" in paper_plan[COCONDENSER]["assumption"]


def test_masked_language_modelling_on_the_collection_agrees_with_a_hand_calculation(
    adapt: list[Job],
) -> None:
    texts = hand_lengths(MEAN_TOKENS, VARIATION)[:5000]
    blocks = hand_blocks(texts, 24)  # titles are left out
    tokens, masked = blocks + 2, 0.15 * np.mean(blocks)
    a_block = np.mean(hand_encoder(tokens)) + masked * (2 * SQUARE + FEED_FORWARD + WORDS)
    a_block += np.mean(tokens * (SQUARE + 2 * 2 * 768 * tokens))  # queries of the twelfth layer
    num_blocks = NUM_PASSAGES * len(blocks) / len(texts)
    row = plan(adapt, dataset="msmarco")["pretrain mlm"]
    assert row["flops"] == pytest.approx(3 * 8 * num_blocks * a_block, rel=MORE)  # eight epochs
    assert row["tokens"] == pytest.approx(8 * num_blocks * np.mean(tokens), rel=0.05)


def test_the_inverse_cloze_task_on_the_collection_agrees_with_a_hand_calculation(adapt: list[Job]) -> None:
    random, pairs = np.random.default_rng(4), []
    for left in hand_lengths(MEAN_TOKENS, VARIATION)[:5000]:
        sentences = []
        while left > 0:
            sentences.append(min(left, max(1, round(random.uniform(0.4, 1.6) * 24))))
            left -= sentences[-1]
        if len(sentences) > 1:
            chosen = random.choice(sentences)
            removed = chosen if random.random() < 0.9 else 0
            pairs.append([min(chosen, 62), min(sum(sentences) - removed, 126)])
    a_pair = sum(np.mean(hand_encoder(np.array(side) + 2)) for side in zip(*pairs, strict=True))
    row = plan(adapt, dataset="msmarco")["pretrain ict"]
    # eight epochs; the graphs of 8,192 texts do not fit together, so every text is encoded once more before
    assert row["flops"] == pytest.approx(4 * 8 * NUM_PASSAGES * len(pairs) / 5000 * a_pair, rel=MORE)
    assert row["assumption"] == "official collection, 75 tokens each; with the gradient cache"


def test_the_plan_of_short_texts_says_which_models_lack_texts_and_what_helps(
    adapt: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, short = Data.passages, {"lengths": np.full(9, 7.0), "title_tokens": 0.0}
    monkeypatch.setattr(Data, "passages", lambda self, job: replace(whole(self, job), **short))
    rows = plan(adapt, dataset="msmarco")
    assert all(np.isfinite(row["seconds"]) for row in rows.values())
    assert (
        "32 tokens, room for two spans: lower min_span_tokens, " in rows["pretrain cocondenser"]["assumption"]
    )
    lacks = [why for *_, why in planned_seconds(adapt, tables, device="cpu", threads=1) if why]
    assert any(why.startswith("pretrain msmarco ict: by the plan no text seems to have two") for why in lacks)


def test_an_epoch_of_a_distillation_has_each_taught_query_with_its_first_hits(adapt: list[Job]) -> None:
    jobs = deepcopy(adapt)
    job, extracted = only(jobs, "train", system="distilled"), only(jobs, "extracted", split="practice")
    vars(job.config.recipe).update(epochs=1, updates=None, drop_last=False)
    data, lengths = Data(jobs, tables, H200), job.config.recipe.lengths
    queries, passages = data.queries(extracted), data.passages(job)
    tokens = queries.count * (queries.cut(lengths.query) + 4 * passages.cut(lengths.passage))
    assert plan(jobs, dataset="msmarco")["train distilled seed42"]["tokens"] == pytest.approx(tokens)


def test_no_objective_lacks_a_cost(adapt: list[Job]) -> None:
    rows = plan(adapt, dataset="msmarco")
    trained = {job.config.model.objective for job in adapt if job.rule == "pretrain"}
    assert trained == set(kinds.names("objectives")) - {"checkpoint", "best_of"}
    assert {row["basis"] for row in rows.values()} <= {"assumed", "counted"}


def test_fine_tuning_and_retrieval_at_the_papers_scale_agree_with_a_hand_calculation(
    paper_plan: dict[str, Row],
) -> None:
    # mean of min(X, limit) of a log-normal X in closed form, limit = 128 less two specials and the title
    limit, spread = 128 - 2 - TITLE_TOKENS, math.sqrt(math.log(1 + VARIATION**2))
    normal, z = statistics.NormalDist(), (math.log(limit / MEAN_TOKENS) + spread**2 / 2) / spread
    mean = MEAN_TOKENS * normal.cdf(z - spread) + limit * (1 - normal.cdf(z)) + TITLE_TOKENS + 2
    assert mean == pytest.approx(82, abs=1)
    encode = paper_plan["encode cocondenser-round2 seed42"]
    assert encode["flops"] == pytest.approx(NUM_PASSAGES * hand_encoder(mean), rel=MORE)
    assert encode["bytes_on_disk"] == pytest.approx(NUM_PASSAGES * 768 * 4)
    # a query of 7.5 tokens and 8 passages
    train, examples = paper_plan["train cocondenser-round2 seed42"], 502_939 * (0.8 + 1.0)
    step = 3 * (8 * hand_encoder(9.5) + 64 * hand_encoder(mean))
    assert train["flops"] == pytest.approx(3 * examples / 8 * step, rel=MORE)
    assert train["tokens"] == pytest.approx(3 * examples * (9.5 + 8 * mean), rel=0.02)
    search = paper_plan["search condenser-round1 seed42 train"]
    assert search["flops"] == pytest.approx(502_939 * NUM_PASSAGES * 768 * 2, rel=1e-6)
    # on the GPU, above the time of the products at its data sheet's rate of float32
    assert 2 * 502_939 * NUM_PASSAGES * 768 / 67e12 < search["seconds"] < 600
    # 16 shards, each with 210 row numbers of 8 bytes and scores of 4 for every train query
    assert search["bytes_on_disk"] == pytest.approx(16 * 502_939 * 210 * 12, rel=1e-6)


# ---- the plan ------------------------------------------------------------------------------------

# Seconds of the default's jobs one after the other (--cores 1) on a quiet Xeon with AMX (2026-11-24), as the
# rules' benchmarks and the manifests have them, and the peak rates of one thread that `plan` measured there.
MEASURED_S = {
    "pretrain condenser": 39.9,
    "pretrain cocondenser": 61.2,
    "train condenser-round1 seed42": 43.1,
    "train condenser-round2 seed42": 88.6,
    "encode condenser-round1 seed42": 19.3,
    "encode_queries condenser-round1 seed42 dev": 3.7,
    "bm25_run bm25 untrained train": 4.0,
    "bm25_run bm25 untrained dev": 18.0,
    "merge condenser-round1 seed42 dev": 2.2,
    "metrics condenser-round1 seed42 dev": 1.0,
    "tokens backbone": 0.45,
    "collect": 2.6,
}
THAT_MACHINE = tables.device("Xeon")
# The same jobs on an EPYC of family 26 (2026-11-25, two jobs at a time), and its rates of one thread. The
# rate of a layer is that of its trainings at 1 / 1.4, as measured later by processor time, beside others.
MEASURED_ON_EPYC_S = {
    "pretrain condenser": 46.6,
    "pretrain cocondenser": 71.5,
    "train condenser-round1 seed42": 48.6,
    "train condenser-round2 seed42": 110.0,
    "encode condenser-round1 seed42": 31.9,
    "encode_queries condenser-round1 seed42 dev": 7.6,
    "encode_queries condenser-round1 seed42 train": 4.5,
    "bm25_run bm25 untrained train": 5.8,
    "bm25_run bm25 untrained dev": 27.2,
    "merge condenser-round1 seed42 dev": 3.5,
    "metrics condenser-round1 seed42 dev": 1.0,
    "tokens backbone": 0.55,
    "collect": 2.9,
    "checkpoint backbone": 4.3,  # without its imports
}
EPYC = Device("an EPYC", "cpu", "bf16", 1.65e11, 1.09e11, 25e9)


def test_the_default_is_foreseen_within_a_factor_of_one_and_a_half(load: Load, tmp_path: Path) -> None:
    jobs = read_own_jobs(load().write_plan_of("msmarco", "table2", tmp_path))
    rows = plan(jobs, THAT_MACHINE, dataset="msmarco")
    for rule, seconds in MEASURED_S.items():
        assert seconds / 1.5 < rows[rule]["seconds"] < seconds * 1.5, rule


@pytest.mark.parametrize(
    ("device", "basis", "measured"),
    [(THAT_MACHINE, "measured", MEASURED_S), (EPYC, "scaled", MEASURED_ON_EPYC_S)],
)
def test_what_was_measured_lies_in_the_range_of_the_rates(
    load: Load, tmp_path: Path, device: Device, basis: str, measured: dict[str, float]
) -> None:
    """Also without the factor for assumed sizes; and the point estimate lies in it too."""
    jobs = read_own_jobs(load().write_plan_of("msmarco", "table2", tmp_path))
    rows = plan(jobs, device, dataset="msmarco")
    for rule, seconds in measured.items():
        low, high = tables.seconds_range(rows[rule]["rates"], sizes_assumed=False)
        assert low < seconds < high and low < rows[rule]["seconds"] < high, rule
    assert rows["pretrain condenser"]["rates"][basis, "* cpu flops"] > 0


def test_a_range_is_the_seconds_at_each_rate_by_the_factor_of_its_basis(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True)
    lines = ["basis low high source", "measured 1.25 2 s", "scaled 2 4 s", "stated 5 20 s", "sizes 2 3 s"]
    (tmp_path / "spreads.tsv").write_text("\n".join(lines).replace(" ", "\t") + "\n")
    seconds = {
        ("scaled", "* cpu flops"): 40.0,
        ("stated", "* cpu jobs"): 5.0,
        ("measured", "merge host hits"): 10.0,
    }
    low, high = 20 + 1 + 8, 160 + 100 + 20
    spread = Tables(tmp_path)
    assert spread.seconds_range(seconds, sizes_assumed=False) == pytest.approx((low, high))
    assert spread.seconds_range(seconds, sizes_assumed=True) == pytest.approx((low / 2, high * 3))


def test_the_plan_says_which_of_its_numbers_nobody_has_measured(paper: list[Job], tmp_path: Path) -> None:
    rows = make_plan(paper, "msmarco", tables=tables, device=H200, threads=8)
    write_plan(rows, tmp_path / "plan.tsv")
    header, *lines = ((line.split("\t")) for line in (tmp_path / "plan.tsv").read_text().splitlines())
    assert header[-3:] == ["seconds_low", "seconds_high", "rates"]
    cells = {line[0]: dict(zip(header, line, strict=True)) for line in lines}
    trained = cells["pretrain wikibook condenser"]
    assert trained["rates"] == "measured 100%"
    # the factors of measured rates, and of assumed sizes
    assert float(trained["seconds_high"]) == pytest.approx(1.3 * 1.2 * float(trained["seconds"]), rel=1e-4)
    assert float(trained["seconds_low"]) == pytest.approx(float(trained["seconds"]) / 1.25 / 1.2, rel=1e-4)
    assert cells["metrics bm25 untrained dev"]["rates"] == "scaled 100%"
    for end in ("seconds_low", "seconds", "seconds_high"):
        parts = sum(
            float(line[end]) for name, line in cells.items() if name != "total" and line[end] != "unknown"
        )
        assert float(cells["total"][end]) == pytest.approx(parts, rel=1e-4)
    first, second, third = rendered(rows).splitlines()[:3]
    assert re.match(r"H200: [\d.]+ h, between [\d.]+ h and [\d.]+ h, .*: measured 9\d%, scaled \d%\.", first)
    assert re.match(r"Nobody has measured .*: \d rates below 1% each\.$", second)
    num_assumed = sum(line["basis"] == "assumed" for name, line in cells.items() if name != "total")
    assert f"assumed in {num_assumed} of {len(lines) - 1} rows" in third


def test_of_a_training_on_a_gpu_the_slower_of_launching_and_computing_counts() -> None:
    """As measured on an H200, seconds an update: Condenser in chunks of 64, 128 and 256, and fine-tuning."""
    for launches, tflop, measured in (
        (16 * 3 * 14, 44.4, 0.9925),
        (8 * 3 * 14, 44.4, 0.4777),
        (4 * 3 * 14, 44.4, 0.2461),
        (2 * 3 * 12, 2.725, 0.0919),
    ):
        work = {"flops": 1e12 * tflop, "launches": launches}
        seconds = tables.seconds_by_rate("pretrain", work, H200, threads=1)
        del seconds["measured", "* gpu jobs"]
        assert len(seconds) == 1
        assert sum(seconds.values()) == pytest.approx(measured, rel=0.15)
    on_cpu = tables.seconds_by_rate("pretrain", work, THAT_MACHINE, threads=1)
    assert [unit for _, unit in on_cpu] == ["* cpu jobs", "* cpu flops"]


def test_each_rate_says_where_it_was_measured_or_that_it_is_stated() -> None:
    for line in (TABLES / "rates.tsv").read_text().splitlines()[1:]:
        *_, measured_on, source = line.split("\t")
        assert ("stated" in source) == (measured_on == "nothing"), line


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_every_rule_has_a_cost_and_every_rate_a_rule(tiny: list[Job], paper: list[Job], kind: str) -> None:
    device = replace(H200, kind=kind)
    rows = [*plan(tiny, device).values(), *plan(paper, device, dataset="msmarco").values()]
    assert all(row["seconds"] > 0 and row["memory_bytes"] > 0 for row in rows)
    assert {row["basis"] for row in rows} == {"assumed", "counted"}
    rules = {job.rule for job in [*tiny, *paper]} | {
        "subset",
        "held_out",
        "rerank",
        "late",
        "fusion",
        "fusion_weights",
        "best_of",
        "extracted",
        "pseudo_labels",
        "queries",
        "sentence_metrics",
        "similarities",
        "term_weights",
        "generate",
    }  # not in table2
    rates = (TABLES / "rates.tsv").read_text().splitlines()[1:]
    assert {line.split("\t")[0] for line in rates} - {"*"} <= rules


def test_weights_cost_the_ranking_of_held_out_queries_alone(load: Load, tmp_path: Path) -> None:
    held_out = {"held_out": {"share": 0.1, "least": 50, "most": 500}}
    graph = load({"recipes": {"marco": held_out}}, configfile="configs/paper.yaml")
    rows = plan(read_own_jobs(graph.write_plan_of("msmarco", "best", tmp_path)), H200, dataset="msmarco")
    of_all = rows["merge cocondenser-round1 seed42 train"]["bytes_on_disk"]  # for negatives
    of_held_out = rows["merge cocondenser-round2 seed42 train.held_out"]["bytes_on_disk"]
    assert of_held_out / of_all == pytest.approx(500 / 502_939, rel=1e-3)
    assert rows["late late seed42 train.held_out"]["seconds"] > 0


def test_a_soup_costs_as_much_as_its_trainings(load: Load, tmp_path: Path) -> None:
    flops = []
    for soup in (1, 3):
        graph = load({"recipes": {"marco": {"soup": soup}}})
        jobs = read_own_jobs(graph.write_plan_of("msmarco", "table2", tmp_path))
        flops.append(plan(jobs, H200, dataset="msmarco")["train condenser-round2 seed42"]["flops"])
    assert flops[1] == pytest.approx(3 * flops[0])


def test_generated_texts_have_a_plan_by_the_size_of_their_model(load: Load, tmp_path: Path) -> None:
    write_generator("t5", tmp_path / "model")
    generated = {"model": str(tmp_path / "model"), "samples": 4, "top_k": 10, "max_tokens": 20}
    bm25 = {"kind": "bm25", "k1": 0.9, "b": 0.4}
    overlay = {
        "expansions": {"own": {"generated": generated | {"max_input_tokens": 30, "rows_per_chunk": 9}}},
        "systems": {"both": bm25 | {"expanded_passages": "own", "expanded_queries": "own"}},
        "tables": {"own": {"rows": ["both"], "measures": ["MRR@10"]}},
    }
    graph = load(overlay)
    rows = plan(read_own_jobs(graph.write_plan_of("msmarco", "own", tmp_path)), H200, dataset="msmarco")
    weights = sum(value.numel() for value in load_file(tmp_path / "model" / "model.safetensors").values())
    for texts in ("passages", "queries.dev"):
        row = rows[f"generate own {texts}"]
        assert row["tokens"] > 0
        # the file is longer than its weights by a header
        assert row["flops"] == pytest.approx(2 * row["tokens"] * weights, rel=0.1)
        assert row["seconds"] > 0 and "max_tokens" in row["assumption"]


@pytest.mark.parametrize(
    ("dataset", "items", "epochs", "tokens_of_item"),  # two or three sentences with [CLS] and [SEP]
    [("stsb", 5_749, (4, 4), 2 * (12.7 + 2)), ("wikisection", 1_779_417, (4, 1), 3 * (32 + 2))],
)
def test_sentence_tasks_have_a_plan(
    load: Load, tmp_path: Path, dataset: str, items: int, epochs: tuple[int, int], tokens_of_item: float
) -> None:
    graph = load(configfile="configs/paper.yaml")
    rows = plan(read_own_jobs(graph.write_plan_of(dataset, "low_data", tmp_path)), H200, dataset=dataset)
    unknown = {name for name, row in rows.items() if row["seconds"] is None}
    assert all(name.startswith("download ") for name in unknown)  # whose size nobody publishes
    for variant, count, of_size in (("n1000-seed1", 1000, epochs[0]), ("seed1", items, epochs[1])):
        tokens = rows[f"train_sentences condenser-sentences {variant}"]["tokens"]
        assert tokens == pytest.approx(of_size * count * tokens_of_item, rel=0.02)  # some are cut
    assert rows["similarities condenser-sentences seed1 test"]["seconds"] > 0


def test_the_total_sums_what_adds_up_and_takes_the_largest_memory(tiny: list[Job]) -> None:
    *rows, total = plan(tiny).values()
    assert total["rule"] == "total" and total["jobs"] == len(tiny)
    for column in ("tokens", "flops", "bytes_on_disk", "seconds"):
        assert total[column] == pytest.approx(sum(row[column] for row in rows))
    assert total["memory_bytes"] == max(row["memory_bytes"] for row in rows)


def test_a_kind_without_a_cost_is_unknown_and_the_total_says_so(
    tiny: list[Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = plan(tiny)
    monkeypatch.delattr(kinds.load("objectives", "cocondenser"), "cost")
    rows = plan(tiny)
    total, known_s = rows["total"], whole["total"]["seconds"] - whole["pretrain cocondenser"]["seconds"]
    assert total["assumption"] == "lacks the seconds of pretrain cocondenser"
    assert (total["basis"], total["seconds"]) == ("unknown", pytest.approx(known_s))
    write_plan([rows["pretrain cocondenser"]], tmp_path / "plan.tsv")
    # four amounts, seconds and their range, basis, rates
    assert (tmp_path / "plan.tsv").read_text().count("unknown") == 9


def test_shards_make_more_jobs_of_the_same_work(tiny: list[Job]) -> None:
    two = plan(tiny)["encode cocondenser-round1 seed42"]
    kept = [job for job in tiny if job.rule != "encode" or job.wildcards["shard"] == "0-of-2"]
    only(kept, "encode", system="cocondenser-round1").wildcards["shard"] = "0-of-1"
    one = plan(kept)["encode cocondenser-round1 seed42"]
    assert (two["jobs"], one["jobs"]) == (2, 1)
    assert two["flops"] == pytest.approx(one["flops"]) and two["seconds"] > one["seconds"]  # two starts


def test_lines_of_a_users_own_collection_are_counted(tiny: list[Job]) -> None:
    rows, folder = plan(tiny), Path(only(tiny, "collect").config.dataset.path)
    passages = len((folder / "corpus.jsonl").read_bytes().splitlines())
    assert rows["encode cocondenser-round1 seed42"]["bytes_on_disk"] == pytest.approx(passages * 32 * 4)
    judged = {line.split("\t")[0] for line in (folder / "qrels" / "dev.tsv").read_text().splitlines()[1:]}
    queries = rows["encode_queries cocondenser-round1 seed42 dev"]
    assert queries["bytes_on_disk"] == pytest.approx(len(judged) * 32 * 4)
    assert rows["tokens backbone"]["basis"] == "assumed"
    assert "corpus.jsonl" in rows["tokens backbone"]["assumption"]


@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_a_gzip_collection_is_assumed_as_the_plain_one_is(tmp_path: Path, write: Callable[..., dict]) -> None:
    settings, tables = write(tmp_path), Tables(TABLES)

    def assumed() -> list[tuple]:
        samples = [
            on_plain.assumed_passages(settings, tables),
            on_plain.assumed_queries(settings, "train", tables),
        ]
        return [(sample.lengths.tolist(), sample.count) for sample in samples]

    plain = assumed()
    for file in written_sources.local_files(settings):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert assumed() == plain


def test_split_documents_are_planned_as_the_passages_that_they_become(tmp_path: Path) -> None:
    """Texts of as many bytes as the plan assumes that so many words have; every passage is in the sample."""
    tables, lengths = Tables(TABLES), range(30, 330, 3)
    per_word = tables.assumption("bytes_per_token") * tables.assumption("tokens_per_word")
    texts = ["w" * round(per_word * length) for length in lengths]
    corpus = "".join(json.dumps({"_id": f"d{row}", "text": text}) + "\n" for row, text in enumerate(texts))
    whole = write_beir(tmp_path, **{"corpus.jsonl": corpus})
    plain = on_plain.assumed_passages(whole, tables)
    found = on_plain.assumed_passages({**whole, "split": {"words": 40, "stride": 20}}, tables)
    expected = [window for length in lengths for window in windows(length, words=40, stride=20)]
    assert plain.count == len(lengths)
    assert found.count == pytest.approx(len(expected), rel=0.05)
    tokens = sum(end - start for start, end in expected) * tables.assumption("tokens_per_word")
    assert found.num_tokens == pytest.approx(tokens, rel=0.05)
    assert "passages of 40 words" in found.assumption


@pytest.fixture
def made(tiny: list[Job], shards: TokenShards) -> list[Job]:
    """The tiny jobs, when collection, tokens and BM25's examples have been made."""
    counts = {"collect": {"passages": 700, "queries": {"train": 90, "dev": 30}}, "examples": {"examples": 77}}
    for job in tiny:
        if job.rule in ("collect", "tokens", "examples") and job.wildcards.get("system", "bm25") == "bm25":
            number = int(job.wildcards.get("shard", "0")[0])
            manifest = f"{shards.prefixes[number]}.manifest.json"
            job.manifest, job.counts = manifest, counts.get(job.rule, {})
    return tiny


def test_counts_take_the_place_of_assumptions(made: list[Job], shards: TokenShards) -> None:
    rows = plan(made)
    for rule in ("tokens backbone", "pretrain condenser", "encode cocondenser-round1 seed42"):
        assert rows[rule]["basis"] == "counted", rule
    assert rows["tokens backbone"]["tokens"] == pytest.approx(shards.row_starts[-1])
    written = sum(np.load(file).nbytes for prefix in shards.prefixes for file in shard_files(prefix))
    assert rows["tokens backbone"]["bytes_on_disk"] == pytest.approx(written, rel=0.01)  # sentences: assumed
    assert rows["encode cocondenser-round1 seed42"]["bytes_on_disk"] == pytest.approx(700 * 32 * 4)
    queries = rows["encode_queries cocondenser-round1 seed42 train"]
    assert queries["bytes_on_disk"] == pytest.approx(90 * 32 * 4)
    assert "lengths as assumed" in queries["assumption"]  # the queries have no tokens yet
    # one epoch of 77 examples in batches of 8: nine and a short one, each a line of the log
    shape = Shape(num_layers=2, dim=32, feed_forward=64, num_heads=2, vocab_size=600, max_positions=128)
    assert rows["train cocondenser-round1 seed42"]["bytes_on_disk"] == 4 * shape.num_weights + 10 * 230


def test_a_collection_with_a_shard_missing_is_not_counted_in_part(made: list[Job]) -> None:
    only(made, "tokens", shard="1-of-2").manifest = None
    rows = plan(made)
    assert rows["tokens backbone"]["basis"] == "assumed"
    assert rows["encode cocondenser-round1 seed42"]["bytes_on_disk"] == pytest.approx(700 * 32 * 4)


def test_measured_seconds_take_the_place_of_planned_ones(made: list[Job]) -> None:
    only(made, "collect").seconds = 12.5
    only(made, "tokens", shard="0-of-2").seconds = 100.0
    rows = plan(made)
    assert (rows["collect"]["seconds"], rows["collect"]["basis"]) == (12.5, "measured")
    assert (rows["collect"]["seconds_low"], rows["collect"]["seconds_high"]) == (12.5, 12.5)
    assert rows["collect"]["rates"] == {("measured", "collect"): 12.5}
    assert 100 < rows["tokens backbone"]["seconds"] < 110
    assert rows["tokens backbone"]["basis"] == "counted"  # one of two shards


def test_only_what_todays_spec_made_is_finished(tmp_path: Path) -> None:
    result, spec = tmp_path / "data.txt", {"rule": "collect", "wildcards": {"dataset": "d"}}
    path, benchmark = str(tmp_path / "data.manifest.json"), tmp_path / "collect.tsv"
    benchmark.write_text("s\th:m:s\tmax_rss\n3.0974\t0:00:03\t77.76\n")

    def finished(spec: dict[str, Any]) -> dict[str, Any]:
        return planned.finished(path, str(benchmark), spec=spec)

    assert finished(spec) == {}
    result.write_text("text")
    Manifest(path, spec, inputs=[]).write(outputs=[result], counts={"passages": 7})
    assert finished(spec) == {"manifest": path, "counts": {"passages": 7}, "seconds": 3.0974}
    assert finished({**spec, "code": "another"}) == {}
    for half in ("", "s\th:m", "h:m:s\ts\n1\n", "s\n-\n"):
        benchmark.write_text(half)
        assert "seconds" not in finished(spec)
    result.unlink()
    assert finished(spec) == {}


def test_a_variant_of_fewer_train_queries_asks_only_those(tiny: list[Job]) -> None:
    data, job = Data(tiny, tables, H200), only(tiny, "examples", system="bm25")
    assert data.queries(job).count == 192
    job.wildcards["variant"] = "n50-seed1"
    assert data.queries(job).count == 50 and data.num_examples(job) == 0.85 * 50
    assert data.queries(job, "dev").count == 48


def test_time_is_the_work_at_its_rates(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True)
    rates = [
        "* cpu jobs 2 0 A",
        "encode cpu flops 0.5 0 Xeon",
        "* cpu flops 9 0 A",
        "* cpu fp32_flops 0.1 0 nothing",
    ]
    rates += ["encode host hits 4 2 A", "encode host rows 4 0 A"]  # hits: twice as many on four threads
    lines = ["rule kind unit rate threads measured_on source", *(f"{line} here" for line in rates)]
    (tmp_path / "rates.tsv").write_text("\n".join(lines).replace(" ", "\t") + "\n")
    rated, device = Tables(tmp_path), replace(THAT_MACHINE, flops_per_s=100.0, fp32_flops_per_s=100.0)
    work = {"flops": 100.0, "fp32_flops": 30.0, "hits": 16.0, "rows": 2.0, "tokens": 5.0, "note": "no work"}
    seconds = rated.seconds_by_rate("encode", work, device, threads=4)
    expected = {("scaled", "* cpu jobs"): 1 / 2, ("measured", "encode cpu flops"): 100 / 50}
    expected |= {("stated", "* cpu fp32_flops"): 30 / 10, ("scaled", "encode host hits"): 16 / 8}
    assert seconds == pytest.approx({**expected, ("scaled", "encode host rows"): 2 / 4})
    with pytest.raises(ValueError, match=r"/rates.tsv: expected a rate of hits of rule merge on a cpu"):
        rated.seconds_by_rate("merge", {"hits": 1.0}, device, threads=4)


def test_a_processor_searches_with_its_own_rate(paper: list[Job]) -> None:
    processor = replace(H200, kind="cpu", fp32_flops_per_s=400e9)
    row = plan(paper, processor, dataset="msmarco", threads=8)["search condenser-round1 seed42 train"]
    at_work = 2 * 768 * 502_939 * NUM_PASSAGES / (0.6 * 400e9)
    assert row["seconds"] == pytest.approx(at_work, rel=0.03) and row["seconds"] > 6.5 * 3600


def test_a_late_loss_of_no_weight_spares_its_logits(paper: list[Job]) -> None:
    without = changed(paper, "pretrain", "condenser", late_mlm_weight=0.0)
    whole, spared = (
        plan(jobs, dataset="msmarco")["pretrain wikibook condenser"]["flops"] for jobs in (paper, without)
    )
    # of 222 M operations a token (14 layers, logits of .15 twice) the late loss has 7 M: .15 x 48 M
    assert spared / whole == pytest.approx(1 - 7.2 / 222, abs=0.003)


def test_the_gradient_cache_costs_a_pass_and_saves_memory(paper: list[Job]) -> None:
    cached, whole = (
        plan(changed(paper, "pretrain", "cocondenser", gradient_cache=choice), dataset="msmarco")
        for choice in ("always", "never")
    )
    cached, whole = cached[COCONDENSER], whole[COCONDENSER]
    assert 1.15 < cached["flops"] / whole["flops"] < 1.34  # a forward pass without the heads, of three with
    assert cached["memory_bytes"] < whole["memory_bytes"] / 5


def test_two_untied_encoders_have_twice_the_weights_and_the_same_operations(
    tiny: list[Job],
) -> None:
    tied = plan(tiny)["train cocondenser-round1 seed42"]
    only(tiny, "train", system="cocondenser-round1").config.recipe.tied = False
    untied = plan(tiny)["train cocondenser-round1 seed42"]
    assert untied["flops"] == tied["flops"]
    assert untied["bytes_on_disk"] == pytest.approx(2 * tied["bytes_on_disk"], rel=0.05)


def test_reranking_is_planned_by_its_pairs(load: Load, tmp_path: Path) -> None:
    graph = load(configfile="configs/tiny.yaml")
    rows = plan(read_own_jobs(graph.write_plan_of("tiny", "table3", tmp_path)))
    assert {row["basis"] for row in rows.values()} <= {"counted", "assumed"}
    reranked, dense = rows["rerank rerank-backbone seed42 dev"], rows["metrics cocondenser-round2 seed42 dev"]
    assert dense["bytes_on_disk"] == 0 and reranked["bytes_on_disk"] > 0
    # 48 queries with 20 hits each; a pair has at most 16 + 64 - 1 tokens, and more than a query
    assert 16 * 960 < reranked["tokens"] <= 79 * 960
    shape = Shape(num_layers=2, dim=32, feed_forward=64, num_heads=2, vocab_size=600, max_positions=128)
    longest = 960 * 80 * shape.token_flops(80)
    assert 0.3 * longest < reranked["flops"] < longest
    trained = rows["train rerank-backbone seed42"]
    assert trained["tokens"] > 3 * 4 * 16 * 0.5 * 192  # three epochs of four pairs
    assert rows["fusion mixed-both seed42 dev"]["bytes_on_disk"] == reranked["bytes_on_disk"]


def test_training_late_interaction_is_planned_as_training_a_tied_bi_encoder(
    load: Load, tmp_path: Path
) -> None:
    learns = {"initial": "backbone", "negatives": ["bm25"], "recipe": {"tied": False}}
    late = {"kind": "late", **learns, "train": True, "candidates": ["bm25"], "depth": 9}
    systems = {"dense": {"kind": "biencoder", **learns, "recipe": {}}, "states": late}
    tables = {"both": {"rows": ["dense", "states"], "measures": ["MRR@10"]}}
    graph = load({"systems": systems, "tables": tables}, configfile="configs/tiny.yaml")
    rows = plan(read_own_jobs(graph.write_plan_of("tiny", "both", tmp_path)))
    states, dense = rows["train states seed42"], rows["train dense seed42"]
    assert [states[key] for key in ("flops", "seconds", "memory_bytes", "bytes_on_disk")] == [
        dense[key] for key in ("flops", "seconds", "memory_bytes", "bytes_on_disk")
    ]
    assert states["flops"] > 0 and rows["late states seed42 dev"]["seconds"] > 0


def test_a_plan_of_late_interaction_counts_the_states_that_meet_and_their_numbers(
    load: Load, tmp_path: Path
) -> None:
    late = {"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 9}
    learns = {**late, "train": True, "negatives": ["bm25"]}
    systems = {
        "whole": late,
        "first": {**learns, "match": "first", "first_states": 3},
        "equal": {**learns, "match": "exact", "dim": 8},
    }
    table = {"rows": list(systems), "measures": ["MRR@10"]}
    graph = load({"systems": systems, "tables": {"three": table}}, configfile="configs/tiny.yaml")
    jobs = read_own_jobs(graph.write_plan_of("tiny", "three", tmp_path))
    data, cost = Data(jobs, tables, H200), kinds.load("systems", "late").cost
    work = {name: cost(only(jobs, "late", system=name), data) for name in systems}
    hits = work["whole"]["hits"]
    assert work["first"]["fp32_flops"] == 2 * hits * 1 * 3 * 32
    assert work["equal"]["fp32_flops"] == work["whole"]["fp32_flops"] / 4  # 8 numbers of 32
    assert work["first"]["memory_bytes"] < work["equal"]["memory_bytes"] < work["whole"]["memory_bytes"]


def test_a_plan_counts_the_updates_that_are_asked_for(tiny: list[Job]) -> None:
    """Two epochs of the tiny collection, asked for in other ways, and twice as many updates."""
    planned = plan(tiny)["pretrain cocondenser"]
    items = (
        planned["tokens"]
        / plan(changed(tiny, "pretrain", "cocondenser", epochs=1))["pretrain cocondenser"]["tokens"]
    )
    assert items == pytest.approx(2)
    settings = only(tiny, "pretrain", model="cocondenser").config.model
    assert (settings.epochs, settings.batch_size, settings.updates) == (2, 16, None)
    steps = next(
        steps
        for steps in range(1, 100)
        if plan(changed(tiny, "pretrain", "cocondenser", epochs=None, updates=steps))["pretrain cocondenser"]
        == planned
    )
    assert steps in range(20, 31)  # two epochs of at most 240 documents, 16 a batch
    for length, factor in (
        ({"epochs": 0.1, "updates": {"least": steps, "most": None}}, 1),
        ({"epochs": 9, "updates": {"least": None, "most": steps}}, 1),
        ({"epochs": None, "updates": 2 * steps}, 2),
    ):
        row = plan(changed(tiny, "pretrain", "cocondenser", **length))["pretrain cocondenser"]
        assert row["tokens"] == pytest.approx(factor * planned["tokens"])
        assert row["flops"] == pytest.approx(factor * planned["flops"])


def test_unknown_devices_backbones_and_corpora_are_refused_by_name(paper: list[Job]) -> None:
    with pytest.raises(ValueError, match=r"/devices.tsv: expected one of H200, .*, got 'H2000'"):
        tables.device("H2000")
    with pytest.raises(ValueError, match=r"backbones\.tsv: .*'no/such'"):
        plan(changed(paper, "checkpoint", "backbone", id="no/such"), dataset="msmarco")
    other = deepcopy(paper)
    only(other, "collect", dataset="wikibook").config.dataset.parts[0].id = "no/such"
    with pytest.raises(ValueError, match=r"collections\.tsv: .*'no/such 20231101\.en'. Add a row"):
        plan(other, dataset="msmarco")


def test_a_broken_table_is_named_with_its_line(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True)
    devices = tmp_path / "devices.tsv"
    devices.write_text(devices.read_text() + "H300\tgpu\n")
    lines = len(devices.read_text().splitlines())
    with pytest.raises(ValueError, match=rf"devices.tsv:{lines}: expected 7 columns, got 2"):
        Tables(tmp_path)


def test_the_program_writes_the_plan_with_its_manifest(tiny_run: tuple[Path, list[Job]]) -> None:
    folder, jobs = tiny_run
    output = folder / "results" / "tiny" / "table2.plan.tsv"
    counts = read_json(f"{output}.manifest.json")["counts"]
    assert (
        counts["jobs"] == len(jobs) and counts["device"]["flops_per_s"] > 1e8
    )  # any processor of this century
    write_plan(list(plan(jobs, Device(**counts["device"])).values()), folder / "again.tsv")
    assert output.read_bytes() == (folder / "again.tsv").read_bytes()


def test_no_rates_are_measured_on_the_gpu_of_another_job(
    tiny_run: tuple[Path, list[Job]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho GPU-a, 0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    ((_, claim),) = claim_gpus([Gpu("GPU-a", 0)], count=1, lock_folder=tmp_path)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CONDENSER_GPU_LOCKS": str(tmp_path)}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    options = ("--config", "compute={device: auto}", "--configfile", str(ROOT / "configs" / "tiny.yaml"))
    done = run_workflow(tiny_run[0], "tiny/table2.plan.tsv", *options, **variables)
    os.close(claim)
    assert done.returncode == 1
    assert "error: GPUs: expected 1 free, got 0 of 1." in done.stdout + done.stderr


def test_a_layer_is_not_quicker_than_a_large_product() -> None:
    cpu = torch.device("cpu")
    device = measure_device(cpu, precision="fp32", threads=1, clock=time.process_time)
    assert 0.05 < device.flops_per_s / product_rate(cpu, "fp32", time.process_time) < 1.1
    assert device.memory_bytes > 1e8


def test_squad_is_counted_in_its_files_and_one_file_is_shared_by_articles(tmp_path: Path) -> None:
    questions = [{"id": str(number), "question": "q", "answers": [{"text": "a"}]} for number in range(6)]
    paragraphs = [{"context": "a text", "qas": questions[:3]}, {"context": "another", "qas": questions[3:]}]
    data = {"data": [{"title": str(number), "paragraphs": paragraphs} for number in range(4)]}
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(data))
    given = {"source": "squad", "path": str(tmp_path), "one_file": "dev", "held_out_articles": 1}
    settings = squad.Settings(**given, eval_split="test").model_dump()
    assert on_plain.assumed_passages(settings, tables).count == 8
    assert on_plain.assumed_queries(settings, "test", tables).count == 6
    assert on_plain.assumed_queries(settings, "train", tables).count == 18


def test_the_questions_of_dprs_sets_are_known_by_set_and_split() -> None:
    for name, files in dpr.FILES.items():
        evaluation = "test" if "test" in files else None
        settings = dpr.Settings(source="dpr", name=name, eval_split=evaluation).model_dump()
        assert on_plain.assumed_passages(settings, tables).count == dpr.OFFICIAL_ROWS[dpr.PASSAGES]
        for split in files:
            assert on_plain.assumed_queries(settings, split, tables).count > 3000
