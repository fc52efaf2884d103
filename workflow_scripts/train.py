"""Fine-tune a system on training examples, or on the run of its teacher.

The settings are the system's entry, the data set's recipe, `compute` and `seed`. Reads the model to start
from, the tokens and ids of the collection and of the train queries, one file of examples for each system
whose negatives it learns from, and the train queries that are held out; also queries with pseudo-labels, and
the examples of these. A distillation reads no examples but the teacher's run of its queries. Writes a Hugging
Face folder with losses.jsonl and validation.json (the model beside its start on held-out queries), and the
manifest. SIGTERM saves a checkpoint; started again with the same job and inputs, the training resumes. A job
with several GPUs is as many processes, which share one batch: their number changes the speed and not what is
trained.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job
from condenser.train.launch import launch


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.text_files import TextFiles
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import run_training

    files, recipe, system = job.input, job.settings.recipe, job.settings.system
    examples = TrainingFiles(
        files.examples,
        TextFiles.of_inputs(files),
        files.held_out or None,
        recipe.validation,
        has_pseudo_labels=system.pseudo_labelled is not None,
        teacher_run=files.teacher_run or None,
    )
    recipe.lengths = resolve_lengths(recipe.lengths, files.lengths or None, in_one_row=system.READS_PAIRS)
    return run_training(job, recipe, lambda run: system.training(examples, files.initial.parent, run))


if __name__ == "__main__":
    run_job(main, launch=launch)
