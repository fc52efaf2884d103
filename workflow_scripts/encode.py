"""Embed the passages of one token shard with a retriever.

Reads the retriever and the token shard, and the ids to name a passage in an error. Writes float32
[passage, dim], token states in eight bits if they fit into `states_gb` (else two empty files), and the
manifest. Finished blocks are kept in the work folder until the files are complete. The option `last` is a
folder that keeps what was written: rows with the same tokens, model, settings and code are copied from there.
The option `learnt` is a file of a model that is kept when the texts change, with the passages from which it
has learnt; `rows_newer` are the others. Settings: `recipe.lengths.passage`, `encode`, `states_gb`, `compute`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.records import read_doc_ids
    from condenser.data.row_keys import count_newer
    from condenser.data.tokens import TokenShards, shard_rows
    from condenser.files import canonical_json, count_lines, sha256_file
    from condenser.model.devices import set_up
    from condenser.retrieve.encode import encode_texts
    from condenser.retrieve.last_rows import LastRows
    from condenser.retrieve.token_states import StatesFiles
    from condenser.shards import encoder_files, prefix_of

    settings, doc_ids = job.settings, job.input.doc_ids
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    shard, model = job.wildcards["shard"], job.input.model.parent
    first_row, _ = shard_rows(count_lines(doc_ids), shard, multiple_of=settings.encode.block_rows)
    behind_rows = {
        **{part: job.spec.get(part) for part in ("config", "code", "versions")},
        "model": {file.name: sha256_file(file) for file in encoder_files(model)},
        "device": job.device,
    }
    tokens = prefix_of(job.input.tokens)
    counts = encode_texts(
        model,
        tokens,
        job.output.embeddings,
        rows=None,
        role="passage",
        max_tokens=int(resolve_lengths(settings.recipe.lengths, job.input.lengths or None).passage),
        **vars(settings.encode),
        compute=compute,
        work_folder=job.work_folder,
        name_of_row=lambda row: f"passage {read_doc_ids(doc_ids)[first_row + row]}",
        states=StatesFiles(job.output.states, job.output.starts),
        states_gb=settings.states_gb / int(shard.split("-")[-1]),
        last=LastRows(Path(job.options.last), canonical_json(behind_rows)),
    )
    learnt = vars(job.options).get("learnt")
    if learnt and Path(learnt).is_file():
        counts["rows_newer"] = count_newer(Path(learnt), TokenShards([tokens]))
    return counts


if __name__ == "__main__":
    run_job(main)
