"""Fetch one official file, checked by length and MD5; an interrupted download goes on where it ended.

    python workflow_scripts/download.py --spec '{"wildcards": {"file": "qrels.train.tsv"}, ...}' \\
        --output results/downloads/qrels.train.tsv --mirror /data/mirror --retries 5 --timeout-s 60 \\
        --manifest results/downloads/qrels.train.tsv.manifest.json

Reads the file of that name in the mirror folder (`--mirror`, else CONDENSER_MIRROR), else from the
network; addresses and sums stand in condenser/data/official.py. Writes the file and the manifest;
and, if nobody publishes its sum, the SHA-256 of the first download, results/downloads/known/NAME.sha256.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--mirror", required=True, help="a folder, or an empty text for none")
    parser.add_argument("--retries", type=int, required=True, help="attempts after the first")
    parser.add_argument("--timeout-s", type=float, required=True, help="how long the server may be silent")
    arguments = parser.parse_args(argv)
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=[])

    from condenser.data.download import download
    from condenser.data.official import FIRST_SEEN, official_file

    official = official_file(arguments.spec["wildcards"]["file"])
    mirror = arguments.mirror or os.environ.get("CONDENSER_MIRROR")
    done = download(
        official.url,
        arguments.output,
        num_bytes=official.num_bytes,
        digest=official.digest,
        mirror=Path(mirror) if mirror else None,
        retries=arguments.retries,
        timeout_s=arguments.timeout_s,
        first_seen=arguments.output.parent / FIRST_SEEN / f"{arguments.output.name}.sha256",
    )
    program.log.info(
        "%s: %s, attempts %d, resumed %d", *(done[k] for k in ("url", "from", "attempts", "resumed"))
    )
    # how the bytes came belongs to the log: the manifest is the same for every run
    manifest.write(outputs=[arguments.output], counts={key: done[key] for key in ("url", "bytes", "digest")})


if __name__ == "__main__":
    program.run(main)
