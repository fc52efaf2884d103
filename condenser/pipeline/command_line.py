"""The command `snakemake` of this workflow: it reads the overlays as they are written, then starts Snakemake.

Snakemake reads the overlays of its command line before the Snakefile: of a file that is missing, empty or
broken it prints a traceback, or a line that names no file. And it runs the Python in an overlay that has the
key `__use_yte__`. `make` and the command `snakemake` that `make setup` installs therefore check them first;
rules/configfiles.smk checks them again, for whoever starts Snakemake otherwise.

    python -m condenser.pipeline.command_line --cores 2 --configfile mine.yaml -- results/mine/table2.tsv
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from condenser import program
from condenser.program import printable

PROGRAMS_KEY = "__use_yte__"
"""With this key at its top, Snakemake evaluates the expressions in a configuration file as Python."""

_SUFFIXES = {".yaml", ".yml", ".json"}


def check_overlay(file: Path) -> None:
    """Refuse a configuration file that is missing, empty or broken, is a program, or gives a key twice.

    The file is read as Snakemake reads it: as JSON if Python's reader accepts it, else as YAML. Both readers
    would silently drop the settings of a key's first place.

    Raises:
        ValueError: `file:line: what was expected, what came. What to do.`
    """
    try:
        if not file.is_file():
            raise ValueError(
                f"{file}: expected a configuration file, found none (relative to where snakemake runs)."
            )
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise ValueError(f"{file}:{line}: expected UTF-8, got other bytes. Save the file as UTF-8.") from None
    except OSError as error:
        raise ValueError(f"{file}: expected a configuration file ({error.strerror}).") from None
    try:
        content = _content(file, text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = (mark.line if mark else text.count("\n", 0, getattr(error, "position", 0))) + 1
        problem = getattr(error, "problem", None) or "a character that is not allowed"
        if isinstance(error, yaml.constructor.ConstructorError):
            raise ValueError(
                f"{file}:{line}: expected texts, numbers, lists and blocks, got something else "
                f"({problem:.200}). Write it as plain YAML."
            ) from None
        raise ValueError(
            f"{file}:{line}: expected YAML, got a fault of syntax ({problem:.200}). Look for an open "
            "bracket or quote, a missing colon, a tab or a wrong indentation, here or above."
        ) from None
    if content is None:
        raise ValueError(f"{file}:1: expected keys such as datasets, got an empty file. Write your settings.")


def _content(file: Path, text: str) -> Any:
    """What Snakemake would read from the text of a configuration file.

    Raises:
        ValueError: it is no block of keys, is a program, or gives a key twice.
        YAMLError: it cannot be read.
    """
    try:
        content, is_json = json.loads(text), True
    except ValueError:
        content, is_json = None, False
    # YAML refuses the tabs that JSON may have between its words; there are none within them
    loader = yaml.SafeLoader(text.replace("\t", " ") if is_json else text)
    if (top := loader.get_single_node()) is None:
        return None
    _refuse_second_keys(file, top)
    if not is_json:
        try:
            content = loader.construct_document(top)
        except (ValueError, KeyError) as error:  # PyYAML's own of 2026-02-30 and of !!bool x
            raise yaml.constructor.ConstructorError(None, None, str(error), top.start_mark) from error
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise ValueError(
            f"{file}:{top.start_mark.line + 1}: expected keys such as datasets at the top, got {kind}. "
            "Is this a configuration file?"
        )
    if PROGRAMS_KEY in content:
        lines = [key.start_mark.line + 1 for key, _ in top.value if key.value == PROGRAMS_KEY]
        raise ValueError(
            f"{file}:{lines[0] if lines else 1}: {PROGRAMS_KEY}: expected settings, got a file in which "
            "Snakemake would evaluate Python. Remove the key, and see what else the file asks for."
        )
    return content


def _refuse_second_keys(file: Path, node: yaml.Node, above: str = "") -> None:
    """Refuse a key that a block has twice.

    Raises:
        ValueError: there is one.
    """
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_second_keys(file, item, above)
    if not isinstance(node, yaml.MappingNode):
        return
    line_of: dict[str, int] = {}
    for name, value in node.value:
        key, line = f"{above}{name.value}", name.start_mark.line + 1
        if key in line_of:
            raise ValueError(
                f"{file}:{line}: {key}: expected each key once, got it in line {line_of[key]} already. "
                "Put the settings of both under one."
            )
        line_of[key] = line
        _refuse_second_keys(file, value, f"{key}.")


def overlays_of(arguments: Sequence[str]) -> list[str]:
    """The files after `--configfile`: all words up to the next option, as Snakemake reads them.

    Raises:
        ValueError: the option stands there twice, or a target stands among its files.

    >>> overlays_of(["--cores", "2", "--configfile", "a.yaml", "b.yaml", "--", "results/mine/table2.tsv"])
    ['a.yaml', 'b.yaml']
    """
    before_targets = arguments[: arguments.index("--")] if "--" in arguments else arguments
    options = []  # the files of each
    is_file = False
    for word in before_targets:
        if re.fullmatch(r"--configf\w*(=.*)?", word, flags=re.DOTALL):
            _, sign, file = word.partition("=")
            options.append([file] if sign else [])
            is_file = not sign
        elif word.startswith("-") and not (is_file and Path(word).is_file()):  # -1 is a file for argparse
            is_file = False
        elif is_file:
            options[-1].append(word)
    if len(options) > 1:
        raise ValueError(
            "--configfile: expected it once, got it twice: Snakemake would drop the first files. "
            f"Write --configfile {' '.join(file for files in options for file in files)}."
        )
    overlays = options[0] if options else []
    for file in overlays:
        is_target = Path(file).suffix not in _SUFFIXES and not Path(file).is_file()
        if is_target or file.startswith("results/"):
            raise ValueError(
                f"--configfile: expected configuration files after it, got {file}. "
                "If it is a target, put it first, or put -- before it. If it is a part of a name with a "
                "space, rename that file: CONFIG of make ends a name there."
            )
    return overlays


class Interrupted:
    """The handler of Ctrl-C until the first job.

    Code that catches everything may swallow the exception while Snakemake starts: under load the run went on.
    So the handler remembers it, and `take_signals` in rules/snakemake.smk raises it again.
    """

    came = False

    def __call__(self, *_: object) -> None:
        self.came = True
        raise KeyboardInterrupt


def main() -> None:
    """Start Snakemake, unless its command line has a fault. Ctrl-C before the first job is status 130."""
    try:
        for file in overlays_of(sys.argv[1:]):
            check_overlay(Path(file))
        program.give_home(program.HOME)
    except ValueError as error:
        sys.exit(printable(f"error: {error}"))
    except OSError as error:
        place = f"{error.filename}: {error.strerror}"
        sys.exit(printable(f"error: {place}. Set HOME to a folder that you may write to."))
    interrupted = Interrupted()
    signal.signal(signal.SIGINT, interrupted)
    try:
        from snakemake import cli

        # its line that names the profile is the same in every run
        vars(cli)["print"] = lambda text, **options: text.startswith("Using ") or print(text, **options)
        cli.main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except SystemExit as end:  # what a rule refuses may name what strangers wrote
        sys.exit(printable(end.code) if isinstance(end.code, str) else end.code)


if __name__ == "__main__":
    main()
