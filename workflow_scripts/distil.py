"""Train a bi-encoder to score the passages of a query as a teacher does.

    python workflow_scripts/distil.py .snakemake/jobs/distil-0123456789abcdef.json

The settings are the system's entry, the data set's recipe, `compute` and `seed`. Reads the model to start
from, the tokens and ids of the collection and of the queries, and the teacher's run of these queries.
Writes a Hugging Face folder with losses.jsonl, and the manifest. It is stopped, resumed and shared by
several GPUs as `train` is.
"""

from __future__ import annotations

from typing import Any

from condenser.blocks import FineTuning
from condenser.job import Job, run_job
from condenser.settings import partly
from condenser.train.launch import launch


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.text_files import TextFiles
    from condenser.train.finetune import distillation_training
    from condenser.train.loop import run_training
    from condenser.train.teacher import TaughtFiles

    files, recipe, distillation = job.input, job.settings.recipe, job.settings.system.distillation
    taught = TaughtFiles(
        files.run,
        TextFiles.of_inputs(files),
        with_own_passage=distillation.own_passage,
        temperature=distillation.temperature,
        initial_share=distillation.initial_share,
    )
    lengths = resolve_lengths(recipe.lengths, files.lengths or None)
    return run_training(
        job,
        partly(FineTuning, {**vars(recipe), "lengths": vars(lengths)}),
        lambda run: distillation_training(taught, files.initial.parent, run),
    )


if __name__ == "__main__":
    run_job(main, launch=launch)
