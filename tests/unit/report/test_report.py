"""The report says what the results say, shows any text as text, and leaves nothing out silently."""

from __future__ import annotations

import doctest
import json
import re
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from small_results import MISSING, record, record_beside, report_of, write_losses, write_results

from condenser.data.records import ScoredDoc, write_run
from condenser.files import read_json, write_json
from condenser.manifest import Manifest, read_manifest
from condenser.report import charts, collect
from condenser.report.charts import Quality, loss_chart, quality_chart
from condenser.report.collect import Report
from condenser.report.page import page
from condenser.report.queries import TOP, Limits, top_hits
from condenser.report.state import manifests_of

WIDE = Limits(queries=7000, characters=1000, megabytes=25)
HOSTILE = '</script><script>alert("x")</script><img src=x onerror=alert(1)> & <!-- \u2028 {{ 7 * 7 }}'


def results_of(folder: Path, *, num_queries: int = 30, text: str = "some text") -> Path:
    """Results of two systems: A finds the relevant passage of every query first, B of every second query."""
    queries = [(f"q{number}", f"query {number}") for number in range(num_queries)]
    passages = [(f"d{number}", "", f"{text} {number}") for number in range(num_queries + 20)]
    judged = {f"q{number}": {f"d{number}": 1} for number in range(num_queries)}

    def ranking(number: int, first: int) -> list[tuple[str, float]]:
        others = [place for place in range(number + 1, number + 16) if place != first]
        return [(f"d{place}", 20.0 - rank) for rank, place in enumerate([first, *others])]

    good = {f"q{number}": ranking(number, number) for number in range(num_queries)}
    half = {f"q{number}": ranking(number, number + number % 2) for number in range(num_queries)}
    write_results(
        folder / "results", queries=queries, passages=passages, judged=judged, systems={"B": half, "A": good}
    )
    return folder / "results"


