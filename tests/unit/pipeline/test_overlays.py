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
    ],
)
def test_a_file_that_snakemake_would_run_is_refused(tmp_path: Path, text: str) -> None:
    file, ran = tmp_path / "theirs.yaml", tmp_path / "ran"
    file.write_text(text.format(touch=TOUCH.format(str(ran))))
    with pytest.raises(
        ValueError, match=r"theirs.yaml:\d: __use_yte__: expected settings, got a file in which"
    ):
        check_overlay(file)
    assert not ran.exists()
    load_configfile(file)
    assert ran.exists()  # the danger is real


def test_an_object_of_python_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text("seed: 1\nlabel: !!python/name:os.system\n")
    with pytest.raises(ValueError, match=r"theirs.yaml:2: expected texts, numbers, lists and blocks"):
        check_overlay(file)


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1\nmodels: {a: {note: __use_yte__, b: '?1 + 1'}}\n",  # Snakemake looks at the top alone
        '{"__use_yte__": true,\n\t"seed": "?1 + 1"}',  # JSON is never evaluated; the key is then unknown
        "seed: 2026-01-01\n",
    ],
)
def test_a_file_that_is_data_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    check_overlay(file)
