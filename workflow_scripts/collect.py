"""Turn a source's files into the canonical files of a data set, every row checked and counted.

    python workflow_scripts/collect.py --spec '{"config": {"dataset": {"source": "beir", "path": "../mine", \
"train_split": "train", "eval_split": "dev", "bad_rows": "strict"}}, ...}' \\
        --raw ../mine/corpus.jsonl ../mine/queries.jsonl ../mine/qrels/train.tsv ../mine/qrels/dev.tsv \\
        --output results/mine/data --manifest results/mine/data.manifest.json

The settings are the data set's block of the configuration. Reads what the source needs: the user's
files under `path`, installed packages, or the official files among `--raw`, known by their names.
Writes collection.jsonl, doc_ids.txt, queries.<split>.jsonl and qrels.<split>.tsv (of sentences:
items.<split>.jsonl), rejected.jsonl (the rows left out under bad_rows: skip), counts.json, and the
manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--raw", type=Path, nargs="*", default=[], help="the files it is made from")
    parser.add_argument("--output", type=Path, required=True, help="folder of the canonical files")
    arguments = parser.parse_args(argv)
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=arguments.raw)

    from condenser.data import sources

    counts = sources.collect(
        arguments.output, {path.name: path for path in arguments.raw}, arguments.spec["config"]["dataset"]
    )
    names = ["collection.jsonl", "doc_ids.txt", "rejected.jsonl", "counts.json"]
    names += sources.split_files(arguments.spec["config"]["dataset"])
    manifest.write(outputs=[arguments.output / name for name in names], counts=counts)


if __name__ == "__main__":
    program.run(main)
