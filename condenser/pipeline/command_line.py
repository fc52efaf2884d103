"""The command `snakemake` of this workflow: it reads the overlays as they are written, then starts Snakemake.

Snakemake reads the overlays of its command line before the Snakefile: of a file that is missing, empty or
broken it prints a traceback, or a line that names no file. And it runs the Python in an overlay that has the
key `__use_yte__`. `make` and the command `snakemake` that `make setup` installs therefore check them first;
rules/configfiles.smk checks them again, for whoever starts Snakemake otherwise.

    python -m condenser.pipeline.command_line --cores 2 --configfile mine.yaml -- results/mine/table2.tsv
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

PROGRAMS_KEY = "__use_yte__"
"""With this key at its top, Snakemake evaluates the expressions in a configuration file as Python."""

_SUFFIXES = {".yaml", ".yml", ".json"}


def check_overlay(file: Path) -> None:
    """Refuse a configuration file that is missing, empty or broken, is a program, or gives a key twice.

    YAML would silently drop the settings of a key's first place.

    Raises:
        ValueError: `file:line: what was expected, what came. What to do.`
    """
    if not file.is_file():
        raise ValueError(
            f"{file}: expected a configuration file, found none (relative to where snakemake runs)."
        )
    try:
        # JSON may be indented by tabs, which YAML refuses
        text = file.read_text(encoding="utf-8").replace("\t", " ")
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise ValueError(f"{file}:{line}: expected UTF-8, got other bytes. Save the file as UTF-8.") from None
    try:
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or "a character that is not allowed"
        raise ValueError(
            f"{file}:{line}: expected YAML, got a fault of syntax ({problem}). "
            "Look for an open bracket or quote, a missing colon or a wrong indentation, here or above."
        ) from None
    if top is None:
        raise ValueError(f"{file}:1: expected keys such as datasets, got an empty file. Write your settings.")
    if not isinstance(top, yaml.MappingNode):
        kind = "a list" if isinstance(top, yaml.SequenceNode) else "a single value"
        raise ValueError(
            f"{file}:{top.start_mark.line + 1}: expected keys such as datasets at the top, got {kind}. "
            "Is this a configuration file?"
        )
    _refuse_program(file, text)
    _refuse_second_keys(file, top)


def _refuse_program(file: Path, text: str) -> None:
    """Refuse YAML in which Snakemake would evaluate Python, or that builds an object that is no data.

    Snakemake reads JSON as JSON, where no key is special.
    """
    with contextlib.suppress(ValueError):
        json.loads(text)
        return
    try:
        content = yaml.safe_load(text)
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(
            f"{file}:{line}: expected texts, numbers, lists and blocks, got something else "
            f"({error.problem}). Write it as plain YAML."
        ) from None
    if PROGRAMS_KEY in content:
        lines = [number for number, line in enumerate(text.splitlines(), start=1) if PROGRAMS_KEY in line]
        raise ValueError(
            f"{file}:{lines[0] if lines else 1}: {PROGRAMS_KEY}: expected settings, got a file in which "
            "Snakemake would evaluate Python. Remove the key, and see what else the file asks for."
        )


def _refuse_second_keys(file: Path, top: yaml.MappingNode) -> None:
    waiting: list[tuple[str, yaml.Node]] = [("", top)]
    seen = set()  # an anchor may stand in many places
    while waiting:
        above, node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(above, item) for item in node.value]
            continue
        line_of: dict[str, int] = {}
        for name, value in node.value:
            key, line = f"{above}{name.value}", name.start_mark.line + 1
            if key in line_of:
                raise ValueError(
                    f"{file}:{line}: {key}: expected each key once, got it in line {line_of[key]} already. "
                    "Put the settings of both under one."
                )
            line_of[key] = line
            waiting.append((f"{key}.", value))


def overlays_of(arguments: Sequence[str]) -> list[str]:
    """The files after `--configfile`: all words up to the next option, as Snakemake reads them.

    Raises:
        ValueError: the option stands there twice, or a target stands among its files.

    >>> overlays_of(["--cores", "2", "--configfile", "a.yaml", "b.yaml", "--", "results/mine/table2.tsv"])
    ['a.yaml', 'b.yaml']
    """
    before_targets = arguments[: arguments.index("--")] if "--" in arguments else arguments
    given = []  # the files of each option
    is_file = False
    for word in before_targets:
        if re.fullmatch(r"--configf\w*(=.*)?", word, flags=re.DOTALL):
            _, sign, file = word.partition("=")
            given.append([file] if sign else [])
            is_file = not sign
        elif word.startswith("-"):
            is_file = False
        elif is_file:
            given[-1].append(word)
    if len(given) > 1:
        raise ValueError(
            "--configfile: expected it once, got it twice: Snakemake would drop the first files. "
            f"Write --configfile {' '.join(file for files in given for file in files)}."
        )
    overlays = given[0] if given else []
    for file in overlays:
        is_target = Path(file).suffix not in _SUFFIXES and not Path(file).is_file()
        if is_target or file.startswith("results/"):
            raise ValueError(
                f"--configfile: expected configuration files after it, got {file}. "
                "If it is a target, put it first, or put -- before it."
            )
    return overlays


def check(arguments: Sequence[str]) -> None:
    """Refuse a command line of Snakemake whose overlays it would misread.

    Raises:
        ValueError: what is wrong, in one line.
    """
    for file in overlays_of(arguments):
        check_overlay(Path(file))


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
        check(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"error: {error}")
    interrupted = Interrupted()
    signal.signal(signal.SIGINT, interrupted)
    try:
        from snakemake.cli import main as start

        start()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
