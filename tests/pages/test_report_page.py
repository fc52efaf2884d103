"""The report in a real browser: what is on it, what its buttons do, and that nothing leaves the machine."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Tab, emptied
from small_results import report_of, write_results

from condenser.report.page import page
from condenser.report.queries import Limits

pytestmark = pytest.mark.weekly

NUM_QUERIES = 7000
Opened = Callable[..., Tab]
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
LONG = "W" * 900
RIGHT_TO_LEFT = "مرحبا بالعالم"


def rank_of(system: str, number: int) -> int:
    """The rank of the relevant passage of a query."""
    return 1 + (number + 3) % 4 if system == "A" else 1 + number % 12


def value_of(system: str, number: int) -> float:
    """MRR@10 of a query."""
    rank = rank_of(system, number)
    return 1 / rank if rank <= 10 else 0.0


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on 7,000 queries, some with texts that could break a page."""
    draw = random.Random(1)
    words = [f"word{number}" for number in range(500)]
    texts = {11: "needle in word1", 0: f"alpha {HOSTILE} beta", 1: f"gamma {LONG}", 2: RIGHT_TO_LEFT}
    queries = [
        (f"q{number}", texts.get(number, " ".join(draw.sample(words, 6)))) for number in range(NUM_QUERIES)
    ]
    titles = ["A title", "", "", "", ""]
    passages = [
        (f"d{number}", titles[number % 5], f"{texts.get(number, '')} {' '.join(draw.sample(words, 30))}")
        for number in range(NUM_QUERIES)
    ]

    def ranking(number: int, rank: int) -> list[tuple[str, float]]:
        others = [(number + step) % NUM_QUERIES for step in range(1, 13)]
        others.insert(rank - 1, number)
        return [(f"d{doc}", 10.0 - place / 2) for place, doc in enumerate(others)]

    folder, numbers = tmp_path_factory.mktemp("report"), range(NUM_QUERIES)
    write_results(
        folder / "results",
        queries=queries,
        passages=passages,
        judged={f"q{one}": {f"d{one}": 1, f"d{(one + 3) % NUM_QUERIES}": 0} for one in numbers},
        systems={
            system: {f"q{one}": ranking(one, rank_of(system, one)) for one in numbers} for system in "BA"
        },
    )
    text, counts = page(report_of(folder / "results"), Limits(queries=7000, characters=1000, megabytes=25))
    assert counts["queries"] == NUM_QUERIES and counts["bytes"] < 25e6
    (folder / "report.html").write_text(text)
    return folder / "report.html"


