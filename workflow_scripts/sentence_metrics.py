"""Measure similarities of pairs or triplets of sentences.

Reads the similarities and the items. Writes the measures (their means, and the values of each item, which
docs/reading.md explains) as JSON, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate.metrics import evaluate_sentences

    return evaluate_sentences(
        job.input.similarities,
        job.input.sentences,
        job.output.metrics,
        system=job.wildcards["system"],
        measures=job.settings.metrics.measures,
    )


if __name__ == "__main__":
    run_job(main)
