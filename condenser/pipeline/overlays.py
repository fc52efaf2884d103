"""A configuration file is data: files that Snakemake would run as a program are refused before it starts.

    python -m condenser.pipeline.overlays --cores 2 results/msmarco/table2.tsv --configfile mine.yaml

does what `snakemake` with these arguments does, once it has looked at the files of `--configfile`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

PROGRAM_KEY = "__use_yte__"
"""Where a YAML file has this key, Snakemake evaluates Python in the file while it reads it (YTE)."""


def refuse_program(file: Path) -> None:
    """See that a configuration file is data. A file that is no YAML is left to Snakemake, which refuses it.

    Raises:
        ValueError: Snakemake would evaluate Python in it, or build an object that is no text, number or list.
    """
    text = file.read_text(encoding="utf-8")
    try:
        json.loads(text)
        return  # Snakemake reads JSON as JSON, where no key is special
    except ValueError:
        pass
    try:
        content = yaml.safe_load(text)
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(
            f"{file}:{line}: expected texts, numbers, lists and blocks, got something else "
            f"({error.problem}). Write it as plain YAML."
        ) from error
    except yaml.YAMLError:
        return
    if isinstance(content, dict) and PROGRAM_KEY in content:
        lines = [number for number, line in enumerate(text.splitlines(), start=1) if PROGRAM_KEY in line]
        raise ValueError(
            f"{file}:{lines[0] if lines else 1}: {PROGRAM_KEY}: expected settings, got a file in which "
            "Snakemake would evaluate Python. Remove the key, and see what else the file asks for."
        )


def named_files(arguments: Sequence[str]) -> Iterator[Path]:
    """The files of `--configfile` or `--configfiles` on a command line of Snakemake.

    >>> list(map(str, named_files(["-n", "--configfile", "a.yaml", "b.yaml", "--cores", "2"])))
    ['a.yaml', 'b.yaml']
    """
    are_files = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if argument.startswith("-"):
            are_files = option.startswith("--configf")  # options may be shortened
            if are_files and equals:
                yield Path(value)
        elif are_files:
            yield Path(argument)


def main(arguments: Sequence[str]) -> None:
    try:
        for file in named_files(arguments):
            if file.is_file():  # a pipe can be read once only
                refuse_program(file)
    except (ValueError, OSError, RecursionError) as error:
        sys.exit(f"error: config: {error}")
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
