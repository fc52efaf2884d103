"""Export a retriever for other libraries, and check that sentence-transformers ranks with it as we do.

Reads the retriever, the stored vectors, the texts and, where queries are judged, queries and metrics. Writes
the folder that docs/systems.md describes, complete or not at all, and the manifest. Fails where the library
makes other vectors or rankings. Settings: `dataset.split`, `recipe.lengths`, `encode`, `compute.threads`,
`significance`, and `system` for the model card.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import read_text_lengths, resolve_lengths
    from condenser.export.export import export_retriever
    from condenser.files import read_json
    from condenser.shards import QUERY_FOLDER

    files, settings = job.input, job.settings
    model, folder = files.model.parent, job.output.agreement.parent
    job.device, job.outputs = "cpu fp32", [folder]
    if (model / QUERY_FOLDER).is_dir():
        job.reads([model / QUERY_FOLDER])
    return export_retriever(
        model,
        folder,
        embeddings=files.embeddings,
        collection=files.collection,
        doc_ids=files.doc_ids,
        queries=files.queries or None,
        spec=job.spec,
        counts=read_json(files.counts),
        metrics=read_json(files.metrics) if files.metrics else None,
        texts=read_text_lengths(files.lengths),
        lengths=vars(resolve_lengths(settings.recipe.lengths, files.lengths)),
        encode=vars(settings.encode),
        threads=settings.compute.threads,
    )


if __name__ == "__main__":
    run_job(main)
