"""Draw the train queries that no training sees.

Reads the train queries, and of a smaller train size its subset. Writes the ids of the held-out queries, one a
line, in the order of the queries, and the manifest. The file is empty where there would be too few. Settings:
`recipe.held_out` and `seed`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.subsets import write_held_out

    return write_held_out(
        job.input.queries,
        job.output.ids,
        subset=job.input.subset or None,
        **vars(job.settings.recipe.held_out),
        seed=job.settings.seed,
    )


if __name__ == "__main__":
    run_job(main)
