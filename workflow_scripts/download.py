"""Download one official file, or take it from a mirror, and check it.

Reads the file of that name in the mirror folder (`downloads.mirror`, else CONDENSER_MIRROR), else from the
network; addresses and sums stand in condenser/data/official.py. Writes the file and the manifest; and, if
nobody publishes its sum, the SHA-256 of the first download, results/downloads/known/NAME.sha256.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from condenser.job import Job, run_job
from condenser.program import log


def main(job: Job) -> dict[str, Any]:
    from condenser.data.download import download
    from condenser.data.official import FIRST_SEEN, official_file

    file, options = job.output.file, job.options
    official = official_file(job.wildcards["file"])
    mirror = options.mirror or os.environ.get("CONDENSER_MIRROR")
    done = download(
        official.url,
        file,
        num_bytes=official.num_bytes,
        digest=official.digest,
        mirror=Path(mirror) if mirror else None,
        retries=options.retries,
        timeout_s=options.timeout_s,
        first_seen=file.parent / FIRST_SEEN / f"{file.name}.sha256",
    )
    log.info("%s: %s, attempts %d, resumed %d", *(done[k] for k in ("url", "from", "attempts", "resumed")))
    # how the bytes came belongs to the log: the manifest is the same for every run
    return {key: done[key] for key in ("url", "bytes", "digest")}


if __name__ == "__main__":
    run_job(main)
