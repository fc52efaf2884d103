"""Index a collection for BM25.

    python workflow_scripts/bm25_index.py --spec '{"wildcards": {"index": "index-de", ...}, ...}' \\
        --collection results/msmarco/data/collection.jsonl --threads 2 --heap-mb 1000 \\
        --output results/msmarco/bm25/index-de --manifest results/msmarco/bm25/index-de.manifest.json

Reads the collection; writes a Lucene index (a folder) and the manifest. The wildcard `index` names
the language (`condenser.systems.bm25`): index for English, index-de for German.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True, help="changes no result")
    parser.add_argument("--heap-mb", type=int, required=True, help="memory Java may use; changes no result")
    parser.add_argument("--output", type=Path, required=True, help="folder of the index")
    arguments = parser.parse_args(argv)
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=[arguments.collection])

    from condenser.retrieve.bm25 import index_collection, language_of

    counts = index_collection(
        arguments.collection,
        arguments.output,
        language=language_of(arguments.spec["wildcards"]["index"]),
        threads=arguments.threads,
        heap_mb=arguments.heap_mb,
    )
    manifest.write(outputs=[arguments.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
