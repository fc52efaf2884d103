"""The plan of costs against counts by machine, short calculations by hand, and times that were measured."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import statistics
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from graphs import Load
from job_files import do
from own_collections import write_beir, write_tsv
from small_models import small_condenser
from token_shards import hand_made_shards, real_tokenizer_folder

from condenser import kinds
from condenser.data.lengths import TokenCounts
from condenser.data.passages import windows
from condenser.data.sources import dpr, squad
from condenser.data.tokens import TokenShards
from condenser.files import read_json
from condenser.manifest import Manifest
from condenser.pipeline.costs import jobs as planned
from condenser.pipeline.costs import measure
from condenser.pipeline.costs import texts as cost_texts
from condenser.pipeline.costs.data import Data, checkpoint_shape
from condenser.pipeline.costs.forecast import planned_seconds
from condenser.pipeline.costs.jobs import Job, read_jobs
from condenser.pipeline.costs.plan import Row, make_plan, rendered, write_plan
from condenser.pipeline.costs.shape import Shape
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.costs.texts import assumed_texts, counted_texts
from condenser.settings import Settings
from condenser.shards import counts_file, prefix_of, shard_files
from configs import OnPlainValues
from configs import sources as written_sources

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT / "condenser" / "pipeline" / "costs" / "tables"
tables = Tables(TABLES)
H200, XEON = tables.device("H200"), tables.device("Xeon")

on_plain = OnPlainValues(cost_texts)

PLANNED: dict[str, tuple[str | None, str, str, dict[str, Any]]] = {  # configuration, data set, table, overlay
    # with the recipe of the run whose seconds are below
    "default": (None, "msmarco", "table2", {"recipes": {"marco": {"batch_size": 16, "epochs": 1}}}),
    "paper": ("configs/paper.yaml", "msmarco", "table2", {}),
    "objectives": ("configs/paper.yaml", "msmarco", "adapt", {"datasets": {"msmarco": {"documents": None}}}),
    "pairs": ("configs/paper.yaml", "stsb", "low_data", {}),
    "triplets": ("configs/paper.yaml", "wikisection", "low_data", {}),
    "terms": ("configs/deepct.yaml", "msmarco", "deepct", {}),
    "late": ("configs/interaction.yaml", "msmarco", "interaction", {}),
    "tiny": ("configs/tiny.yaml", "tiny", "table2", {}),
    "rerankers": ("configs/tiny.yaml", "tiny", "table3", {}),
}

Jobs = Callable[[str], list[Job]]


@pytest.fixture(scope="module")
def jobs(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Gives the jobs of an entry of `PLANNED`, to be changed."""
    read: dict[str, list[Job]] = {}

    def jobs_of(name: str) -> list[Job]:
        if name not in read:
            configuration, dataset, table, overlay = PLANNED[name]
            graph = load(overlay, configfile=configuration)
            read[name] = read_jobs(graph.write_plan_of(dataset, table, tmp_path_factory.mktemp("jobs")))
        return deepcopy(read[name])

    return jobs_of


@pytest.fixture
def tiny(jobs: Jobs) -> list[Job]:
    return jobs("tiny")


def plan(jobs: list[Job], device: Device = H200, *, threads: int = 1) -> dict[str, Row]:
    """The rows of a plan by their rule."""
    dataset = jobs[-1].wildcards["dataset"]
    rows = make_plan(jobs, dataset, tables=tables, device=device, threads=threads)
    return {row["rule"]: row for row in rows}


def only(jobs: list[Job], rule: str, **wildcards: str) -> Job:
    (job,) = [job for job in jobs if job.rule == rule and wildcards.items() <= job.wildcards.items()]
    return job


# ---- a model ----------------------------------------------------------------------------------


SMALL = Shape(4, 12, 20, 3, 40, 16)  # small_config()


def test_an_lstm_has_the_weights_and_products_of_pytorchs(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"word{row} 1 2 3\n" for row in range(7)))
    shape = checkpoint_shape(Settings(source="lstm", path=str(vectors), hidden_size=5, vocab_size=10), tables)
    lstm = torch.nn.LSTM(3, 5, bidirectional=True)
    assert shape.num_weights == 10 * 3 + sum(weight.numel() for weight in lstm.parameters())
    matrices = [weight for name, weight in lstm.named_parameters() if name.startswith("weight")]
    assert shape.token_flops(20.0) == 2 * sum(matrix.numel() for matrix in matrices)


def test_weights_are_those_of_the_model() -> None:
    model = small_condenser(num_head_layers=3)
    assert SMALL.num_weights == sum(weight.numel() for weight in model.backbone.parameters())
    whole = replace(SMALL, num_head_layers=3)
    assert whole.num_weights == sum(weight.numel() for weight in model.parameters())


