"""Rerank the first hits of a run with a cross-encoder.

    python workflow_scripts/rerank.py \\
        --spec '{"config": {"depth": 1000, "recipe": {"lengths": {"query": 32, ...}}, ...}, ...}' \\
        --model results/msmarco/systems/rerank-backbone/seed42/model \\
        --candidates results/msmarco/systems/cocondenser-round2/seed42/run.dev.trec \\
        --collection-tokens results/msmarco/tokens/backbone/collection.0-of-1.tokens.npy \\
        --query-tokens results/msmarco/tokens/backbone/queries.dev.tokens.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt --queries results/msmarco/data/queries.dev.jsonl \\
        --work-folder results/.work/rerank-0123 \\
        --output results/msmarco/systems/rerank-backbone/seed42/run.dev.trec \\
        --manifest results/msmarco/systems/rerank-backbone/seed42/run.dev.trec.manifest.json

Reads the cross-encoder, the run, and the tokens and ids of passages and queries. Writes a TREC run and the
manifest. Finished blocks of pairs are kept in the work folder until the run is complete. Settings: `depth`,
`recipe.lengths`, `encode`, `compute`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--candidates", type=Path, required=True, help="the run")
    parser.add_argument("--collection-tokens", type=Path, nargs="+", required=True, help="all shards")
    parser.add_argument("--query-tokens", type=Path, required=True)
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--subset", type=Path, help="ids of the queries to rerank; else all")
    parser.add_argument("--lengths", type=Path, help="lengths.json, where a length of the recipe is auto")
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the reranked run")
    args = parser.parse_args(argv)
    config = args.spec["config"]
    work_folder = args.work_folder / args.output.name

    from condenser.data.lengths import resolved
    from condenser.data.subsets import read_subset
    from condenser.data.text_files import TextFiles
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.model.devices import set_up
    from condenser.retrieve.rerank import rerank

    prefixes = [prefix_of(file) for file in [*args.collection_tokens, args.query_tokens]]
    tokens = [file for prefix in prefixes for file in shard_files(prefix)]
    inputs = [args.model, args.candidates, *tokens, args.doc_ids, args.queries]
    if args.subset:
        inputs.append(args.subset)
    if args.lengths:
        inputs.append(args.lengths)
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)
    compute = set_up(**config["compute"])
    counts = rerank(
        args.model,
        args.candidates,
        args.output,
        TextFiles(prefixes[:-1], prefixes[-1], args.doc_ids, args.queries),
        subset=read_subset(args.subset) if args.subset else None,
        depth=config["depth"],
        lengths=resolved(config["recipe"]["lengths"], args.lengths, in_one_row=True),
        **config["encode"],
        compute=compute,
        work_folder=manifest.own_folder(work_folder),
        system=args.spec["wildcards"]["system"],
        is_split=config["dataset"]["split"] is not None,
    )
    manifest.write(outputs=[args.output], counts=counts, device=str(compute), work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
