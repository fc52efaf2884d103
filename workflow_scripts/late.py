"""Rank the first hits of other runs by MaxSim of token states.

Reads the encoder, the runs, the tokens and ids of passages and queries, and token states of passages where a
bi-encoder with the same weights kept them. Writes a TREC run and the manifest. Finished blocks of scores are
kept in the work folder until the run is complete.
Settings: `system`, `depth`, `recipe.lengths`, `encode`, `compute`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.subsets import read_subset
    from condenser.data.text_files import TextFiles
    from condenser.model.devices import set_up
    from condenser.retrieve.late import LateModel, rank_by_maxsim
    from condenser.retrieve.token_states import KeptStates, StatesFiles

    files, settings, system = job.input, job.settings, job.settings.system
    states, starts = (given if isinstance(given, list) else [given] for given in (files.states, files.starts))
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    model = LateModel(
        model_folder=files.model.parent,
        special_tokens=system.special_tokens,
        punctuation=system.punctuation,
        match=system.match,
        first_states=system.first_states,
        is_trained=system.train,
        is_projected=system.dim is not None,
        lengths=vars(resolve_lengths(settings.recipe.lengths, files.lengths or None)),
        batch_tokens=settings.encode.batch_tokens,
        compute=compute,
    )
    return rank_by_maxsim(
        *(model, files.candidates, job.output.run, TextFiles.of_inputs(files)),
        subset=read_subset(files.subset) if files.subset else None,
        hits=system.depth,
        depth=settings.depth,
        block_rows=settings.encode.block_rows,
        work_folder=job.work_folder,
        system=job.wildcards["system"],
        is_split=settings.dataset.split is not None,
        kept=KeptStates(list(map(StatesFiles, states, starts))),
    )


if __name__ == "__main__":
    run_job(main)
