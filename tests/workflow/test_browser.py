"""The search page in a real browser, on a collection whose texts try to break it.

With `PICTURES=folder` the tests keep pictures of the page, at the width of a desktop and of a phone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Tab, emptied
from made import graph_of, make
from runs import copied, served

pytestmark = pytest.mark.weekly

MARKUP = (
    '<script>document.title = "taken over"</script><img src="http://evil.example/x.png" '
    'onerror="document.title = 1"><b>zebra</b> & <style>* { display: none }</style>'
)
PASSAGES = {
    "markup": ("<h1>zebra</h1> &amp;", MARKUP),
    "long-word": ("", "zebra " + "W" * 4000),
    "right-to-left": ("זברה (zebra)", "zebra שלום עולם, \u202eturned\u202c مرحبا بالعالم 123"),
    "long-text": ("A long one about the zebra", "zebra grazes on the plain. " * 400),
    "<i>id</i>": ("", "zebra \"quoted\" 'quoted' \\ \u2028 {{x}} ${y} \x7f"),
    "plain": ("Zebras", "A zebra has stripes."),
}
HOSTILE = {"source": "beir", "path": "hostile", "train_split": None, "eval_split": None}


@pytest.fixture(scope="module")
def served_folder(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny run, and the hostile collection with BM25 and an encoder."""
    folder = copied(golden, tmp_path_factory.mktemp("served") / "checkout")
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    (folder / "hostile").mkdir()
    (folder / "hostile" / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "overlay.json").write_text(json.dumps({"datasets": {"hostile": HOSTILE}}))
    encoder = "results/hostile/systems/backbone-zeroshot/untrained/embeddings"
    targets = [f"{encoder}/collection.{number}-of-2.npy" for number in range(2)]
    make(folder, *targets, "results/hostile/bm25/index", overlays=["overlay.json"])
    graph_of(folder, overlays=["overlay.json"]).write_known()
    return folder


@pytest.fixture(scope="module")
def address(browser_tab: Tab, served_folder: Path) -> Iterator[str]:
    """That of a server of this folder."""
    with served(served_folder) as (_, address):
        yield address


@pytest.fixture
def tab(browser_tab: Tab, address: str) -> Iterator[Tab]:
    """An empty tab; at its end no error was logged, and no request has left the machine."""
    with emptied(browser_tab, address.partition("?")[0]) as tab:
        yield tab


def picture(tab: Tab, name: str) -> None:
    if "PICTURES" in os.environ:
        tab.picture(Path(os.environ["PICTURES"], f"{name}.png"))


def answered(tab: Tab) -> None:
    tab.wait_for("document.body?.dataset.state === 'answered'")


def ids(tab: Tab, side: str) -> list[str]:
    return tab.value(f"[...document.querySelectorAll('#answer-{side} .id')].map(e => e.textContent)")


def test_a_typed_query_is_answered_by_two_systems_with_their_times(tab: Tab, address: str) -> None:
    tab.resize(DESKTOP)
    tab.open(address)
    tab.wait_for("document.body?.dataset.state === 'ready'")
    tab.choose("#dataset", "tiny")
    # the last model of table2, and BM25, its very last row
    sides = [tab.value(f"document.getElementById('{side}').value") for side in ("left", "right")]
    assert sides == ["cocondenser-round2 seed42", "bm25 untrained"]
    picture(tab, "empty")
    tab.click("#query")
    tab.type("set of vertices in a graph")
    tab.press("Enter")
    answered(tab)
    picture(tab, "desktop")
    for side in ("left", "right"):
        assert len(ids(tab, side)) == 10
        took = tab.value(f"document.querySelector('#answer-{side} .took').textContent")
        steps = r"(open \d+ ms, )?(encode [\d.]+ ms, )?search [\d.]+ ms(, waiting \d+ ms)?"
        assert re.fullmatch(rf"\d+ ms: {steps}", took), took
    heading = "document.querySelector('#answer-{} h2').textContent"
    left, right = (tab.value(heading.format(side)) for side in ("left", "right"))
    assert "seed42" in left and right == "BM25 (bm25 untrained)"
    both = set(ids(tab, "left")) & set(ids(tab, "right"))
    marks = tab.value("[...document.querySelectorAll('#answer-left .other')].map(e => e.textContent)")
    assert len(marks) == 10 and sum("right: rank " in mark for mark in marks) == len(both)
    assert "not among the first 10" in " ".join(marks)


def test_the_address_holds_the_query_and_answers_it_again(tab: Tab, address: str) -> None:
    asked = "#q=vertices&dataset=tiny&left=bm25+untrained&right=cocondenser-round1+seed42&depth=20"
    tab.open(f"{address}{asked}")
    answered(tab)
    assert tab.value("location.hash") == asked
    assert len(ids(tab, "right")) == 20
    before = ids(tab, "left")
    tab.call("Page.reload")
    tab.wait_for("!document.querySelector('li')")
    answered(tab)
    assert ids(tab, "left") == before