def test_the_tables_have_the_published_weights_of_bert_base_and_the_embedded_backbone() -> None:
    assert tables.shape("bert-base-uncased").num_weights == 109_482_240
    embedded = Settings(source="folder", path=str(real_tokenizer_folder()))
    assert tables.shape("embedded") == checkpoint_shape(embedded, tables)


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


@pytest.mark.parametrize("sample_rows", [2000, 70])
def test_counted_texts_are_those_of_their_shards_also_by_a_sample(
    shards: TokenShards, monkeypatch: pytest.MonkeyPatch, sample_rows: int
) -> None:
    monkeypatch.setattr(cost_texts, "SAMPLE_ROWS", sample_rows)
    lengths = np.diff(shards.row_starts)
    row = tables.row("collections", "own") | {"tokens": "9", "variation": "0.4"}
    texts = counted_texts(shards.prefixes, assumed_texts(row, 5, why="none"))
    assert (len(texts.lengths), texts.count, texts.assumption) == (min(700, sample_rows), 700, "")
    assert texts.num_tokens == pytest.approx(lengths.sum(), rel=0.02)
    assert texts.cut(64) == pytest.approx(np.minimum(lengths + 2, 64).mean(), rel=0.02)
    assert sample_rows < 700 or sorted(texts.lengths) == sorted(lengths)


def test_assumed_texts_have_the_mean_and_spread_asked_for() -> None:
    row = {"tokens": "80", "variation": "0.5", "sentence_tokens": "20", "title_tokens": "9", "id_bytes": "8"}
    texts = assumed_texts(row, 5000, why="")
    lengths = texts.bodies.tolist()
    assert texts.count == 5000 and (texts.lengths - texts.bodies == 9).all()
    assert statistics.mean(lengths) == pytest.approx(80, rel=0.01)
    assert statistics.pstdev(lengths) / 80 == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_a_gzip_collection_is_assumed_as_the_plain_one_is(tmp_path: Path, write: Callable[..., dict]) -> None:
    def assumed() -> list[tuple]:
        passages = on_plain.assumed_passages(settings, tables)
        queries = on_plain.assumed_queries(settings, "train", tables)
        return [(texts.lengths.tolist(), texts.count) for texts in (passages, queries)]

    settings = write(tmp_path)
    plain = assumed()
    for file in written_sources.local_files(settings):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert assumed() == plain


def test_split_documents_are_planned_as_the_passages_that_they_become(tmp_path: Path) -> None:
    """Texts of as many bytes as the plan assumes that so many words have; every passage is in the sample."""
    lengths = range(30, 330, 3)
    per_word = tables.assumption("bytes_per_token") * tables.assumption("tokens_per_word")
    texts = ["w" * round(per_word * length) for length in lengths]
    corpus = "".join(json.dumps({"_id": f"d{row}", "text": text}) + "\n" for row, text in enumerate(texts))
    settings = write_beir(tmp_path, **{"corpus.jsonl": corpus}) | {"split": {"words": 40, "stride": 20}}
    found = on_plain.assumed_passages(settings, tables)
    expected = [window for length in lengths for window in windows(length, words=40, stride=20)]
    assert found.count == pytest.approx(len(expected), rel=0.05)
    tokens = sum(end - start for start, end in expected) * tables.assumption("tokens_per_word")
    assert found.num_tokens == pytest.approx(tokens, rel=0.05)
    assert "passages of 40 words" in found.assumption


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
        settings = dpr.Settings(source="dpr", name=name, eval_split="test" if "test" in files else None)
        assert cost_texts.assumed_passages(settings, tables).count == dpr.OFFICIAL_ROWS[dpr.PASSAGES]
        assert all(cost_texts.assumed_queries(settings, split, tables).count > 3000 for split in files)


# ---- jobs ----------------------------------------------------------------------------------------

# Of BERT-base, matrices alone: an operation of each weight in the forward pass is two, and four backward.
LAYER, LOGITS = 12 * 768**2, 768 * (768 + 30_522)
FORWARD, TRAINED = 2 * 12 * LAYER, 6 * 12 * LAYER
CONDENSER = 6 * (14 * LAYER + 2 * 0.15 * LOGITS)
PASSAGES, DOCUMENTS, QUERIES = 8_841_823, 3_213_835, 502_939
DOCUMENT_SPANS = "pretrain msmarco-documents cocondenser"


