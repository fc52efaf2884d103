"""Measure how widely [CLS] attends in each layer of a model, on passages of a collection.

    python workflow_scripts/attention_entropy.py \\
        --spec '{"config": {"recipe": {"lengths": {"passage": 128}}, "compute": {...}, ...},
                 "wildcards": {"passages": "1000", "draw": "42", ...}, ...}' \\
        --model results/msmarco/systems/condenser-round1/seed42/model \\
        --tokens results/msmarco/tokens/backbone/collection.0-of-1.tokens.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt \\
        --output results/msmarco/systems/condenser-round1/seed42/attention_entropy.1000-seed42.json \\
        --manifest ....1000-seed42.json.manifest.json

Reads the model and all token shards. Writes the entropies of the passages that the file's name counts and
draws, as JSON, and the manifest. Settings: `recipe.lengths.passage`, `encode.batch_tokens`, `compute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, help="the token shards, in order")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--lengths", type=Path, help="lengths.json, where a length of the recipe is auto")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config, drawn = arguments.spec["config"], arguments.spec["wildcards"]

    from condenser.data.lengths import resolved
    from condenser.data.records import read_doc_ids
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.model.devices import set_up
    from condenser.model.untied import encoder_files
    from condenser.retrieve.attention import write_attention_entropies

    prefixes = [prefix_of(shard) for shard in arguments.tokens]
    files = [file for prefix in prefixes for file in shard_files(prefix)]
    lengths = [arguments.lengths] if arguments.lengths else []
    manifest = Manifest(
        arguments.manifest,
        arguments.spec,
        inputs=[*encoder_files(arguments.model), *files, arguments.doc_ids, *lengths],
    )
    compute = set_up(precision="fp32", **config["compute"])
    counts = write_attention_entropies(
        arguments.model,
        prefixes,
        read_doc_ids(arguments.doc_ids),
        arguments.output,
        num_passages=int(drawn["passages"]),
        seed=int(drawn["draw"]),
        max_tokens=resolved(config["recipe"]["lengths"], arguments.lengths)["passage"],
        batch_tokens=config["encode"]["batch_tokens"],
        device=compute.device,
    )
    manifest.write(outputs=[arguments.output], counts=counts, device=str(compute))


if __name__ == "__main__":
    program.run(main)
