"""The recipes and examples of docs/extending.md, followed to the letter and run on the tiny collection."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytrec_eval
import yaml
from runs import copied, digests, edit, finished, rows_of, started_rules

from condenser.data.records import read_examples, read_passages, read_qrels, read_queries, read_run
from condenser.evaluate import published
from condenser.files import read_json
from condenser.settings import merged

pytestmark = pytest.mark.ci

OVERLAY = "configs/extending.yaml"
TUNED = "results/mine/systems/backbone-tuned/seed42/model"
FIGURE = "results/tiny/attention_of_simcse.svg"
EXAMPLES = "results/tiny/systems/bm25/seed42/examples.jsonl"


class Block(NamedTuple):
    """A block of code of the page; `path` is its first line where that is a comment with a path."""

    language: str
    path: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), flags=re.M | re.S):
        path = re.match(r"# (\S+/?\S*\.\w+)\n", text)
        yield Block(language, path[1] if path else "", text[path.end() :] if path else text)


def export_as_spreadsheets(tiny: Path, folder: Path) -> None:
    """The tiny run's canonical files in the form of the page's new source."""
    folder.mkdir(parents=True)

    def write(name: str, rows: list[tuple[Any, ...]]) -> None:
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)

    write("passages.csv", [(one.doc_id, one.text) for one in read_passages(tiny / "collection.jsonl")])
    for split in ("train", "dev"):
        queries, qrels = (
            read_queries(tiny / f"queries.{split}.jsonl"),
            read_qrels(tiny / f"qrels.{split}.tsv"),
        )
        write(f"queries.{split}.csv", [(one.query_id, one.text) for one in queries])
        write(f"judgements.{split}.csv", [(one.query_id, one.doc_id, one.grade) for one in qrels])


def ranked(run: Path) -> dict[str, dict[str, float]]:
    """The scores of a run by query and passage, in the order of the run."""
    scores: dict[str, dict[str, float]] = {}
    for hit in read_run(run):
        scores.setdefault(hit.query_id, {})[hit.doc_id] = hit.score
    return scores


def test_every_recipe_of_the_page_works(root: Path, golden: Path, tmp_path: Path) -> None:
    folder = copied(golden, tmp_path / "moved")
    before = digests(folder)
    page = list(blocks(root / "docs" / "extending.md"))
    assert {block.language for block in page} == {"yaml", "diff", "python"}  # the last in test_notebook.py
    examples = root / "docs" / "examples"
    linked = re.findall(r"\]\(examples/(\S+)\)", (root / "docs" / "extending.md").read_text())
    files = [file for file in examples.rglob("*") if file.suffix in (".py", ".smk", ".tsv")]
    assert sorted(linked) == sorted(str(file.relative_to(examples)) for file in files)
    for name in linked:
        assert not (folder / name).exists(), f"{name}: a recipe adds files, this one is there already"
        shutil.copyfile(examples / name, folder / name)

    overlay = yaml.safe_load((folder / "configs" / "tiny.yaml").read_text())
    for block in page:
        if block.language == "yaml":
            overlay = merged(overlay, yaml.safe_load(block.text))
    (folder / OVERLAY).write_text(yaml.safe_dump(overlay, sort_keys=False))
    export_as_spreadsheets(folder / "results" / "tiny" / "data", tmp_path / "my" / "spreadsheet")

    targets = (f"{TUNED}/model.safetensors", FIGURE)
    said = finished(folder, *targets, target="results/tiny/combined.tsv", overlays=[OVERLAY])

    assert_only_what_is_new_ran(said, before=before, after=digests(folder))
    check_the_source(folder)
    check_the_recipe(folder, overlay)
    check_the_objective(folder)
    check_the_combination(folder)
    check_the_measure_and_the_table(folder)
    assert "SimCSE" in (folder / FIGURE).read_text()
    assert published.read(folder / "condenser/evaluate/published/anserini_bm25.tsv")[0]["method"] == "BM25"

    for block in page:
        if block.language == "diff":
            apply(folder, block)
    check_the_setting(folder, overlay)


def assert_only_what_is_new_ran(said: str, *, before: dict[str, str], after: dict[str, str]) -> None:
    of_tiny = set(re.findall(r"^[\d:]+ started (\w+) tiny\b", said, flags=re.M))
    assert of_tiny == {
        *("pretrain", "encode", "encode_queries", "search", "merge", "comb_mnz", "metrics", "table"),
        *("attention_entropy", "figure"),
    }  # no tokens, no BM25, no examples
    metrics = "tiny/systems/bm25/untrained/metrics.dev.json"  # has a measure more
    assert {name for name in before if after[name] != before[name]} == {metrics}


def check_the_source(folder: Path) -> None:
    tiny, mine = folder / "results" / "tiny" / "data", folder / "results" / "mine" / "data"
    for name in ("queries.train.jsonl", "qrels.dev.tsv", "doc_ids.txt"):
        assert (mine / name).read_bytes() == (tiny / name).read_bytes()
    assert read_json(mine / "counts.json")["passages"] == 240


def check_the_recipe(folder: Path, overlay: dict[str, Any]) -> None:
    spec = read_json(folder / f"{TUNED}.manifest.json")["spec"]
    recipe = {**overlay["recipes"]["gentle"], "passages_per_query": 2}
    read = spec["config"]["recipe"]  # what a training reads: no setting of other rules
    assert "passages_per_query" in read
    assert {key: read[key] for key in read if key in recipe} == {
        key: recipe[key] for key in recipe if key in read
    }


def check_the_objective(folder: Path) -> None:
    losses = (folder / "results/tiny/models/simcse/losses.jsonl").read_text().splitlines()
    assert len(losses) == 4  # 240 passages, 64 a batch
    assert all(0 < yaml.safe_load(line)["contrastive"] < 6 for line in losses)  # ln 64 = 4.2


def check_the_combination(folder: Path) -> None:
    systems = folder / "results/tiny/systems"
    combined, *parts = (
        ranked(systems / system / "untrained/run.dev.trec")
        for system in ("comb_mnz", "bm25", "simcse-zeroshot")
    )
    assert len(combined) == 48
    for query, hits in combined.items():
        assert len(hits) == 50 and all(a >= b for a, b in pairwise(hits.values()))
        found = [part[query] for part in parts if query in part]
        for doc_id, score in hits.items():
            scaled = [
                (of[doc_id] - min(of.values())) / (max(of.values()) - min(of.values()))
                for of in found
                if doc_id in of
            ]
            assert score == pytest.approx(len(scaled) * sum(scaled), rel=1e-7, abs=1e-9)


def check_the_measure_and_the_table(folder: Path) -> None:
    rows = rows_of(folder / "results/tiny/combined.tsv")
    assert [row["method"] for row in rows] == [
        "BM25",
        "SimCSE without fine-tuning",
        "BM25 and SimCSE combined",
    ]
    assert list(rows[0])[:6] == ["method", "batch_size", "MRR@10", "P@5", "mine/R@100", "origin"]
    grades: dict[str, dict[str, int]] = {}
    for qrel in read_qrels(folder / "results/tiny/data/qrels.dev.tsv"):
        grades.setdefault(qrel.query_id, {})[qrel.doc_id] = qrel.grade
    evaluator = pytrec_eval.RelevanceEvaluator(grades, {"P.5"})
    for row, system in zip(rows, ("bm25", "simcse-zeroshot", "comb_mnz"), strict=True):
        of_mine = read_json(folder / f"results/mine/systems/{system}/untrained/metrics.dev.json")
        assert row["mine/R@100"] == f"{of_mine['measures']['R@100']:.4f}"
        values = evaluator.evaluate(ranked(folder / f"results/tiny/systems/{system}/untrained/run.dev.trec"))
        expected = sum(value["P_5"] for value in values.values()) / len(grades)
        assert float(row["P@5"]) == pytest.approx(expected, abs=5e-5)
    inputs = read_json(folder / "results/tiny/combined.tsv.manifest.json")["inputs"]
    assert any(name.endswith("published/anserini_bm25.tsv") for name in inputs)


def apply(folder: Path, block: Block) -> None:
    """Edit a file: its lines with - or a space before them stand there together, once."""
    lines = block.text.splitlines(keepends=True)
    edit(
        folder,
        block.path,
        old="".join(line[1:] for line in lines if line[0] in " -"),
        new="".join(line[1:] for line in lines if line[0] in " +"),
    )


def check_the_setting(folder: Path, overlay: dict[str, Any]) -> None:
    before = {example.query_id: example for example in read_examples(folder / EXAMPLES)}
    added = {"marco": {"negatives": {"skip": 3}}, "gentle": {"negatives": {"skip": 0}}}
    overlay = merged(overlay, {"recipes": added})
    (folder / OVERLAY).write_text(yaml.safe_dump(overlay, sort_keys=False))
    planned = finished(folder, "-n", target=EXAMPLES, overlays=[OVERLAY])
    assert "setting recipe.negatives.skip of examples: absent -> 3" in planned
    assert started_rules(finished(folder, target=EXAMPLES, overlays=[OVERLAY])) == {"examples"}
    run = ranked(folder / "results/tiny/systems/bm25/untrained/run.train.trec")
    after = list(read_examples(folder / EXAMPLES))
    assert len(after) > 100
    for example in after:
        negatives = [doc_id for doc_id in run[example.query_id] if doc_id not in example.positive_doc_ids]
        assert not {*negatives[:3]} & {*example.negative_doc_ids}
        assert example.positive_doc_ids == before[example.query_id].positive_doc_ids
