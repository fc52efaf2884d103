"""Tell how similar the sentences of pairs or triplets are, by the mean of their words' vectors.

    python workflow_scripts/word_similarities.py \\
        --spec '{"config": {"dataset": {"source": "stsb", ...}, ...}, ...}' \\
        --vectors ../glove.840B.300d.txt --items results/stsb/data/items.test.jsonl \\
        --output results/stsb/systems/glove/untrained/similarities.test.tsv \\
        --manifest results/stsb/systems/glove/untrained/similarities.test.tsv.manifest.json

Reads the user's file of vectors and the items of a split. Writes for each item its id and its similarities
(of a pair the cosine, of a triplet minus the two distances from the anchor), and the manifest, which counts
the words found and the sentences without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--vectors", type=Path, required=True, help="a word and its numbers in each line")
    parser.add_argument("--items", type=Path, required=True, help="items.SPLIT.jsonl")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.data import sources
    from condenser.retrieve.similarities import write_word_similarities

    manifest = Manifest(args.manifest, args.spec, inputs=[args.vectors, args.items])
    task = sources.task(args.spec["config"]["dataset"])
    assert task is not None
    counts = write_word_similarities(args.vectors, args.items, args.output, task=task)
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