@pytest.mark.parametrize(
    ("name", "row", "count", "flops"),  # of tokens of all epochs, or of products
    [
        ("paper", "encode cocondenser-round2 seed42", PASSAGES * 82, FORWARD),
        ("paper", "search condenser-round1 seed42 train", QUERIES * PASSAGES, 2 * 768),
        # the negatives of BM25 (80 % of the queries) and of round 1: a query, eight passages
        ("paper", "train cocondenser-round2 seed42", 3 * QUERIES * 1.8 * (9.5 + 8 * 82), TRAINED),
        ("paper", "pretrain wikibook condenser", 8 * (51_000_000 * 89 + 74_004_228 * 15), CONDENSER),
        # two spans, each encoded once more for the gradient cache
        ("paper", DOCUMENT_SPANS, 8 * 2 * DOCUMENTS * 98, CONDENSER + FORWARD),
        ("objectives", "pretrain mlm", 8 * PASSAGES * 77, TRAINED + 6 * 0.15 * LOGITS),
        # a sentence of 24, and the 75 of its text without it nine times of ten
        ("objectives", "pretrain ict", 8 * PASSAGES * (26 + 55), TRAINED + FORWARD),
        ("pairs", "train_sentences condenser-sentences n1000-seed1", 4 * 1000 * 2 * 14.7, TRAINED),
        # four epochs of few triplets, and one of all
        ("triplets", "train_sentences condenser-sentences n1000-seed1", 4 * 1000 * 3 * 34, TRAINED),
        ("triplets", "train_sentences condenser-sentences seed1", 1_779_417 * 3 * 34, TRAINED),
    ],
)
def test_operations_at_the_papers_scale_agree_with_a_hand_calculation(
    jobs: Jobs, name: str, row: str, count: float, flops: float
) -> None:
    assert plan(jobs(name))[row]["flops"] == pytest.approx(count * flops, rel=0.1)


@pytest.mark.parametrize(
    ("row", "edit", "column", "factor"),
    [
        ("train cocondenser-round2 seed42", {"soup": 3}, "flops", 3),
        ("train cocondenser-round2 seed42", {"tied": False}, "bytes_on_disk", 1.85),  # and the log
        # of 222 M operations a token (14 layers, logits of .15 twice) the late loss has 7 M: .15 x 48 M
        ("pretrain wikibook condenser", {"late_mlm_weight": 0.0}, "flops", 1 - 7.2 / 222),
        (DOCUMENT_SPANS, {"gradient_cache": "never"}, "flops", CONDENSER / (CONDENSER + FORWARD)),
        (DOCUMENT_SPANS, {"epochs": 4}, "tokens", 1 / 2),
    ],
)
def test_a_setting_changes_what_a_training_takes(
    jobs: Jobs, row: str, edit: dict[str, Any], column: str, factor: float
) -> None:
    whole, changed = jobs("paper"), jobs("paper")
    for job in changed:
        if row.startswith(job.rule):
            vars(job.config.recipe if job.rule == "train" else job.config.model).update(edit)
    assert plan(changed)[row][column] / plan(whole)[row][column] == pytest.approx(factor, rel=0.01)


def test_the_gradient_cache_keeps_the_graphs_of_a_chunk_alone(jobs: Jobs) -> None:
    whole = jobs("paper")
    only(whole, "pretrain", model="cocondenser").config.model.gradient_cache = "never"
    cached = plan(jobs("paper"))[DOCUMENT_SPANS]
    assert cached["memory_bytes"] < plan(whole)[DOCUMENT_SPANS]["memory_bytes"] / 5


def test_generated_texts_pass_all_weights_of_their_model(tiny: list[Job], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(4 * 1000))
    generated = Settings(model=str(tmp_path), samples=4, max_tokens=20, max_input_tokens=30)
    config = Settings(generated=generated)
    wildcards = {"dataset": "tiny", "expansion": "own", "texts": "queries.dev"}
    row = plan([Job("generate", wildcards, config, needs=[]), *tiny])["generate own queries.dev"]
    assert row["tokens"] == pytest.approx(48 * (12 + 4 * 20), rel=0.01)
    assert row["flops"] == 2 * row["tokens"] * 1000 and "max_tokens" in row["assumption"]


