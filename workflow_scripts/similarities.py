"""Tell how similar the sentences of pairs or triplets are, by an encoder.

Reads the encoder and the items of a split. Writes for each item its id and its similarities (of a pair the
cosine, of a triplet minus the two distances from the anchor, or the kinds that the recipe names), and the
manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.model.devices import set_up
    from condenser.papers.similarities import write_model_similarities

    settings = job.settings
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    task = settings.dataset.TASK
    assert task is not None
    return write_model_similarities(
        job.input.model.parent,
        job.input.sentences,
        job.output.similarities,
        task=task,
        similarities=settings.similarities,
        max_tokens=settings.recipe.max_tokens,
        batch_tokens=settings.encode.batch_tokens,
        compute=compute,
    )


if __name__ == "__main__":
    run_job(main)
