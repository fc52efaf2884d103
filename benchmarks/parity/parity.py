"""Compare our code with the authors', on identical tiny weights and inputs.

    make parity AUTHORS=../authors          # a folder with clones, see CLONES below
    .venv-parity/bin/python benchmarks/parity/parity.py --authors ../authors --freeze <file>

Prints a line for each check and kind of result: the largest difference, absolute and relative to the largest
number on their side, and whether it is allowed (pairs.py). Status 1 if one is not. --freeze also writes some
of their numbers to a file: tests/reference/authors.safetensors, with which a test compares on every change.

It runs in an environment of its own, in which the authors' code runs too: requirements.txt.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from torch import Tensor

from condenser import program

CLONES = {
    "Condenser": ("modeling.py", "luyug/Condenser"),
    "GradCache": ("src/grad_cache/grad_cache.py", "luyug/GradCache"),
    "Dense": ("src/dense/modeling.py", "luyug/Dense"),
}


def check_clones(authors: str) -> Path:
    """The folder of the clones.

    Raises:
        ValueError: none is named, or a clone is not in it.
    """
    if not authors:
        sources = ", ".join(source for _, source in CLONES.values())
        raise ValueError(
            f"AUTHORS: expected a folder with clones of {sources}, got none. "
            "Give it: make parity AUTHORS=<folder>."
        )
    for name, (file, source) in CLONES.items():
        if not Path(authors, name, file).is_file():
            raise ValueError(
                f"{Path(authors, name)}: expected a clone of {source}, got no {file}. "
                f"Clone https://github.com/{source} there."
            )
    return Path(authors).resolve()


def gaps(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], allowed: float
) -> Iterator[tuple[str, float, float, bool]]:
    """By the first part of results' names: the largest difference, relative too, and whether it is allowed.

    Raises:
        ValueError: the two sides have other names.
    """
    if lacking := ours.keys() ^ theirs.keys():
        raise ValueError(f"expected the same results of both sides, got {', '.join(lacking)} of one alone.")
    for kind in dict.fromkeys(name.partition("/")[0] for name in theirs):
        difference = largest = 0.0
        is_exact = True
        for name in (name for name in theirs if name.partition("/")[0] == kind):
            our, their = ours[name], theirs[name]
            is_exact &= not their.is_floating_point()
            if our.shape != their.shape:  # another number of blocks, say
                difference = math.inf
            elif their.numel():
                gap = (our.double() - their.double()).abs().nan_to_num(nan=math.inf).max().item()
                difference, largest = max(difference, gap), max(largest, their.double().abs().max().item())
        relative = difference / largest if largest else difference
        yield kind, difference, relative, relative <= (0.0 if is_exact else allowed)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--authors", required=True, help="a folder with the clones")
    parser.add_argument("--work", type=Path, default="build/parity", help="for files of the checks; emptied")
    parser.add_argument("--freeze", type=Path, metavar="FILE", help="write numbers of theirs for the tests")
    args = parser.parse_args(argv)
    clones = check_clones(args.authors)
    import transformers
    from authors import Authors
    from frozen import freeze
    from pairs import CHECKS
    from tiny import as_tensors, named_as_theirs, prepare

    torch.set_num_threads(1)
    shutil.rmtree(args.work, ignore_errors=True)
    tiny = prepare(args.work)
    encoder = tiny.retriever().encoders["queries"].backbone.named_parameters()
    named = named_as_theirs(tiny.objective("condenser").model), encoder
    authors = Authors(tiny.work, clones, tiny.backbone, *(as_tensors(dict(each)) for each in named))
    versions = {"Python": platform.python_version(), "torch": str(torch.__version__)}
    versions["transformers"] = transformers.__version__
    for clone in CLONES:
        log = ["git", "-C", str(clones / clone), "log", "-1", "--format=%H (%cs)"]
        done = subprocess.run(log, capture_output=True, text=True, check=False)
        versions[clone] = done.stdout.strip() or "no git clone"
    frozen: dict[str, dict[str, Tensor]] = {}
    lines, failed = ["| check | results | difference | relative | allowed |", "|---|---|---|---|---|"], []
    for pair in (pair for check in CHECKS for pair in check(tiny)):
        frozen[pair.name] = as_tensors(pair.theirs(authors))
        for kind, *numbers, fits in gaps(as_tensors(pair.ours), frozen[pair.name], pair.allowed):
            cells = [f"{number:.1e}" if number else "0" for number in numbers]
            lines.append(f"| {' | '.join([pair.name, kind, *cells, 'yes' if fits else 'NO'])} |")
            failed += [f"{pair.name}: {kind}"] * (not fits)
    print(", ".join(map(" ".join, versions.items())), "", *lines, sep="\n")
    count = len(lines) - 2
    print(f"\n{count - len(failed)} of {count} equal" + "".join(f"; not {one}" for one in failed))
    if failed:
        raise SystemExit(1)
    if args.freeze:
        freeze(tiny, authors.condenser_weights, frozen, versions, args.freeze)


if __name__ == "__main__":
    program.run(main)
