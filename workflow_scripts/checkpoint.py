"""Make the folder of a model that exists already, or of a new BERT: what trainings start from.

The settings are the model's entry of the configuration. Reads the checkpoint, which may be the model of a
system (source system); reads the collection only to learn a vocabulary (source scratch). Writes a Hugging
Face folder with `mlm_head.safetensors` beside its weights, and the manifest, which says whether pooler and
MLM head came from the checkpoint or are new.
"""

from __future__ import annotations

import os
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.objectives import checkpoint
    from condenser.shards import QUERY_FOLDER

    system = job.input.system.parent if job.input.system else None
    if system and (system / QUERY_FOLDER).is_dir():
        job.reads([system / QUERY_FOLDER])
    return checkpoint.prepare(
        job.settings.model,
        job.output.model.parent,
        seed=job.settings.seed,
        mirror=job.options.mirror or os.environ.get("CONDENSER_MIRROR"),
        collection=job.input.collection or None,
        system=system,
    )


if __name__ == "__main__":
    run_job(main)
