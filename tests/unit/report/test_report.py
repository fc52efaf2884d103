"""The report says what the results say, shows any text as text, and leaves nothing out silently."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from small_results import MISSING, record, report_of, write_losses, write_results

from condenser.data.records import ScoredDoc, read_run, write_run
from condenser.files import read_json, write_json
from condenser.manifest import Manifest, read_manifest
from condenser.report import charts, collect
from condenser.report.charts import Quality, loss_chart, quality_chart
from condenser.report.page import duration, page, size
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


def test_the_first_passages_of_a_run_are_those_of_a_plain_reader(tmp_path: Path) -> None:
    draw = random.Random(1)
    names = [f"q{number}" for number in range(20)]
    hits = [
        ScoredDoc(name, f"d{doc}", 50.0 - rank)
        for name in names
        for rank, doc in enumerate(draw.sample(range(60), draw.randint(1, 40)))
    ]
    relevant = {name: {f"d{doc}" for doc in draw.sample(range(60), 2)} for name in names}
    write_run(tmp_path / "run", hits, system="s")
    by_query: dict[str, list[ScoredDoc]] = defaultdict(list)
    for hit in read_run(tmp_path / "run"):
        by_query[hit.query_id].append(hit)
    expected = {}
    for name in names[::2]:
        ranks = [rank for rank, hit in enumerate(by_query[name], 1) if hit.doc_id in relevant[name]]
        top = [(hit.doc_id, hit.score) for hit in by_query[name][:TOP]]
        expected[name] = top, min(ranks, default=0)
    assert top_hits(tmp_path / "run", relevant, set(names[::2])) == expected
    assert any(first > TOP for _, first in expected.values())  # also beyond what is shown


def test_the_page_has_the_cells_of_the_table_and_the_values_of_each_query(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    found, counts = shown(results)
    for system in ("A", "B"):
        variant = "seed1" if system == "A" else "untrained"
        metrics = read_json(results / "small" / "systems" / system / variant / "metrics.dev.json")
        assert f"System {system}" in found.text
        assert f"{metrics['measures']['MRR@10']:.4f}" in found.text
        (embedded,) = (one for one in found.data["systems"] if one["label"] == f"System {system}")
        assert embedded["values"]["MRR@10"] == metrics["per_query"]["MRR@10"]
        assert embedded["name"] == f"{system} {variant}"
        ranks = [0 if value == 0 else round(1 / value) for value in embedded["values"]["MRR@10"]]
        assert embedded["first"] == ranks
    assert "30 queries" in found.text and counts["queries"] == counts["queries_of_evaluation"] == 30
    assert found.data["judged"][3] == [found.data["systems"][1]["hits"][3][0], 1]


@pytest.mark.parametrize("values", [("-0.2000", "-0.1000"), ("9.5000", "10.5000"), ("", "0.0000")])
def test_the_best_row_is_that_of_the_largest_number(tmp_path: Path, values: tuple[str, str]) -> None:
    table = results_of(tmp_path) / "small" / "table2.tsv"
    header, *lines = (line.split("\t") for line in table.read_text().splitlines())
    for line, value in zip(lines, values, strict=True):
        line[header.index("MRR@10")] = value
    table.write_text("".join("\t".join(line) + "\n" for line in [header, *lines]))
    (shown_table,) = report_of(tmp_path / "results").tables()
    assert shown_table["best"]["MRR@10"] == values[1]
    assert shown_table["first"]["method"] == "System A"


def test_what_is_missing_is_said_with_its_command(tmp_path: Path) -> None:
    cannot = {"target": "results/small/third.tsv", "command": "no", "reason": "it has no train queries"}
    made = {"target": "", "command": "it is made", "reason": None}
    results = results_of(tmp_path)
    made["target"] = str(results / "small" / "table2.tsv")
    found, counts = shown(results, could_be_made=[MISSING, cannot, made])
    assert MISSING["command"] in found.text and "it has no train queries" in found.text
    assert "it is made" not in found.text and counts["missing"] == 2


def test_results_of_another_configuration_are_called_out_of_date(tmp_path: Path) -> None:
    def refuse(rule: str, wildcards: dict[str, str]) -> dict[str, Any]:
        raise LookupError(f"expected another {rule}")

    results = results_of(tmp_path)
    _, fresh = shown(results)
    found, old = shown(results, spec_of=refuse)
    assert fresh["out_of_date"] == 0 and old["out_of_date"] == old["results"] == fresh["results"] == 9
    assert "the configuration no longer has the job" in found.text


def test_what_is_out_of_date_is_marked_where_it_stands(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    tests, folder = results / "small" / "table2.tests.tsv", results / "small" / "systems"
    columns = "row compared_with measure difference difference_low difference_high holm_p_value verdict"
    columns += " smallest_detectable_difference"
    tests.write_text("\t".join(columns.split()) + "\n" + "\t".join(["A", "B", *"12345", "worse", "6"]) + "\n")
    metrics, run = (folder / "A" / "seed1" / f"{name}" for name in ("metrics.dev.json", "run.dev.trec"))
    of_tests = {"outputs": [tests], "inputs": [metrics], "wildcards": {"table": "table2"}}
    record(Path(f"{tests}.manifest.json"), "compare", **of_tests)
    marks = r"Which differences hold: 1 of 1 out of date|show a difference\. out of date"
    found, counts = shown(results)
    assert counts["out_of_date"] == 0 and "1 of 1 comparisons show a difference" in found.text
    assert not re.search(marks, found.text) and len(found.data["systems"]) == 2

    measured = read_json(metrics)  # measured again, with other bytes, and the table made of it
    write_json(metrics, {**measured, "note": "other"})
    named, qrels = {"system": "A", "variant": "seed1", "split": "dev"}, results / "small/data/qrels.dev.tsv"
    record(
        Path(f"{metrics}.manifest.json"), "metrics", outputs=[metrics], inputs=[run, qrels], wildcards=named
    )
    of_table = results / "small" / "table2.tsv.manifest.json"
    table = read_manifest(of_table)
    Manifest(of_table, table.spec, inputs=table.inputs).write(outputs=table.outputs, counts={})
    found, counts = shown(results)
    assert counts["out_of_date"] == 1 and len(re.findall(marks, found.text)) == 2

    vectors = folder / "A" / "seed1" / "embeddings" / "collection.npy"  # the run is of others, then
    vectors.write_bytes(b"others")
    named = {"system": "A", "variant": "seed1"}
    record(Path(f"{vectors}.manifest.json"), "encode", outputs=[vectors], wildcards=named)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(results_of(tmp_path))
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


def test_a_plan_stands_beside_what_was_measured(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    plan = results / "small" / "table2.plan.tsv"
    rows = [
        ["train A seed1", "1", "3600.0", "2000000000", "92000000"],
        ["collect", "1", "2.0", "", "0"],
        ["pretrain other", "1", "5.0", "", ""],
    ]
    columns = ["rule", "jobs", "seconds", "memory_bytes", "bytes_on_disk", "device", "basis"]
    columns += ["seconds_low", "seconds_high", "rates"]
    total = ["total", "3", "3607.0", "2000000000", "92000000", "", "", "1803.5", "10821.0", "stated 100%"]
    ends = ["1800.0", "10800.0", "stated 98%, scaled 2%"]
    lines = [columns, *([*row, "H200", "counted", *ends] for row in rows), total]
    plan.write_text("".join("\t".join(line) + "\n" for line in lines))
    record(Path(f"{plan}.manifest.json"), "plan", outputs=[plan], wildcards={"table": "table2", "on": ""})
    report = report_of(results)
    (planned,) = report.planned()
    of = {result.rule: result for result in report.results}
    measured = [row["measured"] for row in planned["rows"]]
    assert measured[2:] == [None, None]  # nor has the total all that it adds up
    for cost, rule in zip(measured, ("train", "collect"), strict=False):
        assert cost["seconds"] == of[rule].record["wall_time_s"]
        assert cost["memory_mb"] == of[rule].record["peak_memory_mb"]
        assert cost["bytes"] == sum(file.stat().st_size for file in of[rule].outputs)
    text = shown(results)[0].text
    assert "1 h 0 min (30 min 0 s to 3 h 0 min)" in text and "stated 98%, scaled 2%" in text
    assert "2.0 GB" in text and "92.0 MB" in text

    of_table = ["table", "1", "1.0", "", "", "H200", "counted", "unknown", "unknown", "unknown"]
    plan.write_text("".join("\t".join(line) + "\n" for line in [*lines[:3], of_table, total]))
    record(Path(f"{plan}.manifest.json"), "plan", outputs=[plan], wildcards={"table": "table2", "on": ""})
    *parts, whole = (row["measured"] for row in report_of(results).planned()[0]["rows"])
    assert whole["jobs"] == 3 and whole["bytes"] == sum(part["bytes"] for part in parts)


def test_a_training_without_a_finite_loss_at_times_says_so(tmp_path: Path) -> None:
    report = report_of(results_of(tmp_path))
    (curve,) = report.curves()
    assert curve["name"] == "train A" and curve["left_out"] == 1
    found, _ = shown(tmp_path / "results")
    assert "train A: 1 updates without a finite loss" in found.text


def test_what_is_learnt_for_an_index_has_its_curve_and_its_name_in_a_plan(tmp_path: Path) -> None:
    losses = results_of(tmp_path) / "small" / "expansions" / "terms" / "seed1" / "losses.jsonl"
    write_losses(losses, [2.0, 1.0])
    named = {"expansion": "terms", "variant": "seed1"}
    record(losses.with_name("weights.jsonl.manifest.json"), "term_weights", outputs=[losses], wildcards=named)
    report = report_of(tmp_path / "results")
    assert [curve["name"] for curve in report.curves()] == ["term_weights terms", "train A"]
    assert "term_weights terms seed1" in [result.name("small") for result in report.results]


def test_queries_that_are_judged_by_answers_are_shown_without_relevant_passages(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    (results / "small" / "data" / "qrels.dev.tsv").write_text("")
    (data,) = [found.data for found, _ in [shown(results)]]
    assert data["judged"] == [[]] * 30 and {len(hits) for hits in data["systems"][0]["hits"]} == {2 * TOP}


def test_no_text_of_the_collection_becomes_markup(tmp_path: Path) -> None:
    plain, _ = shown(results_of(tmp_path / "plain"))
    results = results_of(tmp_path / "hostile", text=HOSTILE)
    text, _ = page(report_of(results), WIDE)
    found = Page(text)
    assert found.tags == plain.tags and found.links == plain.links
    assert any(passage[2].startswith(HOSTILE) for passage in found.data["passages"])
    assert "49" not in [passage[2] for passage in found.data["passages"]]


def test_the_page_asks_nothing_of_a_network(tmp_path: Path) -> None:
    text, _ = page(report_of(results_of(tmp_path)), WIDE)
    found = Page(text)
    assert {link[:5] for link in found.links if not link.startswith("#")} <= {"data:", "data:,"}
    assert not re.search(
        r"https?:|url\(|@import", re.sub(r'<script type="application/json".*?</script>', "", text)
    )
    assert "default-src 'none'" in text


def test_long_passages_are_cut_and_counted(tmp_path: Path) -> None:
    results = results_of(tmp_path, text="word " * 100)
    found, counts = shown(results, Limits(queries=7000, characters=52, megabytes=25))
    assert counts["passages_cut"] == counts["passages"] > 0
    assert all(passage[2] == " ".join(["word"] * 10) and passage[3] for passage in found.data["passages"])
    assert f"{counts['passages']} of them cut after 52 characters" in found.text


@pytest.mark.parametrize("limits", [Limits(40, 1000, 25), Limits(7000, 1000, 0.03)], ids=["queries", "bytes"])
def test_a_large_evaluation_is_a_sample_and_says_so(tmp_path: Path, limits: Limits) -> None:
    results = results_of(tmp_path, num_queries=200)
    found, counts = shown(results, limits)
    data = found.data
    assert 10 < counts["queries"] <= 40 or limits.queries > 200
    assert 10 < counts["queries"] < 200 and counts["queries_of_evaluation"] == 200
    assert f"A random sample of {counts['queries']} of 200 queries" in found.text
    assert len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.megabytes * 1e6
    whole = report_of(results).queries(WIDE)
    assert whole is not None
    place = {query: index for index, (query, _) in enumerate(whole["queries"])}
    assert len(data["passages"]) < len(whole["passages"])
    for index, (query, _) in enumerate(data["queries"]):
        for one, other in zip(data["systems"], whole["systems"], strict=True):
            assert one["first"][index] == other["first"][place[query]]
            names = [data["passages"][passage][0] for passage in one["hits"][index][::2]]
            assert names == [whole["passages"][passage][0] for passage in other["hits"][place[query]][::2]]


def test_a_smaller_sample_is_a_part_of_a_larger_one(tmp_path: Path) -> None:
    report = report_of(results_of(tmp_path))
    small, large = (report.queries(Limits(number, 1000, 25)) for number in (5, 12))
    assert small is not None and large is not None
    assert len(large["queries"]) == 12
    assert {query for query, _ in small["queries"]} < {query for query, _ in large["queries"]}


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
    record(Path(f"{tuned}.manifest.json"), "train", outputs=[tuned], inputs=[used])
    found = {path for path in manifests_of(results, "small") if results / "small" not in path.parents}
    assert found == {Path(f"{used.parent}.manifest.json")}


def words_of(svg: bytes) -> set[str]:
    """The texts of a picture of matplotlib, which stand as comments above their outlines."""
    return {text.strip() for text in re.findall(r"<!-- (.*?) -->", svg.decode(), flags=re.DOTALL)}


def test_charts_are_the_same_bytes_and_name_what_they_show() -> None:
    nan = float("nan")
    family = [Quality(0, 0.3, 0.2, 0.4), Quality(2, 0.5, nan, nan)]
    made = [
        quality_chart({"a model": family, "_other": family[:1]}, {"BM25 at $5 or $6": 0.25}, measure="MRR@10")
        for _ in range(2)
    ]
    assert made[0] == made[1] and b"NaN" not in made[0] and b"nan" not in made[0]
    texts = {"MRR@10", "a model", "_other", "BM25 at $5 or $6", *charts.STAGES_OF_QUALITY}
    assert texts <= words_of(made[0])
    losses = [loss_chart({"seed1": [(1.0, 2.0), (2.0, 1.5)]}, name="train A") for _ in range(2)]
    assert losses[0] == losses[1] and {"train A", "seed1", "updates"} <= words_of(losses[0])


def test_times_and_sizes_are_written_in_words() -> None:
    assert [duration(value) for value in (None, 0.04, 59.96, 75.0, 7260.0)] == [
        "", "0.0 s", "60.0 s", "1 min 15 s", "2 h 1 min",
    ]  # fmt: skip
    assert [size(value) for value in (12, 123_456, 5e9, 2e13)] == ["12 B", "123.5 kB", "5.0 GB", "20.0 TB"]


def test_the_counts_of_an_audit_are_shown_where_there_is_one(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    assert "Faults in the data" not in shown(results)[0].text
    found = {"leaked_query": 3, "short_text": 0}
    files = [results / "small" / f"audit.{ending}" for ending in ("tsv", "json")]
    files[0].write_text("kind\n")
    counts = {"passages": 50, "queries": {"train": 7}, "negatives": {"bm25": 210}, "findings": found}
    write_json(files[1], counts)
    record(results / "small" / "audit.manifest.json", "audit", outputs=files)
    text = shown(results)[0].text
    assert "leaked query 3" in text and "short text" not in text
    assert "50 passages, 7 queries of train, 210 negatives of bm25" in text and str(files[0]) in text