def test_a_system_that_is_not_made_says_so_with_the_command(tab: Tab, address: str) -> None:
    tab.open(f"{address}#q=vertices&dataset=tiny&left=mlm-zeroshot+untrained&right=bm25+untrained&depth=10")
    answered(tab)
    picture(tab, "not-made")
    note = tab.value("document.querySelector('#answer-left .note').textContent")
    assert "is not trained and indexed yet" in note
    command = tab.value("document.querySelector('#answer-left code').textContent")
    target = "results/tiny/systems/mlm-zeroshot/untrained/embeddings/collection.{0..1}-of-2.npy"
    assert command == f"make {target}"
    assert ids(tab, "right")


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["light", "dark"])
def test_texts_are_shown_as_text_and_break_nothing(
    tab: Tab, address: str, size: tuple[int, int], dark: bool
) -> None:
    tab.resize(size, dark=dark)
    pair = "left=backbone-zeroshot+untrained&right=bm25+untrained"
    tab.open(f"{address}#q=zebra&dataset=hostile&{pair}&depth=10")
    answered(tab)
    picture(tab, f"hostile-{size[0]}-{'dark' if dark else 'light'}")
    for side in ("left", "right"):
        assert set(ids(tab, side)) == set(PASSAGES)
        shown = tab.value(
            f"Object.fromEntries([...document.querySelectorAll('#answer-{side} li')].map(e => [e.dataset.id,"
            " [e.querySelector('h3')?.textContent ?? '', e.querySelector('.text').textContent]]))"
        )
        for name, (title, text) in PASSAGES.items():
            expected = text if len(text) <= 5000 else text[:5000] + "…"
            assert shown[name] == [title, expected], name
    assert tab.value("document.title") == "Ask two systems"
    markup = "main img, main script, main style, main b:not(.head b)"
    assert tab.value(f"document.querySelectorAll('{markup}').length") == 0
    width = tab.value("document.documentElement.scrollWidth")
    assert width <= size[0], "the page scrolls sideways"
    paper, ink = tab.value(
        "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    )
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
    assert (brightness[0] < brightness[1]) == dark


def test_a_long_text_is_opened_by_a_click(tab: Tab, address: str) -> None:
    tab.resize(PHONE)
    tab.open(f"{address}#q=zebra&dataset=hostile&left=bm25+untrained&right=bm25+untrained&depth=10")
    answered(tab)
    text = "document.querySelector('#answer-left li[data-id=long-text] .text').clientHeight"
    before = tab.value(text)
    tab.click("#answer-left li[data-id=long-text] .more")
    assert tab.value(text) > 5 * before
    assert tab.value("document.querySelector('#answer-left li[data-id=plain] .more')") is None


def judging(tab: Tab) -> tuple[str, str]:
    """The query and the place in its pool."""
    tab.wait_for("['judging', 'done'].includes(document.body?.dataset.state)")
    return tuple(tab.value(f"document.getElementById('{one}').textContent") for one in ("query", "place"))


def test_queries_are_judged_by_the_keyboard_alone_and_nothing_is_lost(
    tab: Tab, address: str, served_folder: Path
) -> None:
    tab.resize(PHONE, dark=True)
    tab.open(address.replace("/?", "/judge?"))
    tab.wait_for("document.getElementById('setup')?.open")
    picture(tab, "judge-empty")
    while tab.value("document.activeElement.id") != "queries":
        tab.press("Tab")
    tab.type("zebra on the plain\nstripes of a zebra\n\nstripes of a zebra")
    while tab.value("document.activeElement.className") != "ask":
        tab.press("Tab")
    tab.press("Enter")
    tab.wait_for("document.body.dataset.state === 'judging'")
    assert judging(tab) == ("zebra on the plain", f"Text 1 of {len(PASSAGES)}")
    assert tab.value("document.documentElement.scrollWidth") <= PHONE[0], "the page scrolls sideways"
    assert tab.value("document.querySelectorAll('#card img, #card script, #card b:not(.head b)').length") == 0
    picture(tab, "judge-phone")
    shown = []
    for key in ("1", "0"):
        before = judging(tab)
        shown.append(tab.value("document.querySelector('#card .id').textContent"))
        tab.press(key)
        tab.wait_for(f"document.getElementById('place').textContent !== {json.dumps(before[1])}")
    tab.call("Page.reload")
    tab.wait_for("!document.querySelector('#card .id')")
    assert judging(tab) == ("zebra on the plain", f"Text 3 of {len(PASSAGES)}")
    tab.press("r")
    tab.wait_for("document.getElementById('query').textContent === 'stripes of a zebra'")
    tab.press("u")
    tab.wait_for("document.getElementById('query').textContent === 'zebra on the plain'")
    assert judging(tab) == ("zebra on the plain", f"Text 3 of {len(PASSAGES)}")
    tab.press("l")
    tab.wait_for("document.getElementById('query').textContent === 'stripes of a zebra'")
    tab.press("r")
    tab.wait_for("document.getElementById('query').textContent === 'zebra on the plain'")
    tab.press("r")
    tab.wait_for("document.getElementById('judging').hidden")
    picture(tab, "judge-done")
    assert "All queries are judged" in tab.value("document.getElementById('notes').innerText")
    judged = (served_folder / "hostile/qrels/judged.tsv").read_text().splitlines()[1:]
    assert len(judged) == 2 * len(PASSAGES)
    assert [row for row in judged if row.endswith("1")] == [f"j1\t{shown[0]}\t1"]
    assert len((served_folder / "hostile/queries.judged.jsonl").read_text().splitlines()) == 2


def test_the_page_cannot_reach_another_place(tab: Tab, address: str) -> None:
    """The policy itself: a script of the page that tries is stopped by the browser."""
    tab.open(address)
    tab.wait_for("document.body?.dataset.state === 'ready'")
    tried = "fetch('http://127.0.0.1:9/').then(() => 'reached', error => 'stopped')"
    assert tab.value(tried) == "stopped"
    tab.value("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
    tab.value("new Promise(done => setTimeout(done, 300))")
    said = " ".join(tab.messages)
    assert said.count("Content Security Policy") >= 2 and "connect-src" in said and "img-src" in said
    tab.messages.clear()
    tab.requests[:] = [one for one in tab.requests if one.startswith(address.partition("?")[0])]
