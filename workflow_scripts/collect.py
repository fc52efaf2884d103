"""Turn a source's files into the canonical files of a data set, every row checked and counted.

The settings are the data set's block of the configuration. Reads what the source needs: the user's files
under `path`, installed packages, or official files, known by their names. Writes collection.jsonl,
doc_ids.txt, queries.<split>.jsonl and qrels.<split>.tsv (of sentences: items.<split>.jsonl), rejected.jsonl
(the rows left out under bad_rows: skip), counts.json, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data import sources

    raw = {file.name: file for file in [*job.input.downloads, *job.input.files]}
    return sources.collect(job.output.files[0].parent, raw, job.settings.dataset)


if __name__ == "__main__":
    run_job(main)
