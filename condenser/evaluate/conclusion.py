"""What the tests of a table say, in two sentences: for its end on a terminal, and for the report.

It imports no library, because the report's environment has few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from condenser.commands import search_command


def conclusion(
    tests: Iterable[Mapping[Any, Any]],
    rows: Sequence[Mapping[str, Any]],
    *,
    dataset: str,
    searchable: Sequence[str],
    overlays: Sequence[str],
) -> tuple[str, str]:
    """Two sentences on the best row by the table's first measure, and the command that searches with it.

    The first sentence says which rows the best one is significantly better than (p-values by Holm), and which
    not. The second says how small a difference the comparisons of the best row are likely to find
    (`significance.power`; source: `condenser.evaluate.significance.minimal_detectable_difference`). Both are
    empty where no rows are compared, and the command where nothing searches with the system.

    Args:
        tests: the lines of `<table>.tests.tsv`; numbers as text, or NaN where the text is empty.
        rows: as `condenser.shown.table_rows` gives them.
        searchable: the systems that `make search` can name.
        overlays: the configuration files that the workflow was started with.
    """
    tests = list(tests)
    tests = [test for test in tests if test["measure"] == tests[0]["measure"]]
    if not tests:
        return "", ""
    means: dict[str, float] = {}
    for test in tests:
        for key in ("row", "compared_with"):
            means[test[key]] = round(float(test[f"{key}_mean"]), 4)  # as in the file
    best = max(means, key=lambda name: means[name])
    of_best = {
        test["compared_with"] if test["row"] == best else test["row"]: test
        for test in tests
        if best in (test["row"], test["compared_with"])
    }
    gains = {name: f'"{name}" (+{_short(abs(float(test["difference"])))})' for name, test in of_best.items()}
    equal = [gain for name, gain in gains.items() if of_best[name]["verdict"] == "no difference shown"]
    beaten = [gain for gain in gains.values() if gain not in equal]
    tied = [f'"{name}"' for name, mean in means.items() if mean == means[best] and name != best]
    untested = [f'"{name}"' for name in means if name not in {best, *of_best}]
    answer = f'"{best}" has the highest {tests[0]["measure"]} ({_short(means[best])}'
    answer += f", the same as {joined(tied, 'and')})" if tied else ")"
    if beaten:
        answer += f" and is significantly better than {joined(beaten, 'and')}"
    if equal:
        answer += ", but not than " if beaten else " but is not significantly better than "
        answer += joined(equal, "or")
    if untested:
        answer += f"; it is not compared with {joined(untested, 'or')}"
    answer += f". {_likely_found([*of_best.values()])}"
    # with the size of the row where the tests name it (`condenser.evaluate.comparisons.row_names`)
    names = [(row["method"], f"{row['method']}, {row['train_queries']} train queries") for row in rows]
    row = next(row for row, known in zip(rows, names, strict=True) if best in known)
    if row["system"] not in searchable:
        return answer, ""
    variant = "" if row["variants"][0] == "untrained" else row["variants"][0]
    return answer, search_command(dataset, row["system"], variant, overlays=" ".join(overlays))


def _likely_found(tests: Sequence[Mapping[Any, Any]]) -> str:
    """The sentence on how small a difference some tests are likely to find."""
    measure = tests[0]["measure"]
    items = "queries" if "@" in measure else "test items"  # a measure of sentences has no depth
    sizes = [float(test["smallest_detectable_difference"] or "nan") for test in tests]
    found = sorted({_short(size) for size in sizes if not math.isnan(size)})
    with_these = f"With these {int(tests[0]['queries']):,} {items},"
    if not found:
        return f"{with_these} no difference that {measure} has room for is likely to be found."
    smallest = found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}, depending on the row"
    some = "; for some rows there is none" if any(map(math.isnan, sizes)) else ""
    return f"{with_these} the smallest difference that is likely to be found is {smallest}{some}."


def _short(number: float) -> str:
    """A fraction with three of the file's four decimals, without the 0 before its point."""
    return f"{round(number, 4):.3f}".replace("0.", ".", 1)


def joined(texts: Sequence[str], word: str) -> str:
    """`a, b or c`."""
    return f" {word} ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
