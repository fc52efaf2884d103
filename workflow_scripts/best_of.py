"""Choose the best of several models on a collection without judgements, and copy it.

Reads for each set of queries, those of `unjudged` last, the queries and the run of every candidate, in the
order of the model's `of`; for those of `unjudged` also the runs of the voters; and the candidates' weights.
Writes the folder of the chosen model, a table and a picture of the gains over the start, and the manifest,
which says what was chosen, why, and which sets of queries were left out.
Settings: `model`, `significance`, `dataset.split`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate.choice import decide, evidence, known_items, picture, values_of_runs
    from condenser.evaluate.figures._drawing import svg
    from condenser.evaluate.tables import write_table
    from condenser.files import atomic_folder, atomic_write
    from condenser.retrieve.votes import voted_items

    settings, files, output = job.settings.model, job.input, job.output
    significance = vars(job.settings.significance)
    values: dict[str, Any] = {}
    num_made = len(settings.queries)
    for place, name in enumerate([*settings.queries, *settings.unjudged]):
        queries = files.queries[place]
        if place < num_made:
            items = known_items(queries, is_split=job.settings.dataset.split is not None)
        else:
            votes = _part(files.votes, place - num_made, len(settings.voters))
            items = voted_items(votes, queries)
        runs = _part(files.runs, place, len(settings.of))
        values[name] = values_of_runs(runs, items, measure=settings.measure)
    decision = decide(
        values,
        least_queries=settings.least_queries,
        least_gain=settings.least_gain,
        significance=significance,
    )
    chosen = settings.of[decision.chosen]
    with atomic_folder(output.model.parent) as partial:
        shutil.copytree(
            files.models[decision.chosen].parent,
            partial,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("losses.jsonl"),
        )
    frame = evidence(decision, values, settings.of, least_gain=settings.least_gain)
    write_table(output.table, frame)
    title = f"{job.wildcards['model']} of {job.wildcards['dataset']}: {chosen}"
    with atomic_write(output.picture) as file:
        file.write(
            svg(
                lambda: picture(
                    frame,
                    title=title,
                    start=settings.of[0],
                    measure=settings.measure,
                    confidence=significance["confidence"],
                )
            )
        )
    print(f"{job.wildcards['model']}: {chosen}. {decision.reason} The gains are in {output.table}")
    return {
        "chosen": chosen,
        "reason": decision.reason,
        "queries": {name: of_set.shape[1] for name, of_set in values.items()},
        "sets_left_out": list(decision.left_out),
    }


def _part(listed: Sequence[Path], number: int, size: int) -> Sequence[Path]:
    """One of the parts of equal size that a list consists of."""
    return listed[number * size : (number + 1) * size]


if __name__ == "__main__":
    run_job(main)
