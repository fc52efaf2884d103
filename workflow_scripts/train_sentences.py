"""Fine-tune an encoder of sentences on pairs or triplets.

The settings are the data set's source, its recipe, `compute` and `seed`. Reads the model to start from and
the items, of which a subset names those to train on. Writes a Hugging Face folder with losses.jsonl, and the
manifest. SIGTERM saves a checkpoint; started again with the same job and inputs, the training resumes.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.papers.sentence_training import sentence_training
    from condenser.train.loop import run_training

    files, task = job.input, job.settings.dataset.TASK
    assert task is not None
    return run_training(
        job,
        job.settings.recipe,
        lambda run: sentence_training(
            files.sentences, files.subset or None, files.initial.parent, run, task=task
        ),
    )


if __name__ == "__main__":
    run_job(main)
