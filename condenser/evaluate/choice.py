"""Which of several rankings is best where nothing is judged, and whether that is shown.

A query that is made from a passage has that passage to find, a known item: a title, a sentence or keywords of
it. What a candidate gains over the start on such queries is tested as the rows of a table are. A candidate is
taken where its gain over all queries is shown, and large enough in each set of them. Otherwise the start is
kept: small gains on such queries, or those of one way to make them, can be losses on queries of people.

Source of known items: Azzopardi, de Rijke and Balog, Building simulated queries for known-item topics, SIGIR
2007. Queries of people have none: for them other systems vote (`condenser.retrieve.votes`). How often the
answer is right: docs/studies/choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from condenser.data.records import document_of, read_queries
from condenser.evaluate.comparisons import written_p_value
from condenser.evaluate.metrics import Grades, measure_run, read_rankings
from condenser.evaluate.significance import Comparison, summaries

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

ALL = "all queries"
_COLUMNS = {
    **{"candidate": "str", "queries": "str", "count": "int64", "mean": "Float64", "start_mean": "Float64"},
    **{"gain": "Float64", "gain_low": "Float64", "gain_high": "Float64", "holm_p_value": "str"},
    **{"verdict": "str", "smallest_detectable_gain": "Float64", "decision": "str"},
}

Values = Mapping[str, Float64[np.ndarray, "candidate query"]]
"""The measure of each candidate for each query, the start first, by set of queries."""


@dataclass(frozen=True)
class Decision:
    """The number of the chosen candidate (0: the start), why, and the comparisons behind it.

    `left_out` has the sets of queries that are too small, with their number of queries. The comparisons of a
    set have one for each candidate but the start, in order; those of `ALL` stand first.
    """

    chosen: int
    reason: str
    comparisons: Mapping[str, Sequence[Comparison]]
    left_out: Mapping[str, int]


def known_items(queries: Path, *, is_split: bool) -> dict[str, dict[str, int]]:
    """What each query has to find, as judgements: the passage that its id names, or its document."""
    ids = [query.query_id for query in read_queries(queries)]
    return {query_id: {document_of(query_id) if is_split else query_id: 1} for query_id in ids}


def values_of_runs(
    runs: Sequence[Path], grades: Grades, *, measure: str
) -> Float64[np.ndarray, "candidate query"]:
    """The measure of each run for each query of `grades`; a query that a run lacks counts 0."""
    rows = []
    for run in runs:
        values, _ = measure_run(read_rankings(run, grades), grades, measures=[measure], relevant_grade=1)
        rows.append([of_query[measure] for of_query in values.values()])
    return np.array(rows, dtype=np.float64)


def decide(
    values: Values, *, least_queries: int, least_gain: float, significance: Mapping[str, Any]
) -> Decision:
    """The candidate with the largest gain among those that may be taken, else the start.

    A candidate may be taken if it is better than the start over all queries together, by Holm's test over the
    candidates, and by `least_gain` or more in each set. Sets of fewer than `least_queries` are left out.

    Args:
        significance: further arguments of `summaries`.
    """
    small = {name: of_set.shape[1] for name, of_set in values.items() if of_set.shape[1] < least_queries}
    kept = {name: of_set for name, of_set in values.items() if name not in small}
    if not kept:
        return Decision(0, f"No set has {least_queries} queries: the start is kept.", {}, small)
    together = {ALL: np.concatenate(list(kept.values()), axis=1), **kept}
    comparisons = {name: _against_start(of_set, significance) for name, of_set in together.items()}
    gains = {
        number: comparison.difference
        for number, comparison in enumerate(comparisons[ALL], start=1)
        if _may_be_taken(comparisons, number, least_gain=least_gain)
    }
    if gains:
        chosen = max(gains, key=lambda number: gains[number])
        return Decision(chosen, "Its gain over the start is shown.", comparisons, small)
    shown = {comparison.verdict for comparison in comparisons[ALL]}
    why = {
        "better": f"A gain over the start is shown, but is below {least_gain} in a set of queries",
        "no difference shown": "No gain over the start is shown",
    }
    found = next((why[verdict] for verdict in why if verdict in shown), "Each candidate is shown to be worse")
    return Decision(0, f"{found}: the start is kept.", comparisons, small)


def _may_be_taken(comparisons: Mapping[str, Sequence[Comparison]], number: int, *, least_gain: float) -> bool:
    """Whether a candidate is better over all queries, and by at least `least_gain` in each set."""
    of_candidate = {name: of_set[number - 1] for name, of_set in comparisons.items()}
    return of_candidate[ALL].verdict == "better" and all(
        comparison.difference >= least_gain for comparison in of_candidate.values()
    )


def _against_start(
    values: Float64[np.ndarray, "candidate query"], significance: Mapping[str, Any]
) -> list[Comparison]:
    """Each candidate but the first compared with the first."""
    systems = {number: of_candidate[None, :] for number, of_candidate in enumerate(values)}
    pairs = [(number, 0) for number in systems if number]
    _, comparisons = summaries(systems, pairs, ends=(0.0, 1.0), **significance)
    return list(comparisons.values())


def evidence(
    decision: Decision, values: Values, candidates: Sequence[str], *, least_gain: float
) -> pd.DataFrame:
    """A line for each candidate but the start, first over all queries, then for each set.

    `decision` is of the lines over all queries: "adopt" for the chosen candidate, "keep the start" for one
    that may not be taken, "not the best" for one that may, and "left out" for a set that is too small.
    """
    import pandas as pd

    kept = [of_set for name, of_set in values.items() if name not in decision.left_out]
    lines = []
    for name, comparisons in decision.comparisons.items():
        of_set = np.concatenate(kept, axis=1) if name == ALL else values[name]
        means = of_set.mean(axis=1)
        for number, comparison in enumerate(comparisons, start=1):
            lines.append(
                {
                    "candidate": candidates[number],
                    "queries": name,
                    "count": of_set.shape[1],
                    "mean": means[number],
                    "start_mean": means[0],
                    "gain": comparison.difference,
                    "gain_low": comparison.low,
                    "gain_high": comparison.high,
                    "holm_p_value": written_p_value(comparison.holm_p_value),
                    "verdict": comparison.verdict,
                    "smallest_detectable_gain": comparison.detectable_difference,
                    "decision": _said(decision, number, least_gain) if name == ALL else None,
                }
            )
    for name, count in decision.left_out.items():
        lines += [
            {"candidate": candidate, "queries": name, "count": count, "decision": "left out"}
            for candidate in candidates[1:]
        ]
    return pd.DataFrame(lines, columns=list(_COLUMNS)).astype(_COLUMNS)


def _said(decision: Decision, number: int, least_gain: float) -> str:
    """The decision on a candidate, in words."""
    if number == decision.chosen:
        return "adopt"
    is_fit = _may_be_taken(decision.comparisons, number, least_gain=least_gain)
    return "not the best" if is_fit else "keep the start"


def picture(frame: pd.DataFrame, *, title: str, start: str, measure: str, confidence: float) -> Picture:
    """The gain of each candidate with its interval, a panel for each set of queries."""
    from matplotlib.figure import Figure as Picture

    from condenser.evaluate.figures._drawing import draw_verdicts, legend_of_verdicts

    ends = ["gain", "gain_low", "gain_high"]
    shown = frame[frame["gain"].notna()].astype(dict.fromkeys(ends, "float64"))
    sets, candidates = shown["queries"].unique().tolist(), frame["candidate"].unique().tolist()
    drawn = Picture(
        figsize=(2.6 + 2.1 * max(1, len(sets)), 1.8 + 0.3 * len(candidates)), layout="constrained"
    )
    drawn.suptitle(f"{title}\n{measure} over {start}, {100 * confidence:g} % intervals")
    if not sets:
        drawn.text(0.5, 0.5, "No set of queries is large enough.", ha="center")
        return drawn
    grid = drawn.subplots(1, len(sets), squeeze=False, sharey="row")[0]
    grid[0].set_yticks(range(len(candidates)), candidates)
    grid[0].set_ylim(len(candidates) - 0.5, -0.5)  # from the top, in the order of the table
    for axis, name in zip(grid, sets, strict=True):
        lines = shown[shown["queries"] == name]
        places = map(candidates.index, lines["candidate"])
        points = zip(*(lines[end] for end in ends), places, lines["verdict"], strict=True)
        draw_verdicts(axis, points, title=f"{name} ({lines['count'].iloc[0]:,})")
    legend_of_verdicts(drawn)
    return drawn
