"""Choose the best of several models on a collection without judgements, and copy it.

    python workflow_scripts/best_of.py .snakemake/jobs/best_of-0123456789abcdef.json

Reads for each set of queries the queries and the run of every candidate, in the order of the model's `of`,
and the candidates' weights. Writes the folder of the chosen model, a table and a picture of the gains over
the start, and the manifest, which says what was chosen, why, and which sets of queries were left out.
Settings: `model`, `significance`, `dataset.split`.
"""

from __future__ import annotations

import shutil
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate.figures._drawing import svg
    from condenser.evaluate.gate import decide, evidence, known_items, picture, values_of_runs
    from condenser.evaluate.tables import write_table
    from condenser.files import atomic_folder, atomic_write

    settings, files, output = job.settings.model, job.input, job.output
    significance, num = vars(job.settings.significance), len(settings.of)
    values = {
        name: values_of_runs(
            files.runs[place * num : (place + 1) * num],
            known_items(files.queries[place], is_split=job.settings.dataset.split is not None),
            measure=settings.measure,
        )
        for place, name in enumerate(settings.queries)
    }
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


if __name__ == "__main__":
    run_job(main)
