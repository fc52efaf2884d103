"""Rerank the first hits of a run with a cross-encoder.

Reads the cross-encoder, the run, and the tokens and ids of passages and queries. Writes a TREC run and the
manifest. Finished blocks of pairs are kept in the work folder until the run is complete. Settings: `depth`,
`recipe.lengths`, `encode`, `compute`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.subsets import read_subset
    from condenser.data.text_files import TextFiles
    from condenser.model.devices import set_up
    from condenser.retrieve.rerank import PairScorer, rerank

    files, settings = job.input, job.settings
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    model = PairScorer(
        model_folder=files.model.parent,
        lengths=vars(resolve_lengths(settings.recipe.lengths, files.lengths or None, in_one_row=True)),
        batch_tokens=settings.encode.batch_tokens,
        compute=compute,
    )
    return rerank(
        *(model, files.candidates, job.output.run, TextFiles.of_inputs(files)),
        subset=read_subset(files.subset) if files.subset else None,
        depth=settings.depth,
        block_rows=settings.encode.block_rows,
        work_folder=job.work_folder,
        system=job.wildcards["system"],
        is_split=settings.dataset.split is not None,
    )


if __name__ == "__main__":
    run_job(main)
