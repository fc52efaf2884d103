"""Make training examples of queries without judgements, from a teacher's hits.

Reads the teacher's run of these queries, the queries, and those of the data set's splits: a query whose text
one of these has is left out and counted as `known_queries`. A teacher without thresholds
(`negatives.denoise`) gives negatives alone: the queries were made from passages, which are their positives.
With thresholds its scores say which hits are positives. Then it also reads the runs of the train queries by
the teacher and by its candidates, and the judgements, to compare them on the held-out queries; where the
teacher is not better, the file is empty. Writes one example a line and the manifest. Settings:
`recipe.negatives`, `metrics.relevant_grade`, `seed`, `dataset.split`.
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
    compared: dict[str, Any] = {}
    if negatives.denoise is None:
        labels = {"own_passage": True, "margin": negatives.margin}
    else:
        labels = {"own_passage": negatives.denoise.positive_above is None, "margin": None}
        labels |= vars(negatives.denoise)
        comparison = compare_teacher(
            files.compared_runs,
            files.qrels,
            held_out=files.held_out or None,
            relevant_grade=job.settings.metrics.relevant_grade,
        )
        compared = comparison.counts()
        if not comparison.is_used:
            return {"examples": write_examples(job.output.examples, []), **compared}
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
        relevant_grade=job.settings.metrics.relevant_grade,
        depth=negatives.depth,
        sample=negatives.sample,
        positive_in_run=False,
        wanted=wanted,
        seed=job.settings.seed,
        answering=answering,
        is_split=job.settings.dataset.split is not None,
        **labels,
    )
    known = count_lines(files.queries) - len(wanted)
    return {**counts, "known_queries": known, **compared}


if __name__ == "__main__":
    run_job(main)
