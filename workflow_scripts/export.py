"""Export a retriever for other libraries, and see that they rank with it as this workflow does.

    python workflow_scripts/export.py .snakemake/jobs/export-0123456789abcdef.json

Reads the retriever, the stored vectors, the texts and, where queries are judged, judgements and metrics.
Writes the folder that docs/using.md describes, complete or not at all, and the manifest. Fails where a
library ranks otherwise. Settings: `dataset.split`, `recipe.lengths`, `encode`, `compute.threads`,
`significance`, and `system` for the model card.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.export import refuse_missing_packages

    refuse_missing_packages()
    from condenser.data.lengths import resolved
    from condenser.export.agreement import Searched
    from condenser.export.card import facts_of
    from condenser.export.export import export_retriever

    files, settings = job.input, job.settings
    model, folder = files.model.parent, job.output.agreement.parent
    job.device, job.outputs = "cpu fp32", [folder]
    return export_retriever(
        model,
        folder,
        Searched(
            files.embeddings,
            files.collection,
            files.doc_ids,
            files.queries or None,
            files.qrels or None,
            is_split=settings.dataset.split is not None,
        ),
        facts=facts_of(
            job.spec, model, counts=files.counts, metrics=files.metrics or None, lengths=files.lengths
        ),
        lengths=vars(resolved(settings.recipe.lengths, files.lengths)),
        encode=vars(settings.encode),
        threads=settings.compute.threads,
        significance=vars(settings.significance),
    )


if __name__ == "__main__":
    run_job(main)
