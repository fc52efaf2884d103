"""The report in a real browser: what is on it, what its buttons do, and that nothing leaves the machine."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_results import report_of, write_results

from condenser.report.page import page
from condenser.report.queries import Limits

pytestmark = pytest.mark.browser

NUM_QUERIES = 7000
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
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
    passages = [
        (
            f"d{number}",
            "A title" if number % 5 == 0 else "",
            f"{texts.get(number, '')} {' '.join(draw.sample(words, 30))}",
        )
        for number in range(NUM_QUERIES)
    ]

    def ranking(number: int, rank: int) -> list[tuple[str, float]]:
        others = [(number + step) % NUM_QUERIES for step in range(1, 13)]
        others.insert(rank - 1, number)
        return [(f"d{doc}", 10.0 - place / 2) for place, doc in enumerate(others)]

    folder = tmp_path_factory.mktemp("report")
    write_results(
        folder / "results",
        queries=queries,
        passages=passages,
        judged={
            f"q{number}": {f"d{number}": 1, f"d{(number + 3) % NUM_QUERIES}": 0}
            for number in range(NUM_QUERIES)
        },
        systems={
            system: {f"q{number}": ranking(number, rank_of(system, number)) for number in range(NUM_QUERIES)}
            for system in ("B", "A")
        },
    )
    text, counts = page(report_of(folder / "results"), Limits(queries=7000, characters=1000, megabytes=25))
    assert counts["queries"] == NUM_QUERIES and counts["bytes"] < 25e6
    (folder / "report.html").write_text(text)
    return folder / "report.html"


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Callable[..., Any]]:
    """Opens the report; at the end nothing may stand in the console, and nothing may have been asked for."""
    said: list[str] = []
    asked: list[str] = []
    contexts = []

    def at_size(size: str = "desktop", scheme: str = "light") -> Any:
        width, height = SIZES[size]
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(file.as_uri())
        return tab

    yield at_size
    for context in contexts:
        context.close()
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {file.as_uri()}


def rows(tab: Any) -> list[list[str]]:
    """The cells of the rows that are drawn."""
    found = tab.eval_on_selector_all(
        ".list-row", "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return list(found)


def test_the_page_says_how_good_each_system_is(opened: Callable[..., Any]) -> None:
    tab = opened()
    cells = tab.eval_on_selector_all(
        "#tables table.results tbody tr", "rows => rows.map(row => row.innerText.replace(/\\s+/g, ' '))"
    )
    mean = sum(value_of("A", number) for number in range(NUM_QUERIES)) / NUM_QUERIES
    assert len(cells) == 2 and f"System A 8 {mean:.4f} [0.1, 0.9]" in cells[1]
    assert "better" in cells[1] and "p 0.01" in cells[1]
    assert f"MRR@10 {mean:.4f}" in tab.inner_text("#summary")
    assert f"{mean:.4f}" in tab.inner_text("#pair")  # computed again by the script, from the queries
    assert "0 of 7000 queries have MRR@10 0 with System A" in tab.inner_text("#failures")


def test_queries_are_sorted_filtered_and_found(opened: Callable[..., Any]) -> None:
    tab = opened()
    drawn = rows(tab)
    assert 5 < len(drawn) < 60  # of 7,000
    differences = [value_of("A", number) - value_of("B", number) for number in range(NUM_QUERIES)]
    assert float(drawn[0][3]) == pytest.approx(max(differences), abs=1e-3)
    tab.click("[data-sort=difference]")
    assert float(rows(tab)[0][3]) == pytest.approx(min(differences), abs=1e-3) and min(differences) < 0
    tab.click("[data-sort=query]")
    texts = [row[0] for row in rows(tab)]
    assert texts == tab.evaluate("texts => [...texts].sort(new Intl.Collator().compare)", texts)
    wins = sum(difference > 0 for difference in differences)
    assert tab.inner_text("[data-filter=won]") == f"A wins {wins}"
    tab.click("[data-filter=won]")
    assert tab.get_attribute("#list", "aria-rowcount") == str(wins)
    assert all(float(row[3]) > 0 for row in rows(tab))
    tab.click("[data-filter=all]")
    tab.fill("#search", "q6999")
    assert [row[4] for row in rows(tab)] == [str(rank_of("A", 6999))]
    tab.fill("#search", "no such query")
    assert rows(tab) == [] and "No query is like that" in tab.inner_text("#rows")


def test_only_visible_rows_exist_and_seven_thousand_do_not_stall(opened: Callable[..., Any]) -> None:
    tab = opened()
    tab.evaluate("document.getElementById('list').scrollTop = 1e9")
    tab.wait_for_function("document.querySelector('.list-row').style.top !== '0px'")
    drawn = rows(tab)
    assert len(drawn) < 60 and float(drawn[-1][3]) < 0
    began = time.monotonic()
    for name in ("query", "rankA", "candidates", "difference"):
        tab.click(f"[data-sort={name}]")
    tab.select_option("#system-b", label="System A")
    assert time.monotonic() - began < 20  # a second on a quiet machine
    assert tab.inner_text("[data-filter=tie]") == f"equal {NUM_QUERIES}"


def test_a_query_shows_both_rankings_with_what_is_judged(opened: Callable[..., Any]) -> None:
    tab = opened()
    tab.fill("#search", "needle")  # A: rank 3; B: rank 12, beyond its top 10
    tab.click("[data-query=q11]")
    sides = tab.locator(".sides > div")
    first, second = sides.nth(0), sides.nth(1)
    assert "first relevant at rank 3, judged@10 0.2" in first.inner_text()
    assert "first relevant at rank 12, judged@10 0.1" in second.inner_text()
    assert first.locator("li").count() == second.locator("li").count() == 10
    relevant = first.locator("li.relevant")
    assert relevant.count() == 1 and "relevant, grade 1" in relevant.inner_text()
    assert relevant.locator("code").inner_text() == "d11" and relevant.inner_text().startswith("3\n9.0000")
    assert "judged, grade 0" in first.inner_text()
    # both rank d12 and d13, without judgement, above the relevant passage
    marks = first.locator("li.candidate code").all_inner_texts()
    assert marks == ["d12", "d13"] and "not judged: candidate" in first.locator("li").nth(0).inner_text()
    text = tab.inner_text("#detail-query")
    assert {mark.lower() for mark in tab.locator("#detail mark").all_inner_texts()} <= set(text.split())


def test_keys_move_through_the_list(opened: Callable[..., Any]) -> None:
    tab = opened()
    tab.focus("#list")
    before = tab.inner_text("#detail-query")
    for _ in range(30):
        tab.keyboard.press("ArrowDown")
    chosen = tab.locator(".list-row[aria-selected=true]")
    assert chosen.count() == 1 and tab.inner_text("#detail-query") != before
    assert chosen.evaluate(
        "row => { const list = row.closest('#list').getBoundingClientRect();"
        " const box = row.getBoundingClientRect();"
        " return box.top >= list.top && box.bottom <= list.bottom + 1 }"
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("query", ["q0", "q1", "q2"], ids=["markup", "long word", "right to left"])
def test_texts_of_the_collection_are_texts_and_break_nothing(
    opened: Callable[..., Any], size: str, query: str
) -> None:
    tab = opened(size)
    tab.fill("#search", {"q0": "hacked", "q1": LONG[:40], "q2": RIGHT_TO_LEFT.split()[0]}[query])
    tab.click(f"[data-query={query}]")
    text = {"q0": f"alpha {HOSTILE} beta", "q1": f"gamma {LONG}", "q2": RIGHT_TO_LEFT}[query]
    assert tab.locator("#detail-query").text_content() == text
    assert any(text in one for one in tab.locator(".hits p").all_text_contents())
    assert tab.evaluate("window.hacked") is None and tab.locator("img").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    if query == "q2":
        assert tab.eval_on_selector("#detail-query", "one => getComputedStyle(one).direction") == "rtl"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_screen_in_both_schemes(opened: Callable[..., Any], size: str, scheme: str) -> None:
    tab = opened(size, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    colours = tab.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    brightness = [sum(int(part) for part in colour[4:-1].split(", ")[:3]) / 3 for colour in colours]
    assert (brightness[0] > brightness[1]) == (scheme == "light") and abs(brightness[0] - brightness[1]) > 150
    if folder := os.environ.get("SCREENSHOTS"):
        tab.screenshot(path=f"{folder}/report-{size}-{scheme}.png", full_page=True)


def test_the_page_prints_without_its_controls(opened: Callable[..., Any]) -> None:
    tab = opened("desktop", "dark")
    tab.emulate_media(media="print", color_scheme="light")
    assert not tab.locator("#list").is_visible() and not tab.locator("nav").is_visible()
    assert tab.locator("#tables table").first.is_visible() and tab.locator("#detail").is_visible()
    assert len(tab.pdf()) > 10_000
