"""Look for faults in a data set: short, cut and equal texts, and train queries in an evaluation set.

Reads the passages, queries and judgements; how long the texts are, by the checkpoint (the folder of the file)
whose tokenizer reads them. Writes a line for each finding, their counts as JSON, and the manifest. Removes
nothing. Settings: `audit`, `lengths`, `metrics.relevant_grade`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.audit import audit, write_findings
    from condenser.data.lengths import read_text_lengths
    from condenser.files import write_json

    files = job.input
    findings, counts = audit(
        files.collection,
        train_queries=files.train_queries or None,
        eval_queries={file.name.split(".")[1]: file for file in files.eval_queries},
        qrels={file.name.split(".")[1]: file for file in files.qrels},
        relevant_grade=job.settings.metrics.relevant_grade,
        lengths=vars(job.settings.lengths),
        text_lengths={file.parent.name: read_text_lengths(file) for file in files.lengths},
        thresholds=job.settings.audit,
        is_split=job.settings.dataset.split is not None,
    )
    write_findings(job.output.findings, findings)
    write_json(job.output.counts, counts)
    found = ", ".join(f"{kind} {count}" for kind, count in counts["findings"].items() if count)
    print(f"{job.output.findings}: {found or 'nothing found'}")
    return counts


if __name__ == "__main__":
    run_job(main)
