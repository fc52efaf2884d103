"""Export a retriever for other libraries, and see that they rank with it as this workflow does.

    python workflow_scripts/export.py \\
        --spec '{"config": {"recipe": {"lengths": {"query": 32, "passage": 128}}, ...}, ...}' \\
        --retriever results/msmarco/systems/condenser-round1/seed42/model \\
        --embeddings results/msmarco/systems/condenser-round1/seed42/embeddings/collection.0-of-1.npy \\
        --collection results/msmarco/data/collection.jsonl --doc-ids results/msmarco/data/doc_ids.txt \\
        --counts results/msmarco/data/counts.json --queries results/msmarco/data/queries.dev.jsonl \\
        --qrels results/msmarco/data/qrels.dev.tsv \\
        --metrics results/msmarco/systems/condenser-round1/seed42/metrics.dev.json \\
        --output results/msmarco/systems/condenser-round1/seed42/export \\
        --manifest results/msmarco/systems/condenser-round1/seed42/export.manifest.json

Reads the retriever, the stored vectors, the texts and, where queries are judged, judgements and metrics.
Writes the folder that docs/using.md describes, complete or not at all, and the manifest. Fails where a
library ranks otherwise. Settings: `dataset.split`, `recipe.lengths`, `encode`, `compute.threads`,
`significance`, and `system` for the model card.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--retriever", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--embeddings", type=Path, nargs="+", required=True, help="all shards, in order")
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--counts", type=Path, required=True, help="counts.json of the data set")
    parser.add_argument("--queries", type=Path, help="of the evaluation split; without, the first passages")
    parser.add_argument("--qrels", type=Path)
    parser.add_argument("--metrics", type=Path)
    parser.add_argument("--lengths", type=Path, required=True, help="lengths.json")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    args = parser.parse_args(argv)

    from condenser.export import refuse_missing_packages
    from condenser.model.untied import QUERY_FOLDER, encoder_files

    refuse_missing_packages()
    given = [file for file in (args.queries, args.qrels, args.metrics) if file is not None]
    encoders = [*encoder_files(args.retriever), args.retriever / QUERY_FOLDER]
    inputs = [file for file in encoders if file.exists()]
    inputs += [*args.embeddings, args.collection, args.doc_ids, args.counts, args.lengths, *given]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.data.lengths import resolved
    from condenser.export.agreement import Searched
    from condenser.export.card import facts_of
    from condenser.export.export import export_retriever

    config = args.spec["config"]
    counts = export_retriever(
        args.retriever,
        args.output,
        Searched(
            args.embeddings,
            args.collection,
            args.doc_ids,
            args.queries,
            args.qrels,
            is_split=config["dataset"]["split"] is not None,
        ),
        facts=facts_of(
            args.spec, args.retriever, counts=args.counts, metrics=args.metrics, lengths=args.lengths
        ),
        lengths=resolved(config["recipe"]["lengths"], args.lengths),
        encode=config["encode"],
        threads=config["compute"]["threads"],
        significance=config["significance"],
    )
    manifest.write(outputs=[args.output], counts=counts, device="cpu fp32")


if __name__ == "__main__":
    program.run(main)
