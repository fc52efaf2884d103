"""The report says what the last run made, what it reused, and what it did not come to."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_results import record_beside, report_of

from condenser.files import read_json, write_json
from condenser.manifest import RUN_VARIABLE, sealed
from condenser.report.collect import Report
from condenser.report.page import page
from condenser.report.queries import Limits

TARGET = "results/small/table.tsv"
STAGES = ["collect", "train", "encode", "search"]  # each is made from the one before


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def made(results: Path, rule: str, *, after: str | None = None) -> Path:
    """Make the result of a rule as the environment says; gives its manifest."""
    file = results / "small" / rule
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(rule)
    read = [results / "small" / after] if after else []
    record_beside(file, rule, inputs=read, config={"dataset": {"source": "beir"}})
    return Path(f"{file}.manifest.json")


def in_run(monkeypatch: pytest.MonkeyPatch, started: str, *asked: str) -> None:
    monkeypatch.setenv(RUN_VARIABLE, json.dumps({"started": started, "asked": asked}))


def at(manifest: Path, finished: str) -> None:
    """Let a result be finished at another time."""
    changed = {**read_json(manifest), "finished": finished}
    del changed["sha256"]
    write_json(manifest, sealed(changed))


def chain(results: Path, *more: str) -> dict[str, dict[str, Any]]:
    """The jobs behind the target: all rules, each after the one before."""
    names = [str(results / "small" / f"{rule}.manifest.json") for rule in [*STAGES, *more]]
    return {
        name: {"rule": rule, "after": [above] if above else []}
        for name, above, rule in zip(names, [None, *names], [*STAGES, *more], strict=False)
    }


def rules(report: Report) -> dict[str, dict[str, Any]]:
    return {rule["rule"]: rule for rule in report.rules()}


def cells_of_rules(text: str) -> dict[str, list[str]]:
    """The cells of the table of rules, by the first one of each row."""
    table = text[text.index('<table id="rules">') :].partition("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>\s*([^<]*?)\s*<", row) for row in table.split("<tr>")[1:]]
    return {row[0]: row[1:] for row in rows}


def two_runs(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run makes two rules, and the second one the third; one more stands apart."""
    in_run(monkeypatch, "2026-01-01T10:00:00+00:00", TARGET)
    at(made(results, "collect"), "2026-01-01T10:00:30+00:00")
    at(made(results, "train", after="collect"), "2026-01-01T10:05:00+00:00")
    at(made(results, "export", after="collect"), "2026-01-01T10:06:00+00:00")
    in_run(monkeypatch, "2026-01-02T10:00:00+00:00", TARGET)
    at(made(results, "encode", after="train"), "2026-01-02T10:09:40+00:00")


def test_the_last_run_is_told_in_words_and_by_rule(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(results, monkeypatch)
    report = report_of(results, behind_of=lambda target: chain(results) if target == TARGET else {})
    said = report.last_run()
    assert said is not None and said["asked"] == [TARGET] and said["seconds"] == 580.0
    assert [said[key] for key in ("made", "reused", "missing", "unknown", "unused")] == [1, 2, 1, 0, 1]
    text = " ".join(page(report, Limits(10, 100, 1))[0].split())
    assert "It made 1 result in 9 min 40 s and reused 2 of earlier runs." in text
    assert "1 missing" in text and "It had no use for 1 more." in text
    states = ("made", "reused", "missing", "unknown", "unused")
    found = rules(report)
    assert {name: [key for key in states if rule[key]] for name, rule in found.items()} == {
        "collect": ["reused"],
        "train": ["reused"],
        "export": ["unused"],
        "encode": ["made"],
        "search": ["missing"],
    }
    assert [name for name in found if name != "export"] == STAGES
    assert {name: rule["needs"] for name, rule in found.items()} == {
        "collect": [],
        "train": ["collect"],
        "export": ["collect"],
        "encode": ["train"],
        "search": ["encode"],
    }
    rows = {name: cells[:5] for name, cells in cells_of_rules(text).items()}
    assert rows["rule"] == ["reads from", "made in the last run", "reused", "missing", "not used"]
    assert rows["encode"] == ["train", "1", "0", "0", "0"]
    assert rows["search"] == ["encode", "0", "0", "1", "0"]


def test_a_target_that_the_configuration_lacks_is_said_and_misses_nothing(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_runs(results, monkeypatch)
    report = report_of(results)
    said = report.last_run()
    assert said is not None and not said["is_asked_known"]
    assert [said[key] for key in ("made", "reused", "missing", "unused")] == [1, 2, 0, 1]
    assert "what the run may lack is unknown" in page(report, Limits(10, 100, 1))[0]


def test_without_a_run_in_the_manifests_the_page_says_that_it_is_unknown(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    made(results, "collect")
    made(results, "train", after="collect")
    report = report_of(results, behind_of=lambda target: chain(results))
    assert report.last_run() is None
    text = page(report, Limits(10, 100, 1))[0]
    assert "is unknown: no manifest here names the run" in text and "in the last run" not in text
    assert rules(report)["collect"]["there"] == 1


def test_a_later_result_without_a_run_is_unknown_and_an_earlier_one_is_reused(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_runs(results, monkeypatch)
    monkeypatch.delenv(RUN_VARIABLE)
    at(made(results, "collect"), "2026-01-01T09:00:00+00:00")
    at(made(results, "search", after="encode"), "2026-01-02T10:20:00+00:00")
    report = report_of(results, behind_of=lambda target: chain(results))
    said = report.last_run()
    assert said is not None
    assert [said[key] for key in ("made", "reused", "missing", "unknown")] == [1, 2, 0, 1]
    assert "1 unknown" in page(report, Limits(10, 100, 1))[0]
    assert said["seconds"] == 580.0  # not those of what it may not have made


def test_a_later_round_does_not_change_the_order_of_the_rules(results: Path) -> None:
    made(results, "collect")
    made(results, "examples", after="collect")
    made(results, "train", after="examples")
    for name, rule, after in (("second", "examples", "train"), ("third", "train", "second")):
        file = results / "small" / name
        file.write_text("a second round")
        record_beside(file, rule, inputs=[results / "small" / after], wildcards={"system": name})
    # of the first round alone, so it lies less deep than the examples of the second
    made(results, "export", after="examples")
    found = rules(report_of(results))
    order = list(found)
    assert order.index("collect") < order.index("examples") < min(order.index("train"), order.index("export"))
    assert found["examples"]["needs"] == ["collect", "train"]


def test_a_time_of_the_run_has_its_zone(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from condenser.pipeline.environment import run

    ((name, value),) = run([TARGET]).items()
    monkeypatch.setenv(name, value)
    manifest = read_json(made(results, "collect"))
    assert manifest["run"]["asked"] == [TARGET]
    began = datetime.datetime.fromisoformat(manifest["run"]["started"])
    assert datetime.timedelta() <= datetime.datetime.now(datetime.UTC) - began < datetime.timedelta(minutes=5)
