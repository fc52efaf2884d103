from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from condenser.evaluate.conclusion import conclusion
from tests.unit.evaluate.test_tables import row

OURS, OTHER = row("ours", method="Ours"), row("other", method="Other, small", variants=["untrained"])
NAMES = {"dataset": "mine", "searchable": ["bm25", "ours"], "overlays": []}
OPEN = "no difference shown"
LIKELY = "the smallest difference that is likely to be found is"
FOUND = f"With these 2,000 queries, {LIKELY}"


def line(
    first: str, second: str, *means: str, verdict: str, detectable: str = "0.0100", **changes: str
) -> dict[str, str]:
    """A line of the tests of a table; only the sign of the difference follows from the means here."""
    return {
        **{"row": first, "compared_with": second, "measure": "MRR@10", "queries": "2000"},
        **{"row_mean": means[0], "compared_with_mean": means[1], "verdict": verdict},
        **{"difference": f"{float(means[0]) - float(means[1]):.4f}"},
        **{"smallest_detectable_difference": detectable, **changes},
    }


def sentences(*tests: Mapping[str, Any]) -> str:
    return conclusion(tests, [row("bm25"), OURS, OTHER], **NAMES)[0]


def test_the_best_row_is_compared_with_all_others_on_whichever_side_of_a_line_it_stands() -> None:
    tests = [
        line("BM25", "Other, small", "0.5000", "0.4500", verdict="better"),
        line("BM25", "Ours", "0.5000", "0.5350", verdict="worse", detectable="0.0121"),
        line("Ours", "Other, small", "0.5350", "0.4500", verdict="better", detectable="0.0174"),
        line("BM25", "Ours", "0.9000", "0.1000", verdict="better", measure="R@100"),
    ]
    assert sentences(*tests) == (
        '"Ours" has the highest MRR@10 (.535) and is significantly better than "BM25" (+.035) and '
        f'"Other, small" (+.085). {FOUND} .012 to .017, depending on the row.'
    )
    tests[1]["verdict"] = OPEN
    assert 'better than "Other, small" (+.085), but not than "BM25" (+.035). With' in sentences(*tests)
    tests[2]["verdict"] = OPEN
    assert '(.535) but is not significantly better than "BM25" (+.035) or "Other, small"' in sentences(*tests)


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        # equal to four decimals
        ([line("Ours", "BM25", "0.50004", "0.5000", verdict=OPEN)],
         '"Ours" has the highest MRR@10 (.500, the same as "BM25") but is not significantly better than '
         f'"BM25" (+.000). {FOUND} .010.'),
        # the best row is no reference of the table
        ([line("Ours", "BM25", "0.6000", "0.5000", verdict="better"),
          line("Other, small", "BM25", "0.5500", "0.5000", verdict="better")],
         '"Ours" has the highest MRR@10 (.600) and is significantly better than "BM25" (+.100); it is not '
         f'compared with "Other, small". {FOUND} .010.'),
        # the measure has no room for a difference that could be found
        ([line("Ours", "BM25", "0.9900", "0.9800", verdict=OPEN, detectable="", queries="3")],
         '"Ours" has the highest MRR@10 (.990) but is not significantly better than "BM25" (+.010). With '
         "these 3 queries, no difference that MRR@10 has room for is likely to be found."),
        ([line("Ours", "BM25", "0.9900", "0.9800", verdict=OPEN, detectable=""),
          line("Ours", "Other, small", "0.9900", "0.1000", verdict="better", detectable="0.1000")],
         '"Ours" has the highest MRR@10 (.990) and is significantly better than "Other, small" (+.890), but '
         f'not than "BM25" (+.010). {FOUND} .100; for some rows there is none.'),
        # a measure of sentences
        ([line("Ours", "BM25", "-0.1000", "-0.2000", verdict="better", measure="spearman")],
         '"Ours" has the highest spearman (-.100) and is significantly better than "BM25" (+.100). With '
         f"these 2,000 test items, {LIKELY} .010."),
        ([], ""),
    ],
)  # fmt: skip
def test_the_sentences_are_right_in_odd_tables(tests: list[dict[str, str]], expected: str) -> None:
    numbers = ("row_mean", "compared_with_mean", "difference", "smallest_detectable_difference")
    computed = [test | {key: float(test[key] or "nan") for key in numbers} for test in tests]
    assert sentences(*tests) == sentences(*computed) == expected  # of the file, and of the table's own job


@pytest.mark.parametrize(
    ("best", "overlays", "expected"),
    [
        ("BM25", [], 'make search DATASET=mine SYSTEM=bm25 QUERY="..."'),
        ("Ours, 250 train queries", ["a.yaml", "b.yaml"],
         """make search DATASET=mine SYSTEM=ours VARIANT=n250-seed1 QUERY="..." CONFIG='a.yaml b.yaml'"""),
        ("Ours, all train queries", [], 'make search DATASET=mine SYSTEM=ours VARIANT=seed1 QUERY="..."'),
        ("Other, small", [], ""),  # nothing searches with it
    ],
)  # fmt: skip
def test_the_command_searches_with_the_best_row(best: str, overlays: list[str], expected: str) -> None:
    sizes = [{**OURS, "train_queries": 250, "variants": ["n250-seed1", "n250-seed2"]}]
    sizes += [{**OURS, "variants": ["seed1", "seed2"]}]
    tests = [line(best, "Worst", "0.6000", "0.5000", verdict="better")]
    _, command = conclusion(tests, [row("bm25"), *sizes, OTHER], **{**NAMES, "overlays": overlays})
    assert command == expected
