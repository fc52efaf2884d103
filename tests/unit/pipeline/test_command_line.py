"""Faults of a command line and of its overlays are one line, before Snakemake reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from snakemake.cli import parse_args
from snakemake.common.configfile import load_configfile

from condenser.pipeline.command_line import check_overlay, main, overlays_of

TOUCH = "?__import__('pathlib').Path({!r}).touch()"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", ":1: expected keys such as datasets, got an empty file"),
        (b"seed: 1\nshards: [2\nrecipe: marco\n", ":3: expected YAML, got a fault of syntax"),
        (b"seed: 1\nshards: \x00\n", ":2: expected YAML, got a fault of syntax"),
        (b"seed: 1\nrecipe: caf\xe9\n", ":2: expected UTF-8, got other bytes"),
        (b"\n- seed\n- 1\n", ":2: expected keys such as datasets at the top, got a list"),
        (b"seed\n", ":1: expected keys such as datasets at the top, got a single value"),
        (b"seed: 1\n__use_yte__: true\n?print(1): 2\n", ":2: __use_yte__: expected settings, got a file"),
        (b"seed: 1\nseed: 2\n", ":2: seed: expected each key once, got it in line 1 already"),
        (b"tables:\n  a:\n    seeds: [1]\n    seeds: [2]\n", ":4: tables.a.seeds: expected each key once"),
        (b"a: [{b: 1}, {b: 2, b: 3}]\n", ":1: a.b: expected each key once"),
        (b'{"seed": 1,\n\t"seed": 2}', ":2: seed: expected each key once"),
        (b'{"seed": 1,\n\t"label": "a\tb"}', ":2: expected YAML, got a fault of syntax"),
        (b"seed: 1\nlabel: 2026-02-30\n", ":1: expected texts, numbers, lists and blocks, got some"),
        (b"seed: 1\nlabel: !!bool x\n", ":1: expected texts, numbers, lists and blocks, got something else"),
        (b"seed: 1\nlabel: !!python/name:os.system\n", ":2: expected texts, numbers, lists and blocks"),
        (b"seed: 1\n? [a]\n: 1\n", ":2: expected texts, numbers, lists and blocks, got something else"),
    ],
)
def test_an_overlay_with_a_fault_is_named_with_its_line(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(text)
    with pytest.raises(ValueError, match="expected") as refused:
        check_overlay(file)
    assert str(refused.value).startswith(f"{file}{said}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "overlays"),
    [
        ("results/mine/table2.tsv --configfile a.yaml b.yaml", ["a.yaml", "b.yaml"]),
        ("--configfile a.yaml --cores 2 results/mine/table2.tsv", ["a.yaml"]),
        ("--configfiles=a.yaml results/mine/table2.tsv", ["a.yaml"]),
        ("--configfile a.yaml -- results/mine/table2.tsv --configfile", ["a.yaml"]),
        ("--cores 2 results/mine/table2.tsv", []),
    ],
)
def test_the_overlays_of_a_command_line_are_those_that_snakemake_reads(
    line: str, overlays: list[str]
) -> None:
    _, arguments = parse_args(line.split())
    assert [str(file) for file in arguments.configfile] == overlays
    assert overlays_of(line.split()) == overlays


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--configfile mine.yaml results/mine/table2.tsv", "got results/mine/table2.tsv. If it is a target"),
        ("--configfile mine.yaml results/mine/a.json", "got results/mine/a.json. If it is a target"),
        ("--configfile mine.yaml verify", "got verify. If it is a target, put it first"),
        ("--configfile a.yaml --cores 1 --configfile b.yaml", "Write --configfile a.yaml b.yaml."),
        ("--configfile=a.yaml --configfiles b.yaml", "Write --configfile a.yaml b.yaml."),
        ("--configfile a.yaml -1", "-1:1: __use_yte__: expected settings"),
        ("--configfile steers.yaml", r"steers.yaml:2: \x1b[2J: expected each key once"),
        ("--configfile none.yaml", "none.yaml: expected a configuration file, found none"),
    ],
)
def test_a_command_line_that_snakemake_misreads_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml", "mine.yaml"):
        Path(name).write_text("seed: 1\n")
    Path("steers.yaml").write_text('"\\e[2J": 1\n"\\e[2J": 1\n')
    Path("-1").write_text("__use_yte__: true\n")
    monkeypatch.setattr(sys, "argv", ["snakemake", "-n", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value.code).startswith("error: ") and said in str(ended.value.code)
    assert "\n" not in str(ended.value.code)


# ---- which files are data, by what Snakemake's own reader does with them ---------------------------


@pytest.mark.parametrize(
    "text",
    [
        "__use_yte__: true\nseed: {touch}\n",
        'seed: {touch}\n"__use\\x5fyte__": yes\n',  # the same key, escaped
        "base: &base {{__use_yte__: true}}\nseed: {touch}\n<<: *base\n",  # merged into the top level
        '{{"__use_yte__": true, "label": "a\tb", "seed": "{touch}"}}',  # with a tab in a text it is no JSON
        '\ufeff{{"__use_yte__": true, "seed": "{touch}"}}',
        '{{"__use_yte__": true, "seed": "{touch}"}} # a comment',
        '{{"__use_yte__": false, "__use_yte__": true, "seed": "{touch}"}} #',
        '%TAG ! tag:yaml.org,2002:\n--- {{!str __use_yte__: true, seed: "{touch}"}}\n',
        "? >-\n  __use_yte__\n: true\nseed: {touch}\n",
    ],
)
def test_a_file_that_snakemake_would_run_is_refused(tmp_path: Path, text: str) -> None:
    file, ran = tmp_path / "theirs.yaml", tmp_path / "ran"
    file.write_text(text.format(touch=TOUCH.format(str(ran))))
    with pytest.raises(ValueError, match=r"theirs.yaml:\d: __use_yte__: expected (settings|each key once)"):
        check_overlay(file)
    assert not ran.exists()
    load_configfile(file)
    assert ran.exists()  # the danger is real


def test_the_key_of_programs_is_refused_in_json_too(tmp_path: Path) -> None:
    file = tmp_path / "theirs.json"
    file.write_text('\t{"\\u005f_use_yte__": 1,\n\t"seed": NaN}')
    assert "__use_yte__" in load_configfile(file)  # as data, by this Snakemake
    with pytest.raises(ValueError, match=r"theirs.json:1: __use_yte__: expected settings"):
        check_overlay(file)


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1\nmodels: {a: {note: __use_yte__, b: '?1 + 1'}}\n",  # Snakemake looks at the top alone
        '{"seed": 1,\n\t"label": "a: \\t\\u0041"\t}',
        "seed: 2026-01-01\n",
    ],
)
def test_a_file_that_is_data_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    check_overlay(file)
