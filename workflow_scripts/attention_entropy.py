"""Measure how widely [CLS] attends in each layer of a model, on passages of a collection.

Reads the model and all token shards. Writes the entropies of the passages that the file's name counts and
draws, as JSON, and the manifest. Settings: `recipe.lengths.passage`, `encode.batch_tokens`, `compute`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.records import read_doc_ids
    from condenser.model.devices import set_up
    from condenser.papers.attention import write_attention_entropies
    from condenser.shards import prefix_of

    settings = job.settings
    compute = set_up(precision="fp32", **vars(settings.compute))
    job.device = str(compute)
    return write_attention_entropies(
        job.input.model.parent,
        [prefix_of(shard) for shard in job.input.tokens],
        read_doc_ids(job.input.doc_ids),
        job.output.entropies,
        num_passages=int(job.wildcards["passages"]),
        seed=int(job.wildcards["draw"]),
        max_tokens=int(resolve_lengths(settings.recipe.lengths, job.input.lengths or None).passage),
        batch_tokens=settings.encode.batch_tokens,
        device=compute.device,
    )


if __name__ == "__main__":
    run_job(main)
