"""Measure a run against judgements.

Reads a TREC run and judgements; where answers decide also the passages and the answers of the queries.
Writes the measures (means, counts and the values of each query) as JSON, and the manifest. Settings:
`metrics`, that is `measures` such as MRR@10, and `relevant_grade`, the least grade that counts as relevant:
1 for MS MARCO dev, 2 for TREC DL 2019.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate.metrics import evaluate

    settings, texts, has_answer, answered = job.settings.metrics, job.input.texts, None, []
    if texts:
        from condenser.data.records import read_queries
        from condenser.evaluate.answers import answering_pairs
        from condenser.evaluate.measures import parse

        depth = max(measure.depth for measure in map(parse, settings.measures) if measure.needs_answers)
        pairs = answering_pairs(job.input.run, *texts, depth=depth)
        answered = [query.query_id for query in read_queries(texts[1]) if query.answers]
        has_answer = lambda query_id, doc_id: (query_id, doc_id) in pairs  # noqa: E731 - as short as it is
    return evaluate(
        job.input.run,
        job.input.qrels,
        job.output.metrics,
        system=job.wildcards["system"],
        measures=settings.measures,
        relevant_grade=settings.relevant_grade,
        has_answer=has_answer,
        answered=answered,
    )


if __name__ == "__main__":
    run_job(main)