class Page(HTMLParser):
    """The text of a page outside scripts, and the data of its script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: dict[str, int] = defaultdict(int)
        self.links: list[str] = []
        self._script: str | None = None
        self.data: Any = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._script = dict(attrs).get("id") or "code" if tag in ("script", "style") else None
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script == "data":
            self.data = json.loads(data)
        elif self._script is None:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def shown(results: Path, limits: Limits = WIDE, **options: Any) -> tuple[Page, dict[str, int]]:
    text, counts = page(report_of(results, **options), limits)
    return Page(text), counts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that are only read; a test that changes some makes its own."""
    return results_of(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def text(made: Path) -> str:
    return page(report_of(made), WIDE)[0]


def test_the_first_relevant_passage_has_its_rank_also_beyond_those_that_are_shown(tmp_path: Path) -> None:
    hits = [(f"d{rank}", 50.0 - rank) for rank in range(1, 15)]
    rows = [ScoredDoc(query_id, *hit) for query_id in ("late", "never", "other") for hit in hits]
    write_run(tmp_path / "run", rows, system="s")
    found = top_hits(tmp_path / "run", {"late": {"d14", "d12", "x"}, "other": {"d1"}}, {"late", "never"})
    assert found == {"late": (hits[:TOP], 12), "never": (hits[:TOP], 0)}


def test_the_page_has_the_cells_of_the_table_and_the_values_of_each_query(made: Path, text: str) -> None:
    found = Page(text)
    assert "30 queries" in found.text and len(found.data["queries"]) == 30
    for embedded, system, variant in zip(found.data["systems"], "BA", ("untrained", "seed1"), strict=True):
        metrics = read_json(made / "small" / "systems" / system / variant / "metrics.dev.json")
        values = metrics["per_query"]["MRR@10"]
        assert f"{metrics['measures']['MRR@10']:.4f}" in found.text
        assert (embedded["label"], embedded["name"]) == (f"System {system}", f"{system} {variant}")
        assert embedded["values"]["MRR@10"] == values
        assert embedded["first"] == [0 if value == 0 else round(1 / value) for value in values]
    assert found.data["judged"][3] == [found.data["systems"][1]["hits"][3][0], 1]
    assert "train A: 1 updates without a finite loss" in found.text
    assert "[0.1, 0.9]" in found.text and "better p 0.01" in found.text
    assert "Faults in the data" not in found.text and "A note below the table." in found.text


@pytest.mark.parametrize("values", [("-0.2000", "-0.1000"), ("9.5000", "10.5000"), ("", "0.0000")])
def test_the_best_row_is_that_of_the_largest_number(values: tuple[str, str]) -> None:
    first, second = ({"MRR@10": value} for value in values)
    assert collect._best([first, second], "MRR@10") is second


def test_what_is_missing_is_said_with_its_command(made: Path) -> None:
    there = {"target": str(made / "small" / "table2.tsv"), "command": "it is made", "reason": None}
    cannot = {"target": "results/small/third.tsv", "command": "no", "reason": "it has no train queries"}
    found, counts = shown(made, could_be_made=[MISSING, cannot, there])
    assert MISSING["command"] in found.text and "it has no train queries" in found.text
    assert "it is made" not in found.text and counts["missing"] == 2


def test_what_is_out_of_date_is_marked_where_it_stands(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    tests, folder = results / "small" / "table2.tests.tsv", results / "small" / "systems"
    columns = (
        "row compared_with measure row_mean compared_with_mean difference difference_low difference_high"
    )
    columns += " holm_p_value verdict smallest_detectable_difference queries"
    cells = ("B", "System A", "MRR@10", "0.75", "1", "-0.25", *"123", "worse", "0.1", "30")
    tests.write_text("\t".join(columns.split()) + "\n" + "\t".join(cells) + "\n")
    metrics, run = (folder / "A" / "seed1" / name for name in ("metrics.dev.json", "run.dev.trec"))
    record_beside(tests, "compare", inputs=[metrics], wildcards={"table": "table2"})
    marks = (
        r"Which differences hold: 1 of 1 out of date|(show a difference|to be found is \.100)\. out of date"
    )
    found, counts = shown(results)
    assert counts["out_of_date"] == 0 and "1 of 1 comparisons show a difference" in found.text
    assert not re.search(marks, found.text) and len(found.data["systems"]) == 2
    answer = '"System A" has the highest MRR@10 (1.000) and is significantly better than "B" (+.250).'
    assert answer in found.text and "is likely to be found is .100. To search with it:" in found.text
    assert 'make search DATASET=small SYSTEM=A VARIANT=seed1 QUERY="..." CONFIG=mine.yaml' in found.text

    measured = read_json(metrics)  # measured again, with other bytes, and the table made of it
    write_json(metrics, {**measured, "note": "other"})
    named, qrels = {"system": "A", "variant": "seed1", "split": "dev"}, results / "small/data/qrels.dev.tsv"
    record_beside(metrics, "metrics", inputs=[run, qrels], wildcards=named)
    of_table = results / "small" / "table2.tsv.manifest.json"
    table = read_manifest(of_table)
    Manifest(of_table, table.spec, inputs=table.inputs).write(outputs=table.outputs, counts={})
    found, counts = shown(results)
    assert counts["out_of_date"] == 1 and len(re.findall(marks, found.text)) == 3

    vectors = folder / "A" / "seed1" / "embeddings" / "collection.npy"  # the run is of others, then
    vectors.write_bytes(b"others")
    named = {"system": "A", "variant": "seed1"}
    record_beside(vectors, "encode", wildcards=named)
    found, counts = shown(results)
    assert counts["out_of_date"] == 4  # the run, and by it measures, table and tests
    assert "the best in table2 out of date" in found.text and "1 out of date system is left out" in found.text
    assert [system["name"] for system in found.data["systems"]] == ["B untrained"]


def test_a_damaged_manifest_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    broken = results / "small" / "systems" / "A" / "seed1" / "model.manifest.json"
    broken.write_text(broken.read_text()[:-20])
    found, counts = shown(results)
    assert str(broken) in found.text and "1 damaged" in found.text and counts["results"] == 8


def test_quality_by_rule_goes_from_the_start_to_the_trained_system(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(made)
    assert report._rule_of("B", "untrained") == (0, "start")
    assert report._rule_of("A", "seed1") == (2, "start")
    drawn = []
    monkeypatch.setattr(collect, "quality_chart", lambda *arguments, measure: drawn.append(arguments) or b"")
    (table,) = report.tables()
    assert len(drawn) == len(table["charts"]) == 2
    for (families, levels), measure in zip(drawn, ("MRR@10", "R@10"), strict=True):
        start, tuned = (float(row[measure]) for row in table["rows"])
        assert families == {"start": [Quality(0, start, 0.1, 0.9), Quality(2, tuned, 0.1, 0.9)]}
        assert levels == {}
    settings, (first, second) = report._tables[0].config["table"], table["rows"]
    only_tuned = report._quality(settings, [{**first, "R@10": ""}, second], "R@10")
    assert only_tuned is None  # one step is no way


def test_what_is_learnt_for_an_index_has_its_curve_and_its_name_in_a_plan(tmp_path: Path) -> None:
    losses = results_of(tmp_path) / "small" / "expansions" / "terms" / "seed1" / "losses.jsonl"
    write_losses(losses, [2.0, 1.0])
    named = {"expansion": "terms", "variant": "seed1"}
    record(losses.with_name("weights.jsonl.manifest.json"), "term_weights", outputs=[losses], wildcards=named)
    report = report_of(tmp_path / "results")
    curves = {curve["name"]: curve["left_out"] for curve in report.curves()}
    assert curves == {"term_weights terms": 0, "train A": 1}
    assert "term_weights terms seed1" in [result.name("small") for result in report.results]


def test_queries_that_are_judged_by_answers_are_shown_without_relevant_passages(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    (results / "small" / "data" / "qrels.dev.tsv").write_text("")
    data = report_of(results).queries(WIDE)
    assert data is not None
    assert data["judged"] == [[]] * 30 and {len(hits) for hits in data["systems"][0]["hits"]} == {2 * TOP}


def test_no_text_of_the_collection_becomes_markup(tmp_path: Path, text: str) -> None:
    found, plain = shown(results_of(tmp_path, text=HOSTILE))[0], Page(text)
    assert found.tags == plain.tags and found.links == plain.links
    assert all(passage[2].startswith(HOSTILE) for passage in found.data["passages"])  # {{ 7 * 7 }} stays


def test_the_page_asks_nothing_of_a_network(text: str) -> None:
    assert {link[:5] for link in Page(text).links if not link.startswith("#")} <= {"data:", "data:,"}
    without_data = re.sub(r'<script type="application/json".*?</script>', "", text)
    assert not re.search(r"https?:|url\(|@import", without_data)
    assert "default-src 'none'" in text


def test_long_passages_are_cut_and_counted(made: Path) -> None:
    found, counts = shown(made, Limits(queries=7000, characters=8, megabytes=25))
    assert counts["passages_cut"] == counts["passages"] > 0  # of "some text 12"
    assert all(passage[2:] == ["some", 1] for passage in found.data["passages"])
    assert f"{counts['passages']} of them cut after 8 characters" in found.text


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(results_of(tmp_path_factory.mktemp("large"), num_queries=200))


@pytest.mark.parametrize("limits", [Limits(40, 1000, 25), Limits(7000, 1000, 0.03)], ids=["queries", "bytes"])
def test_a_large_evaluation_is_a_sample_and_says_so(large: Report, limits: Limits) -> None:
    text, counts = page(large, limits)
    found = Page(text)
    data = found.data
    assert 10 < counts["queries"] < min(limits.queries + 1, 200) and counts["queries_of_evaluation"] == 200
    assert f"A random sample of {counts['queries']} of 200 queries" in found.text
    assert len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.megabytes * 1e6
    whole = large.queries(WIDE)
    assert whole is not None
    place = {query: index for index, (query, _) in enumerate(whole["queries"])}
    assert len(data["passages"]) < len(whole["passages"])
    for index, (query, _) in enumerate(data["queries"]):
        for one, other in zip(data["systems"], whole["systems"], strict=True):
            assert one["first"][index] == other["first"][place[query]]
            names = [data["passages"][passage][0] for passage in one["hits"][index][::2]]
            assert names == [whole["passages"][passage][0] for passage in other["hits"][place[query]][::2]]


def test_a_smaller_sample_is_a_part_of_a_larger_one(large: Report) -> None:
    small, more = (large.queries(Limits(number, 1000, 25)) for number in (5, 12))
    assert small is not None and more is not None
    assert len(more["queries"]) == 12
    assert {query for query, _ in small["queries"]} < {query for query, _ in more["queries"]}


def test_a_folder_without_results_gives_a_page_that_says_so(tmp_path: Path) -> None:
    found, counts = shown(tmp_path / "results")
    assert "Nothing has been measured yet" in found.text and MISSING["command"] in found.text
    assert counts["results"] == counts["queries"] == 0


def test_results_of_another_data_set_are_found_where_these_are_made_from_them(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    for model in ("used", "other"):
        losses = results / "elsewhere" / "models" / model / "losses.jsonl"
        write_losses(losses, [1.0])
        record(Path(f"{losses.parent}.manifest.json"), "pretrain", outputs=[losses])
    used = results / "elsewhere" / "models" / "used" / "losses.jsonl"
    tuned = results / "small" / "tuned.txt"
    tuned.touch()
    record_beside(tuned, "train", inputs=[used])
    found = {path for path in manifests_of(results, "small") if results / "small" not in path.parents}
    assert found == {Path(f"{used.parent}.manifest.json")}


def words_of(svg: bytes) -> set[str]:
    """The texts of a picture of matplotlib, which stand as comments above their outlines."""
    return {text.strip() for text in re.findall(r"<!-- (.*?) -->", svg.decode(), flags=re.DOTALL)}


def test_examples_in_the_docstrings_of_the_page_are_true() -> None:
    result = doctest.testmod(sys.modules[page.__module__])
    assert result.attempted == 2 and result.failed == 0


def test_charts_name_what_they_show() -> None:
    nan = float("nan")
    family = [Quality(0, 0.3, 0.2, 0.4), Quality(2, 0.5, nan, nan)]
    quality = quality_chart(
        {"a model": family, "_other": family[:1]}, {"BM25 at $5 or $6": 0.25}, measure="MRR@10"
    )
    assert b"NaN" not in quality and b"nan" not in quality
    texts = {"MRR@10", "a model", "_other", "BM25 at $5 or $6", *charts.STAGES_OF_QUALITY}
    assert texts <= words_of(quality)
    losses = loss_chart({"seed1": [(1.0, 2.0), (2.0, 1.5)]}, name="train A")
    assert {"train A", "seed1", "updates"} <= words_of(losses)


def test_the_counts_of_an_audit_are_shown_where_there_is_one(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    found = {"leaked_query": 3, "short_text": 0}
    files = [results / "small" / f"audit.{ending}" for ending in ("tsv", "json")]
    files[0].write_text("kind\n")
    counts = {"passages": 50, "queries": {"train": 7}, "findings": found}
    write_json(files[1], counts)
    record(results / "small" / "audit.manifest.json", "audit", outputs=files)
    text = shown(results)[0].text
    assert "leaked query 3" in text and "short text" not in text
    assert "50 passages, 7 queries of train" in text and str(files[0]) in text
