"""Fine-tune a pre-trained backbone into a retriever.

    python workflow_scripts/retriever.py --spec '{"config": {"batch_size": 8, ...}, "seed": 42, ...}' \\
        --initial results/msmarco/models/cocondenser \\
        --collection-tokens results/msmarco/tokens/collection.0-of-1 \\
        --query-tokens results/msmarco/tokens/queries.train --doc-ids results/msmarco/data/doc_ids.txt \\
        --queries results/msmarco/data/queries.train.jsonl \\
        --examples results/msmarco/examples/bm25.jsonl results/msmarco/examples/cocondenser-round1.jsonl \\
        --output results/msmarco/models/cocondenser-round2 \\
        --work-folder results/.work/retriever-0123456789abcdef --checkpoint-every-s 300 \\
        --checkpoints-kept 2 --bad-loss-patience 0 \\
        --manifest results/msmarco/models/cocondenser-round2.manifest.json

Reads the pre-trained folder, the tokens of collection and train queries (by prefix) with their ids,
and one file of examples a system that negatives come from. Writes a Hugging Face folder with
`losses.jsonl` (one line a step) beside it, and the manifest. Settings: the config's block `finetune`
with this round's `epochs`, `query` and `passage` of the block `lengths`, `threads`, `device`,
`precision`.

Several processes: `torchrun --nproc-per-node 4 workflow_scripts/retriever.py ...` with the same flags;
the result is that of one process but for the order of additions. Stopped by SIGTERM or Ctrl-C, it
saves a checkpoint; started again with the same spec and inputs, it goes on from there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--collection-tokens", type=Path, nargs="+", required=True, help="all prefixes")
    parser.add_argument("--query-tokens", type=Path, required=True, help="prefix")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--examples", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser.data.tokens import shard_files
    from condenser.train.checkpoint import remove_checkpoints
    from condenser.train.finetune import train_retriever
    from condenser.train.machine import loop_settings, training_machine

    tokens = [file for prefix in [*args.collection_tokens, args.query_tokens] for file in shard_files(prefix)]
    manifest = program.Manifest(
        args.manifest,
        args.spec,
        inputs=[args.initial, *tokens, args.doc_ids, args.queries, *args.examples],
    )
    work_folder = manifest.own_folder(args.work_folder)
    with training_machine(
        device=config["device"], precision=config["precision"], threads=config["threads"]
    ) as machine:
        counts = train_retriever(
            args.examples,
            args.initial,
            args.output,
            collection_tokens=args.collection_tokens,
            query_tokens=args.query_tokens,
            doc_ids=args.doc_ids,
            queries=args.queries,
            query_length=config["query"],
            passage_length=config["passage"],
            batch_size=config["batch_size"],
            passages_per_query=config["passages_per_query"],
            rows_per_chunk=config["rows_per_chunk"],
            keep_graphs=True,
            epochs=config["epochs"],
            seed=args.spec["seed"],
            precision=machine.precision,
            work_folder=work_folder,
            processes=machine.processes,
            **loop_settings(
                config,
                fingerprint=manifest.fingerprint,
                checkpoint_every_s=args.checkpoint_every_s,
                checkpoints_kept=args.checkpoints_kept,
                bad_loss_patience=args.bad_loss_patience,
            ),
        )
        if machine.processes.is_first:
            manifest.write(outputs=[args.output], counts=counts, device=machine.device_name)
            remove_checkpoints(work_folder)


if __name__ == "__main__":
    program.run(main)
