"""Pre-train a model by its objective.

The settings are the model's entry in the configuration, `compute` and `seed`. Reads the token shards and the
folder to start from, and the ids to name texts in an error. Writes a Hugging Face folder with the model's
heads in files beside the weights and losses.jsonl, and the manifest. SIGTERM saves a checkpoint; started
again with the same job and inputs, the training resumes. A job with several GPUs is as many processes.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job
from condenser.train.launch import launch


def main(job: Job) -> dict[str, Any]:
    from condenser import kinds
    from condenser.shards import prefix_of
    from condenser.train.loop import run_training
    from condenser.train.pretrain import pretraining

    settings = job.settings.model
    return run_training(
        job,
        settings,
        lambda run: pretraining(
            kinds.load("objectives", settings.objective).training,
            list(map(prefix_of, job.input.tokens)),
            job.input.initial.parent,
            run,
            title=settings.objective,
            doc_ids=job.input.doc_ids,
        ),
    )


if __name__ == "__main__":
    run_job(main, launch=launch)