@pytest.fixture
def opened(browser_tab: Tab, file: Path) -> Iterator[Opened]:
    """Opens the report; at the end nothing may stand in the console, and nothing may have been asked for."""

    with emptied(browser_tab, file.as_uri()) as tab:

        def at_size(size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> Tab:
            tab.resize(size, dark=dark)
            tab.open(file.as_uri())
            tab.wait_for("location.protocol === 'file:' && document.readyState === 'complete'")
            return tab

        yield at_size


def rows(tab: Tab) -> list[list[str]]:
    """The cells of the rows that are drawn."""
    cells = "[...row.children].map(cell => cell.textContent)"
    return tab.value(f"[...document.querySelectorAll('.list-row')].map(row => {cells})")


def text(tab: Tab, selector: str) -> str:
    """The text of one element."""
    (found,) = tab.texts(selector)
    return found


def width(tab: Tab) -> int:
    return tab.value("document.documentElement.scrollWidth")


def test_the_script_computes_the_means_of_the_table_from_the_queries(opened: Opened) -> None:
    tab = opened()
    mean = sum(value_of("A", number) for number in range(NUM_QUERIES)) / NUM_QUERIES
    assert f"MRR@10 {mean:.4f}" in text(tab, "#summary")
    assert f"MRR@10 {mean:.4f}" in text(tab, "#pair")
    assert "0 of 7000 queries have MRR@10 0 with System A" in text(tab, "#failures")


def test_queries_are_sorted_filtered_and_found(opened: Opened) -> None:
    tab = opened()
    drawn = rows(tab)
    assert 5 < len(drawn) < 60  # of 7,000
    differences = [value_of("A", number) - value_of("B", number) for number in range(NUM_QUERIES)]
    assert float(drawn[0][3]) == pytest.approx(max(differences), abs=1e-3)
    tab.click("[data-sort=difference]")
    assert float(rows(tab)[0][3]) == pytest.approx(min(differences), abs=1e-3) and min(differences) < 0
    tab.click("[data-sort=query]")
    texts = [row[0] for row in rows(tab)]
    assert texts == tab.value(f"{json.dumps(texts)}.sort(new Intl.Collator().compare)")
    wins = sum(difference > 0 for difference in differences)
    assert text(tab, "[data-filter=won]") == f"A wins {wins}"
    tab.click("[data-filter=won]")
    assert tab.value("document.getElementById('list').getAttribute('aria-rowcount')") == str(wins)
    assert all(float(row[3]) > 0 for row in rows(tab))
    tab.click("[data-filter=all]")
    tab.fill("#search", "q6999")
    assert [row[4] for row in rows(tab)] == [str(rank_of("A", 6999))]
    tab.fill("#search", "no such query")
    assert rows(tab) == [] and "No query is like that" in text(tab, "#rows")


def test_only_visible_rows_exist_and_another_system_changes_all(opened: Opened) -> None:
    tab = opened()
    tab.value("document.getElementById('list').scrollTop = 1e9")
    tab.wait_for("document.querySelector('.list-row').style.top !== '0px'")
    drawn = rows(tab)
    assert len(drawn) < 60 and float(drawn[-1][3]) < 0
    options = "[...document.querySelector('#system-b').options]"
    tab.choose("#system-b", tab.value(f"{options}.find(one => one.text === 'System A').value"))
    assert text(tab, "[data-filter=tie]") == f"equal {NUM_QUERIES}"


def test_a_query_shows_both_rankings_with_what_is_judged(opened: Opened) -> None:
    tab = opened()
    tab.fill("#search", "needle")  # A: rank 3; B: rank 12, beyond its top 10
    tab.click("[data-query=q11]")
    first, second = tab.texts(".sides > div")
    assert "first relevant at rank 3, judged@10 0.2" in first
    assert "first relevant at rank 12, judged@10 0.1" in second
    left, right = ".sides > div:first-child", ".sides > div:last-child"
    assert len(tab.texts(f"{left} li")) == len(tab.texts(f"{right} li")) == 10
    relevant = text(tab, f"{left} li.relevant")
    assert "relevant, grade 1" in relevant and relevant.startswith("3\n9.0000")
    assert text(tab, f"{left} li.relevant code") == "d11"
    assert "judged, grade 0" in first
    # both rank d12 and d13, without judgement, above the relevant passage
    assert tab.texts(f"{left} li.candidate code") == ["d12", "d13"]
    assert "not judged: candidate" in tab.texts(f"{left} li")[0]
    query = text(tab, "#detail-query")
    assert {mark.lower() for mark in tab.texts("#detail mark")} <= set(query.split())


def test_keys_move_through_the_list(opened: Opened) -> None:
    tab = opened()
    tab.value("document.getElementById('list').focus()")
    before = text(tab, "#detail-query")
    for _ in range(30):
        tab.press("ArrowDown")
    assert text(tab, "#detail-query") != before
    tab.wait_for("document.querySelectorAll('.list-row[aria-selected=true]').length === 1")
    assert tab.value(
        "(() => { const list = document.getElementById('list').getBoundingClientRect();"
        " const box = document.querySelector('.list-row[aria-selected=true]').getBoundingClientRect();"
        " return box.top >= list.top && box.bottom <= list.bottom + 1; })()"
    )


@pytest.mark.parametrize(
    ("query", "size"),
    [("q0", DESKTOP), ("q1", DESKTOP), ("q1", PHONE), ("q2", PHONE)],
    ids=["markup", "long word", "long word on a phone", "right to left"],
)
def test_texts_of_the_collection_are_texts_and_break_nothing(
    opened: Opened, query: str, size: tuple[int, int]
) -> None:
    tab = opened(size)
    tab.fill("#search", {"q0": "hacked", "q1": LONG[:40], "q2": RIGHT_TO_LEFT.split()[0]}[query])
    tab.click(f"[data-query={query}]")
    expected = {"q0": f"alpha {HOSTILE} beta", "q1": f"gamma {LONG}", "q2": RIGHT_TO_LEFT}[query]
    assert tab.value("document.getElementById('detail-query').textContent") == expected
    hits = tab.value("[...document.querySelectorAll('.hits p')].map(one => one.textContent)")
    assert any(expected in one for one in hits)
    assert tab.value("window.hacked === undefined && document.querySelector('img:not(.picture)') === null")
    assert width(tab) == size[0]
    if query == "q2":
        assert tab.value("getComputedStyle(document.getElementById('detail-query')).direction") == "rtl"


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["light", "dark"])
def test_the_page_fits_its_screen_in_both_schemes(opened: Opened, size: tuple[int, int], dark: bool) -> None:
    tab = opened(size, dark=dark)
    assert width(tab) == size[0]
    colours = tab.value(
        "(() => { const of = getComputedStyle(document.body); return [of.backgroundColor, of.color]; })()"
    )
    brightness = [sum(int(part) for part in colour[4:-1].split(", ")[:3]) / 3 for colour in colours]
    assert (brightness[0] < brightness[1]) == dark and abs(brightness[0] - brightness[1]) > 150
    if folder := os.environ.get("PICTURES"):
        tab.picture(Path(folder, f"report-{size[0]}-{'dark' if dark else 'light'}.png"))


def test_the_page_prints_without_its_controls(opened: Opened) -> None:
    tab = opened(dark=True)
    tab.call("Emulation.setEmulatedMedia", media="print")
    shown = "(selector => document.querySelector(selector).checkVisibility())"
    assert not tab.value(f"{shown}('#list')") and not tab.value(f"{shown}('nav')")
    assert tab.value(f"{shown}('#tables table')") and tab.value(f"{shown}('#detail')")
    assert len(base64.b64decode(tab.call("Page.printToPDF")["data"])) > 10_000