def test_the_plan_of_short_texts_says_which_models_lack_texts_and_what_helps(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, short = Data.passages, {"lengths": np.full(9, 7.0), "title_tokens": 0.0}
    monkeypatch.setattr(Data, "passages", lambda self, job: replace(whole(self, job), **short))
    rows = plan(jobs("objectives"))
    assert all(np.isfinite(row["seconds"]) for row in rows.values())
    assert "32 tokens, room for two spans: lower min" in rows["pretrain cocondenser"]["assumption"]
    lacks = [why for *_, why in planned_seconds(jobs("objectives"), tables, device="cpu", threads=1) if why]
    assert any(why.startswith("pretrain msmarco ict: by the plan no text seems to have two") for why in lacks)


# ---- times ---------------------------------------------------------------------------------------

# Seconds of the default's jobs one after the other (--cores 1) on the quiet Xeon of rates.tsv, by the
# rules' benchmarks and the manifests (2026-11-24).
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


def test_the_default_is_foreseen_within_its_range_and_a_factor_of_one_and_a_half(jobs: Jobs) -> None:
    rows = plan(jobs("default"), XEON)
    for rule, seconds in MEASURED_S.items():
        row = rows[rule]
        assert seconds / 1.5 < row["seconds"] < seconds * 1.5, rule
        low, high = tables.seconds_range(row["rates"], sizes_assumed=False)
        assert low < seconds < high and low < row["seconds"] < high, rule


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


def test_time_is_the_work_at_its_rates(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True)
    rates = [
        "* cpu jobs 2 0 A",
        "encode cpu flops 0.5 0 Xeon",
        "* cpu flops 9 0 A",
        "* cpu fp32_flops 0.1 0 nothing",
        "encode host hits 4 2 A",  # twice as many on four threads
        "encode host rows 4 0 A",
        "encode cpu launches 50 0 A",  # while it computes: the slower counts
    ]
    lines = ["rule kind unit rate threads measured_on source", *(f"{line} here" for line in rates)]
    (tmp_path / "rates.tsv").write_text("\n".join(lines).replace(" ", "\t") + "\n")
    rated, device = Tables(tmp_path), replace(XEON, flops_per_s=100.0, fp32_flops_per_s=100.0)
    work = {"flops": 100.0, "launches": 50.0, "fp32_flops": 30.0, "hits": 16.0, "rows": 2.0, "note": "none"}
    seconds = rated.seconds_by_rate("encode", work, device, threads=4)
    expected = {("scaled", "* cpu jobs"): 1 / 2, ("measured", "encode cpu flops"): 100 / 50}
    expected |= {("stated", "* cpu fp32_flops"): 30 / 10, ("scaled", "encode host hits"): 16 / 8}
    assert seconds == pytest.approx({**expected, ("scaled", "encode host rows"): 2 / 4})
    with pytest.raises(ValueError, match=r"/rates.tsv: expected a rate of hits of rule merge on a cpu"):
        rated.seconds_by_rate("merge", {"hits": 1.0}, device, threads=4)


# ---- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANNED)
def test_every_job_has_a_cost_and_every_training_its_operations(jobs: Jobs, name: str) -> None:
    for device in (H200, XEON):
        for rule, row in plan(jobs(name), device).items():
            is_unpublished = rule.startswith("download ") and row["seconds"] is None  # its size
            assert is_unpublished or row["seconds"] > 0, rule
            assert is_unpublished or "train" not in rule.split()[0] or row["flops"] > 0, rule


def test_every_rate_is_of_a_rule_and_every_objective_is_planned(jobs: Jobs) -> None:
    rates = (TABLES / "rates.tsv").read_text().splitlines()[1:]
    programs = {file.stem for file in (ROOT / "workflow_scripts").glob("*.py")}
    assert {line.split("\t")[0] for line in rates} - {"*"} <= programs
    trained = {job.config.model.objective for job in jobs("objectives") if job.rule == "pretrain"}
    assert trained == set(kinds.names("objectives")) - {"checkpoint", "best_of"}


def test_the_plan_says_which_of_its_numbers_nobody_has_measured(jobs: Jobs, tmp_path: Path) -> None:
    rows = list(plan(jobs("paper"), threads=8).values())
    write_plan(rows, tmp_path / "plan.tsv")
    header, *lines = ((line.split("\t")) for line in (tmp_path / "plan.tsv").read_text().splitlines())
    cells = {line[0]: dict(zip(header, line, strict=True)) for line in lines}
    trained = cells["pretrain wikibook condenser"]
    assert trained["rates"] == "measured 100%"
    # the factors of measured rates, and of assumed sizes
    assert float(trained["seconds_high"]) == pytest.approx(1.3 * 1.2 * float(trained["seconds"]), rel=1e-4)
    assert float(trained["seconds_low"]) == pytest.approx(float(trained["seconds"]) / 1.25 / 1.2, rel=1e-4)
    assert cells["metrics bm25 untrained dev"]["rates"] == "scaled 100%"
    assert "gradient cache" in cells[DOCUMENT_SPANS]["assumption"]
    first, second, third = rendered(rows).splitlines()[:3]
    assert re.match(r"H200: [\d.]+ h, between [\d.]+ h and [\d.]+ h, .*: measured 9\d%, scaled \d%\.", first)
    assert re.match(r"Nobody has measured .*: \d rates below 1% each\.$", second)
    num_assumed = sum(row["basis"] == "assumed" for row in rows[:-1])
    assert f"assumed in {num_assumed} of {len(rows) - 1} rows" in third


def test_the_total_sums_what_adds_up_and_takes_the_largest_memory(tiny: list[Job]) -> None:
    *rows, total = plan(tiny).values()
    assert total["rule"] == "total" and total["jobs"] == len(tiny)
    for column in ("tokens", "flops", "bytes_on_disk", "seconds", "seconds_low", "seconds_high"):
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


def test_a_variant_of_fewer_train_queries_asks_only_those(tiny: list[Job]) -> None:
    data, job = Data(tiny, tables, H200), only(tiny, "examples", system="bm25")
    assert data.queries(job).count == 192
    job.wildcards["variant"] = "n50-seed1"
    assert data.queries(job).count == 50 and data.num_examples(job) == 50
    assert data.queries(job, "dev").count == 48


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
    only(made, "tokens", shard="1-of-2").manifest = None  # a part is not counted
    assert plan(made)["tokens backbone"]["basis"] == "assumed"


def test_measured_seconds_take_the_place_of_planned_ones(made: list[Job]) -> None:
    only(made, "collect").seconds = 12.5
    only(made, "tokens", shard="0-of-2").seconds = 100.0
    rows = plan(made)
    columns = ("seconds", "seconds_low", "seconds_high", "basis", "rates")
    measured = (12.5, 12.5, 12.5, "measured", {("measured", "collect"): 12.5})
    assert tuple(rows["collect"][column] for column in columns) == measured
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


def test_unknown_devices_backbones_and_corpora_are_refused_by_name(jobs: Jobs) -> None:
    with pytest.raises(ValueError, match=r"/devices.tsv: expected one of H200, .*, got 'H2000'"):
        tables.device("H2000")
    unknown = jobs("paper")
    only(unknown, "checkpoint", dataset="wikibook").config.model.id = "no/such"
    with pytest.raises(ValueError, match=r"backbones\.tsv: .*'no/such'"):
        plan(unknown)
    unknown = jobs("paper")
    only(unknown, "collect", dataset="wikibook").config.dataset.parts[0].id = "no/such"
    with pytest.raises(ValueError, match=r"collections\.tsv: .*'no/such 20231101\.en'. Add a row"):
        plan(unknown)


def test_a_broken_table_is_named_with_its_line(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path, dirs_exist_ok=True)
    devices = tmp_path / "devices.tsv"
    devices.write_text(devices.read_text() + "H300\tgpu\n")
    lines = len(devices.read_text().splitlines())
    with pytest.raises(ValueError, match=rf"devices.tsv:{lines}: expected 7 columns, got 2"):
        Tables(tmp_path)


def test_the_program_measures_this_machine_and_writes_the_plan_with_its_manifest(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "_BEST_OF_S", 0.1)
    jobs_file = load(configfile="configs/tiny.yaml").write_plan_of("tiny", "table2", tmp_path)
    output = tmp_path / "plan.tsv"
    parts = {
        "wildcards": {"dataset": "tiny", "table": "table2", "on": ""},
        "settings": {"compute": {"device": "cpu", "precision": "fp32", "threads": 1}},
        "input": {"tables": sorted(TABLES.glob("*.tsv"))},
        "options": {"device": "measure", "counted": jobs_file},
        "output": {"plan": output, "manifest": f"{output}.manifest.json"},
    }
    do("plan", **parts)
    counts = read_json(f"{output}.manifest.json")["counts"]
    device = Device(**counts["device"])
    assert device.flops_per_s > 1e8 and device.memory_bytes > 1e8  # any machine of this century
    assert 0.02 < device.flops_per_s / device.fp32_flops_per_s < 5  # on a machine that others share
    rows = list(plan(read_jobs(jobs_file), device).values())
    assert capsys.readouterr().out == f"{rendered(rows)}\n"
    write_plan(rows, tmp_path / "again.tsv")
    assert output.read_bytes() == (tmp_path / "again.tsv").read_bytes()

    claimed = ValueError("GPUs: expected 1 free, got 0 of 1.")  # another job's, which it would slow down
    monkeypatch.setattr("condenser.model.devices.claim_visible_gpus", Mock(side_effect=claimed))
    with pytest.raises(ValueError, match="GPUs: expected 1 free"):
        do("plan", **parts | {"settings": {"compute": {"device": "auto", "precision": "fp32", "threads": 1}}})
