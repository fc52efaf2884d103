"""Print the lines of each room beside its budget (rooms.tsv), and those that the scripts of table2 import.

    python benchmarks/rooms.py

It fails nothing. Who raises a budget changes rooms.tsv, and says why in the message of the commit.
"""

from __future__ import annotations

import ast
import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_TABLE2 = (
    *("collect", "lengths", "tokens", "query_tokens", "checkpoint", "pretrain", "bm25_index", "bm25_run"),
    *("held_out", "examples", "train", "encode", "encode_queries", "search", "merge", "metrics", "compare"),
    "table",
)


def lines_of(place: str) -> int:
    """Lines of the files of code in a folder, or of one file; `place` may be a pattern."""
    files = [
        file for found in ROOT.glob(place) for file in ([found] if found.is_file() else found.rglob("*"))
    ]
    endings = (".py", ".smk", ".html", ".css", ".js", ".j2")
    code = [file for file in files if file.suffix in endings or file.name == "Snakefile"]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in code)


def reached(scripts: list[Path]) -> set[Path]:
    """The modules of the package that these scripts import, at once or in a function, and theirs."""
    found: set[Path] = set()
    waiting = list(scripts)
    while waiting:
        for node in ast.walk(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                parts = name.split(".")
                folders = [ROOT.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
                for folder in folders if parts[0] == "condenser" else []:
                    for file in (folder.with_suffix(".py"), folder / "__init__.py"):
                        if file.is_file() and file not in found:
                            found.add(file)
                            waiting.append(file)
    return found


def main() -> None:
    scripts = [ROOT / "workflow_scripts" / f"{name}.py" for name in OF_TABLE2]
    with (ROOT / "benchmarks" / "rooms.tsv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows, delimiter="\t"):
            places = row["places"].split()
            if places == ["reached"]:
                places = [str(file.relative_to(ROOT)) for file in reached(scripts)]
            now, planned = sum(map(lines_of, places)), int(row["budget"])
            print(f"{row['room']:<36}{now:>6,} lines, {planned:>7,} planned")


if __name__ == "__main__":
    main()
