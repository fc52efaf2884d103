"""Learn the weights of a fusion from the train queries.

Reads the runs of the train queries, in the order of the system's `of`, the queries and their judgements.
Writes the weights with their spread as JSON, and the manifest.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.subsets import read_subset
    from condenser.files import write_json
    from condenser.retrieve.learnt_weights import describe_weights, learn_weights, read_judged_hits

    files, system = job.input, job.settings.system
    judged, counts = read_judged_hits(
        *(files.runs, files.queries, files.qrels),
        relevant_grade=job.settings.metrics.relevant_grade,
        subset=read_subset(files.subset) if files.subset else None,
        depth=system.depth,
        most_queries=system.most_queries,
    )
    learnt = learn_weights(judged, num_runs=len(system.of), least_queries=system.least_queries)
    write_json(job.output.weights, asdict(learnt))
    weights = describe_weights(learnt, system.of)
    too_few = f", equal: {len(judged)} judged queries, fewer than {system.least_queries}"
    said = "".join(f" {name} {text}" for name, text in weights.items())
    print(f"{job.wildcards['system']}:{said}{too_few if learnt.penalty is None else ''}")
    return {**counts, "weights": weights}


if __name__ == "__main__":
    run_job(main)
