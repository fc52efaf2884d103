"""Embed the passages of one token shard with a retriever.

    python workflow_scripts/encode.py \\
        --spec '{"config": {"recipe": {"lengths": {"passage": 128}}, ...}, ...}' \\
        --retriever results/msmarco/systems/condenser-round1/seed42/model --shard 0-of-2 \\
        --tokens results/msmarco/tokens/backbone/collection.0-of-2.tokens.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt --work-folder results/.work/encode-0123 \\
        --output results/msmarco/systems/condenser-round1/seed42/embeddings/collection.0-of-2.npy \\
        --manifest results/msmarco/systems/condenser-round1/seed42/embeddings/collection.0-of-2.manifest.json

Reads the retriever and the token shard, and the ids to name a passage in an error. Writes float32
[passage, dim] and the manifest. Finished blocks are kept in the work folder until the file is complete.
Settings: `recipe.lengths.passage`, `encode`, `compute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--retriever", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--tokens", type=Path, required=True, help="the token shard")
    parser.add_argument("--shard", required=True, help="for example 0-of-2")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--lengths", type=Path, help="lengths.json, where a length of the recipe is auto")
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.output.name

    from condenser.data.lengths import resolved
    from condenser.data.records import count_doc_ids, read_doc_ids
    from condenser.data.tokens import prefix_of, shard_files, shard_rows
    from condenser.model.devices import set_up
    from condenser.model.untied import encoder_files
    from condenser.retrieve.encode import encode_texts

    prefix = prefix_of(arguments.tokens)
    lengths = [arguments.lengths] if arguments.lengths else []
    manifest = Manifest(
        arguments.manifest,
        arguments.spec,
        inputs=[*encoder_files(arguments.retriever), *shard_files(prefix), arguments.doc_ids, *lengths],
    )
    compute = set_up(**config["compute"])
    first_row, _ = shard_rows(
        count_doc_ids(arguments.doc_ids), arguments.shard, multiple_of=config["encode"]["block_rows"]
    )
    counts = encode_texts(
        arguments.retriever,
        prefix,
        arguments.output,
        rows=None,
        role="passage",
        max_tokens=resolved(config["recipe"]["lengths"], arguments.lengths)["passage"],
        **config["encode"],
        compute=compute,
        work_folder=manifest.own_folder(work_folder),
        name_of_row=lambda row: f"passage {read_doc_ids(arguments.doc_ids)[first_row + row]}",
    )
    manifest.write(outputs=[arguments.output], counts=counts, device=str(compute), work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
