"""Make training examples of queries without judgements: positives and negatives by the scores of a teacher.

    python workflow_scripts/pseudo_labels.py .snakemake/jobs/pseudo_labels-0123456789abcdef.json

Reads the teacher's run of these queries, the queries, and those of the data set's splits: a query that one
of these has is left out and counted as `known_queries`. Also reads the runs of the train queries by the
teacher and by its candidates, and the judgements, to compare them on the held-out queries; where the teacher
is not better, the file is empty. Writes one example a line and the manifest. Settings: `recipe.negatives`,
`seed`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.negatives import make_examples
    from condenser.data.records import write_examples
    from condenser.data.unjudged import new_queries
    from condenser.evaluate.teachers import compare_teacher
    from condenser.files import count_lines

    files, negatives = job.input, job.settings.recipe.negatives
    comparison = compare_teacher(
        *(files.teacher_run or None, files.candidates_run or None, files.qrels),
        held_out=files.held_out or None,
    )
    if not comparison.is_used:
        return {"examples": write_examples(job.output.examples, []), **comparison.counts()}
    wanted = new_queries(files.queries, files.known)
    answering: set[tuple[str, str]] = set()
    if files.collection:
        from condenser.evaluate.answers import answering_pairs

        answering = answering_pairs(files.run, files.collection, files.queries, depth=None, wanted=wanted)
    counts = make_examples(
        files.run,
        files.queries,
        None,
        job.output.examples,
        depth=negatives.depth,
        sample=negatives.sample,
        positive_in_run=False,
        margin=None,
        wanted=wanted,
        seed=job.settings.seed,
        answering=answering,
        is_split=job.settings.dataset.split is not None,
        **vars(negatives.denoise),
    )
    known = count_lines(files.queries) - len(wanted)
    return {**counts, "known_queries": known, **comparison.counts()}


if __name__ == "__main__":
    run_job(main)
