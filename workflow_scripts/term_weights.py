"""Learn the weights of terms from train queries, and write those of every passage.

The settings are the key `trained` of an entry of `expansions`, `encode`, `compute`, `seed`,
`metrics.relevant_grade` and `dataset.split`. Reads the model to start from, the tokens and ids of the
collection and of the train queries, their judgements, the ids of those of the variant's size, and of those
that are held out. Writes weights.jsonl (a line for each passage), losses.jsonl, and the manifest. SIGTERM
saves a checkpoint; started again with the same job and inputs, it resumes after the last checkpoint or the
last finished block of passages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.text_files import TextFiles
    from condenser.papers.term_training import term_weights_training
    from condenser.papers.term_weights import weigh_terms
    from condenser.train.loop import run_training

    files, settings, texts = job.input, job.settings, TextFiles.of_inputs(job.input)
    initial = files.initial.parent
    return run_training(
        job,
        settings.term_weights,
        lambda run: term_weights_training(
            texts,
            files.qrels,
            initial,
            run,
            relevant_grade=settings.metrics.relevant_grade,
            subset=files.subset or None,
            held_out=files.held_out or None,
            is_split=settings.dataset.split is not None,
            save=lambda model, folder: weigh_terms(
                model,
                initial,
                texts.collection_tokens,
                texts.doc_ids,
                folder / Path(job.output.weights).name,
                max_tokens=settings.term_weights.max_tokens,
                **vars(settings.encode),
                device=run.processes.device,
                precision=run.precision,
                work_folder=job.work_folder,
            ),
        ),
        output=job.output.weights.parent,
    )


if __name__ == "__main__":
    run_job(main)
