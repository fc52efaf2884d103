"""Faults of a command line and of its overlays are one line, before Snakemake reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from snakemake.cli import parse_args

from condenser.pipeline.command_line import check_overlay, main, overlays_of

BOMB = b"a: &a [%b]\nb: &b [%b]\nc: [%b]\n" % (b"1," * 99, b"*a," * 99, b"*b," * 99)


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
        (b"a:\n " + b"[" * 500 + b"]" * 500, ":2: expected YAML, got a fault of syntax (more than 50 levels"),
        (b'{"a":\n ' + b"[" * 9000 + b"]" * 9000 + b"}", ":2: expected YAML, got a fault of syntax (more"),
        (b"seed: 1\na: &a\n  b: *a\n", ":2: expected YAML, got a fault of syntax (more than 50 levels"),
        (BOMB, ":1: expected YAML, got a fault of syntax (more than 50 levels or 100,000 values)"),
        (b"seed: 1\nlabel: 2026-02-30\n", ":2: expected texts, numbers, lists and blocks, got some"),
        (b"seed: 1\nlabel: !!bool x\n", ":2: expected texts, numbers, lists and blocks, got something else"),
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
