"""Measure a run against judgements.

    python workflow_scripts/metrics.py \\
        --spec '{"config": {"metrics": {"measures": ["MRR@10"], "relevant_grade": 1}}, ...}' \\
        --run results/msmarco/systems/bm25/untrained/run.dev.trec \\
        --qrels results/msmarco/data/qrels.dev.tsv \\
        --output results/msmarco/systems/bm25/untrained/metrics.dev.json \\
        --manifest results/msmarco/systems/bm25/untrained/metrics.dev.json.manifest.json

Reads a TREC run and judgements; with --texts also the passages and the answers of the queries. Writes the
measures (means, counts and the values of each query) as JSON, and the manifest. Settings: `metrics`, that is
`measures` such as MRR@10, and `relevant_grade`, the least grade that counts as relevant: 1 for MS MARCO dev,
2 for TREC DL 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)
    parser.add_argument(
        "--texts", type=Path, nargs=2, help="collection.jsonl and queries.SPLIT.jsonl, for answers"
    )
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    manifest = Manifest(
        arguments.manifest, arguments.spec, inputs=[arguments.run, arguments.qrels, *(arguments.texts or [])]
    )

    from condenser.evaluate.metrics import evaluate

    settings, has_answer, answered = arguments.spec["config"]["metrics"], None, []
    if arguments.texts:
        from condenser.data.records import read_queries
        from condenser.evaluate.answers import answering_pairs
        from condenser.evaluate.measures import parse

        depth = max(measure.depth for measure in map(parse, settings["measures"]) if measure.needs_answers)
        pairs = answering_pairs(arguments.run, *arguments.texts, depth=depth)
        answered = [query.query_id for query in read_queries(arguments.texts[1]) if query.answers]
        has_answer = lambda query_id, doc_id: (query_id, doc_id) in pairs  # noqa: E731 - as short as it is
    counts = evaluate(
        arguments.run,
        arguments.qrels,
        arguments.output,
        system=arguments.spec["wildcards"]["system"],
        measures=settings["measures"],
        relevant_grade=settings["relevant_grade"],
        has_answer=has_answer,
        answered=answered,
    )
    manifest.write(outputs=[arguments.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
