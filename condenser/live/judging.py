"""How far a person's judging is, and what the judgements show by now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from condenser.data.judged import JudgedQuery, Judgements

MEASURE = "nDCG@10"  # of the pool's depth: deeper hits have no grade
_LEAST_QUERIES = 5  # before a difference is spoken of
_ENOUGH_QUERIES = 200  # nobody judges more for a difference that so many do not show


def progress(judgements: Judgements, systems: Sequence[str], *, relevant_grade: int) -> dict[str, Any]:
    """How far the judging is, in words, and whether more would add something.

    The rankings are compared by their first hits, as a table would compare them.

    Returns:
        `done` `of` how many queries; texts that are `left`; `said`, sentences; `is_enough`.
    """
    queries, done = list(judgements.queries.values()), judgements.done
    found = {
        "done": len(done),
        "of": len(queries),
        "left": sum(len(query.left) for query in queries),
        "is_enough": False,
    }
    compared = [query for query in done if all(name in query.rankings for name in systems)]
    said = [f"{len(done)} of {len(queries)} queries are judged."]
    if len(systems) > 1 and len(compared) >= _LEAST_QUERIES:
        more, found["is_enough"] = _compared(compared, systems, relevant_grade=relevant_grade)
        said += more
    elif len(systems) > 1:
        said.append(f"What they show is said from {_LEAST_QUERIES} queries on.")
    return {**found, "said": " ".join(said)}


def _compared(
    queries: Sequence[JudgedQuery], systems: Sequence[str], *, relevant_grade: int
) -> tuple[list[str], bool]:
    import numpy as np

    from condenser.evaluate.metrics import measure_run, ranked
    from condenser.evaluate.significance import summaries

    grades = {query.query_id: query.grades for query in queries}
    values = {}
    for name in systems:
        rankings = (
            ranked(query.query_id, hits, [-float(rank) for rank in range(len(hits))], grades)
            for query in queries
            for hits in [query.rankings[name]]
        )
        measured, _ = measure_run(rankings, grades, measures=[MEASURE], relevant_grade=relevant_grade)
        values[name] = np.array([[of_query[MEASURE] for of_query in measured.values()]])
    best = max(systems, key=lambda name: float(values[name].mean()))
    pairs = [(best, other) for other in systems if other != best]
    options = {"confidence": 0.95, "power": 0.8, "permutations": 10_000, "seed": 42}
    _, comparisons = summaries(values, pairs, ends=(0.0, 1.0), **options)  # type: ignore[arg-type]
    decided = [pair for pair, one in comparisons.items() if one.verdict == "better"]
    found = [one.detectable_difference for one in comparisons.values()]
    known = [one for one in found if one == one]  # NaN where there is no room for one
    said = []
    if known:
        said.append(f"A difference of {max(known):.2f} in {MEASURE} would be found now.")
    said += [
        f"{best} is better than {other} by {comparisons[best, other].difference:.2f} "
        f"[{comparisons[best, other].low:.2f}, {comparisons[best, other].high:.2f}]."
        for _, other in decided
    ]
    needed = [
        len(queries) * (one.detectable_difference / one.difference) ** 2 if one.difference else float("inf")
        for one in comparisons.values()
        if one.verdict != "better" and one.detectable_difference == one.detectable_difference
    ]
    if len(decided) == len(pairs):
        return [*said, "That is enough: more queries would add nothing to this."], True
    if not needed:
        return said, False
    if len(queries) >= 2 * _LEAST_QUERIES and min(needed) > _ENOUGH_QUERIES:
        few = f"the others differ so little that {_ENOUGH_QUERIES} queries would not show it"
        return [*said, f"You may stop: {few}."], True
    return [*said, f"About {min(needed):,.0f} queries would show the difference that is seen now."], False
