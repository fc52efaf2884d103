"""Make training examples: train queries with positives, and negatives sampled from a system's run.

Reads the run of the train queries (or the official files that contain the system's negatives), the train
queries and their judgements; also the passages where those with an answer are no negatives
(`negatives.without_answers`). With a subset only its queries count. A teacher that denoises
(`negatives.denoise`) is compared with its candidates on the held-out queries first; where it is not better,
the examples are those of the candidates' run, not denoised. Writes one example a line and the manifest, which
counts the queries without an example by reason. Settings: `recipe.negatives`,
`metrics.relevant_grade`, `seed`, `dataset.source`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data import sources
    from condenser.data.negatives import make_examples
    from condenser.data.subsets import read_subset

    files, settings = job.input, job.settings
    negatives = settings.recipe.negatives
    wanted = read_subset(files.subset) if files.subset else None
    if files.raw:
        return sources.load(settings.dataset).make_examples(
            {file.name: file for file in files.raw},
            files.queries,
            files.qrels,
            job.output.examples,
            relevant_grade=settings.metrics.relevant_grade,
            sample=negatives.sample,
            wanted=wanted,
            seed=settings.seed,
        )
    run, by_score, compared = files.run, {}, {}
    if negatives.denoise:
        from condenser.evaluate.teachers import compare_teacher

        held_out = files.held_out or None
        comparison = compare_teacher(
            files.compared_runs,
            files.qrels,
            held_out=held_out,
            relevant_grade=settings.metrics.relevant_grade,
        )
        compared = comparison.counts()
        if not comparison.is_used:
            run = files.candidates_run
        else:
            by_score = {
                **vars(negatives.denoise),
                "held_out": read_subset(held_out) if held_out else frozenset(),
            }
    answering: set[tuple[str, str]] = set()
    if files.collection:
        from condenser.evaluate.answers import answering_pairs

        answering = answering_pairs(run, files.collection, files.queries, depth=None, wanted=wanted)
    counts = make_examples(
        run,
        files.queries,
        files.qrels,
        job.output.examples,
        relevant_grade=settings.metrics.relevant_grade,
        depth=negatives.depth,
        sample=negatives.sample,
        positive_in_run=job.wildcards["system"] in negatives.positive_in_run,
        margin=negatives.margin,
        wanted=wanted,
        seed=settings.seed,
        answering=answering,
        is_split=settings.dataset.split is not None,
        **by_score,
    )
    return {**counts, **compared}


if __name__ == "__main__":
    run_job(main)
