"""Tell how similar the sentences of pairs or triplets are, by the mean of their words' vectors.

Reads the user's file of vectors and the items of a split. Writes for each item its id and its similarities
(of a pair the cosine, of a triplet minus the two distances from the anchor), and the manifest, which counts
the words found and the sentences without any.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.papers.similarities import write_word_similarities

    task = job.settings.dataset.TASK
    assert task is not None
    files = job.input
    return write_word_similarities(files.vectors, files.sentences, job.output.similarities, task=task)


if __name__ == "__main__":
    run_job(main)
