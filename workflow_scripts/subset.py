"""Draw a subset of the train queries or sentences.

Reads the train queries, and where official files give negatives the examples of all of them: only queries
with an example are drawn. Writes the ids of the subset, one a line, in the order of the queries, and the
manifest. Of one seed, a smaller subset lies inside a larger one.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.subsets import write_subset

    settings = job.settings
    return write_subset(
        job.input.queries,
        job.output.ids,
        count=settings.train_queries,
        seed=settings.seed,
        examples=job.input.examples or None,
    )


if __name__ == "__main__":
    run_job(main)
