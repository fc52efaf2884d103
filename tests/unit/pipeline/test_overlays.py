"""Which configuration files are data, by what Snakemake's own reader does with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from snakemake.common.configfile import load_configfile

from condenser.pipeline.command_line import check_overlay

TOUCH = "?__import__('pathlib').Path({!r}).touch()"


@pytest.mark.parametrize(
    "text",
    [
        "__use_yte__: true\nseed: {touch}\n",
        "seed: {touch}\n'__use_yte__': 1\n",
        'seed: {touch}\n"__use\\x5fyte__": yes\n',  # the same key, escaped
        "base: &base {{__use_yte__: true}}\nseed: {touch}\n<<: *base\n",  # merged into the top level
        '{{? __use_yte__ : true, seed: "{touch}"}}\n',
        '{{"__use_yte__": true, "label": "a\tb", "seed": "{touch}"}}',  # with a tab in a text it is no JSON
        '\ufeff{{"__use_yte__": true, "seed": "{touch}"}}',
        '{{"\\u005f\\u005fuse_yte__": true, "seed": "{touch}",}}',
        '{{"__use_yte__": true, "seed": "{touch}"}} # a comment',
        '{{"__use_yte__": true, "seed": "{touch}", "shards": ' + "1" * 5000 + ".0e1_0}}",
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


@pytest.mark.parametrize("text", ['{"__use_yte__": true}', '\t{"\\u005f_use_yte__": 1,\n\t"seed": NaN}'])
def test_the_key_of_programs_is_refused_in_json_too(tmp_path: Path, text: str) -> None:
    file = tmp_path / "theirs.json"
    file.write_text(text)
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
