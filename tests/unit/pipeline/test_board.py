"""What is shown of a run: times that are known, a screen that has room, the last words of a program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from condenser.files import write_json
from condenser.manifest import sealed
from condenser.pipeline.board import Board, Job
from condenser.pipeline.costs.forecast import Forecast, measured_before, planned_seconds
from condenser.pipeline.costs.jobs import jobs_of
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.specs import key_of


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def board_of(jobs: dict[str, Job], clock: Clock, forecast: Forecast | None = None) -> Board:
    return Board("results/d/table2.tsv", jobs, forecast=forecast or Forecast(), clock=clock)


def texts(board: Board, height: int = 24) -> list[str]:
    return [text for _, text in board.lines(height)]


def test_no_time_left_is_told_before_anything_is_known() -> None:
    board = board_of({"a": Job("encode d", "encode")}, Clock())
    assert board.left() is None
    assert board.summary() == "0 of 1 jobs done"
    assert texts(board)[0] == "results/d/table2.tsv   00:00, 0 of 1 jobs done"


def test_the_time_left_is_the_plans_scaled_by_what_has_run() -> None:
    clock, forecast = Clock(), Forecast()
    for job, rule, seconds in [("a", "encode", 10.0), ("b", "encode", 20.0), ("c", "train", 100.0)]:
        forecast.plan(job, rule, seconds)
    board = board_of({key: Job(key, "x") for key in "abc"}, clock, forecast)
    assert board.start("a") == "started a"
    clock.now += 30
    # three times the plan: 60 s for b, 300 s for c
    assert board.finish("a") == "finished a in 00:30: 1 of 3 jobs done, about 06:00 left"
    board.start("b")
    clock.now += 15
    assert board.left() == pytest.approx(345)


def test_jobs_that_take_half_of_the_machine_take_half_of_the_time_left() -> None:
    forecast = Forecast()
    forecast.took("a", 40.0)
    forecast.took("b", 60.0)
    jobs = {"a": Job("a", "x", share=0.5), "b": Job("b", "x", share=0.5)}
    assert board_of(jobs, Clock(), forecast).left() == 60  # not 50: the longer one has its time
    jobs["b"].share = 1.0
    assert board_of(jobs, Clock(), forecast).left() == 80


def test_a_job_that_takes_longer_than_planned_has_no_negative_time_left() -> None:
    clock, forecast = Clock(), Forecast()
    forecast.took("a", 5.0)
    board = board_of({"a": Job("a", "x"), "b": Job("b", "x")}, clock, forecast)
    board.start("a")
    clock.now += 50
    assert board.left() == 0


def test_a_program_that_knows_its_time_left_is_believed_when_it_says_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "10:00:00 condenser: 6 layers\npretrain: 30 of 300 updates (10 %), 3.1 s each, 13:57 left\n"
    )
    clock, forecast = Clock(log.stat().st_mtime - 1), Forecast()
    forecast.took("a", 60.0)
    board = board_of({"a": Job("pretrain d condenser", "pretrain", log=log)}, clock, forecast)
    board.start("a")
    assert board.left() == 13 * 60 + 57
    assert texts(board)[2:4] == [
        "pretrain d condenser   00:00, about 13:57 left",
        "  pretrain: 30 of 300 updates (10 %), 3.1 s each, 13:57 left",
    ]
    assert board.running() == [
        "pretrain d condenser runs for 00:00: pretrain: 30 of 300 updates (10 %), 3.1 s each, 13:57 left"
    ]


def test_the_log_of_an_earlier_run_is_not_shown_as_this_ones(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("pretrain: 300 updates done in 13:57\n")
    os.utime(log, (500, 500))
    board = board_of({"a": Job("a", "pretrain", log=log)}, Clock())
    board.start("a")
    assert board.running() == ["a runs for 00:00"]
    os.utime(log, (1001, 1001))
    assert board.running() == ["a runs for 00:00: pretrain: 300 updates done in 13:57"]


def test_what_a_program_says_cannot_move_the_cursor(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\nworse \x1b[2J\x9b \xff\r\n\n")
    board = board_of({"a": Job("a", "x", log=log)}, Clock(log.stat().st_mtime))
    board.start("a")
    (line,) = board.running()
    assert line.startswith("a runs for 00:00: worse") and line.isprintable()


def test_the_screen_never_has_more_lines_than_the_terminal() -> None:
    jobs = {str(number): Job(f"job {number}", f"rule{number % 18}") for number in range(60)}
    board = board_of(jobs, Clock())
    for number in range(30):
        board.start(str(number))
        if number < 23:
            board.finish(str(number))
    for height in range(3, 40):
        lines = board.lines(height)
        assert len(lines) <= height
        assert lines[0][1].startswith("results/d/table2.tsv   00:00, 23 of 60 jobs done")
        if height >= 26:  # room for all
            assert sum(text.startswith("rule") for _, text in lines) == 18
            assert ("running", "and 3 more jobs") in lines


def test_where_there_is_no_room_finished_rules_share_a_line() -> None:
    board = board_of({str(number): Job(str(number), f"rule{number}") for number in range(20)}, Clock())
    for number in range(15):
        board.start(str(number))
        board.finish(str(number))
    lines = board.lines(10)
    assert lines[2][0] == "done" and lines[2][1].startswith("done: rule0, rule1, ")
    assert [text.split()[0] for _, text in lines[3:]] == [f"rule{number}" for number in range(15, 20)]


def test_a_failed_job_waits_and_may_start_again() -> None:
    clock = Clock()
    board = board_of({"a": Job("a", "x")}, clock)
    board.start("a")
    board.fail("a")
    assert board.running() == [] and board.summary() == "0 of 1 jobs done"
    clock.now += 100
    board.start("a")
    clock.now += 7
    assert board.finish("a") == "finished a in 00:07: 1 of 1 jobs done"
    assert board.end() == "1 of 1 jobs done in 01:47"


def test_the_last_line_names_the_longest_rules() -> None:
    clock = Clock()
    board = board_of({"a": Job("a", "train"), "b": Job("b", "encode"), "c": Job("c", "table")}, clock)
    for job, seconds in {"a": 5, "b": 60, "c": 0.1}.items():
        board.start(job)
        clock.now += seconds
        board.finish(job)
    assert board.end() == "3 of 3 jobs done in 01:05; encode 01:00, train 00:05"


SPEC = {"rule": "table", "config": {"seed": 1}, "code": "old"}


@pytest.fixture
def ran_before(tmp_path: Path) -> tuple[str, str]:
    """The manifest and the benchmark of a job."""
    record = {"spec": SPEC, "inputs": {}, "outputs": {}, "counts": {}}
    write_json(tmp_path / "t.manifest.json", sealed(record))
    (tmp_path / "t.bench.tsv").write_text("s\th:m:s\n3.0974\t0:00:03\n")
    return str(tmp_path / "t.manifest.json"), str(tmp_path / "t.bench.tsv")


def test_a_job_takes_as_long_as_before_if_its_settings_are_the_same(ran_before: tuple[str, str]) -> None:
    assert measured_before(*ran_before, spec=SPEC) == 3.0974
    assert measured_before(*ran_before, spec={**SPEC, "code": "new"}) == 3.0974
    assert measured_before(*ran_before, spec={**SPEC, "config": {"seed": 2}}) is None
    assert measured_before(ran_before[0], None, spec=SPEC) is None
    Path(ran_before[0]).write_text("{}")
    assert measured_before(*ran_before, spec=SPEC) is None


def test_the_plan_of_each_job_is_known_unless_its_rule_has_no_cost(root: Path) -> None:
    jobs = jobs_of(
        {"rule": rule, "wildcards": {"dataset": "d"}, "config": {}, "needs": needs}
        for rule, needs in (("subset", []), ("figure", [0]), ("table", [0]))
    )
    tables = Tables(root / "condenser" / "pipeline" / "costs" / "tables")
    # a start alone: rates.tsv has 2.0 a second of subset, and 1.6 of table
    forecast = Forecast()
    for *planned, _ in planned_seconds(jobs, tables, device="cpu", threads=2):
        forecast.plan(*planned)
    subset, figure, table = (key_of(job.rule, job.wildcards) for job in jobs)
    forecast.took(subset, 0.5)  # the machine of the plan
    assert [forecast.seconds(key) for key in (figure, table)] == [None, 0.625]
    forecast.took(subset, 1.0)
    assert forecast.seconds(table) == 1.25
