"""Ask a finished system a new query: in the terminal, or with --serve on a page in a browser.

    make search DATASET=msmarco SYSTEM=cocondenser-round2 QUERY="how to invert a matrix"
    make serve
    snakemake --cores 1 ask

Reads what can be asked, which the rule `ask` writes, and of the systems that are asked the collection, the
model and the embeddings, or the index. Beside what can be asked it keeps the digests of these files; it
writes nothing else. Without a query it prints what can be asked. The page is served on this machine alone,
until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from condenser import program


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--known", type=Path, required=True, help="what can be asked, from the rule ask")
    parser.add_argument("--overlays", default="", help="CONFIG of make, for commands that are shown")
    parser.add_argument("--make-arguments", default="", help="SNAKEMAKE_ARGS, for commands that are shown")
    parser.add_argument("--dataset")
    parser.add_argument("--system")
    parser.add_argument("--variant", help="else the configuration's seed and all train queries")
    parser.add_argument("--query", help="at most 1,000 characters")
    parser.add_argument("--depth", type=int, default=10, help="passages shown, at most 100")
    parser.add_argument("--serve", action="store_true", help="serve the page")
    parser.add_argument("--port", type=int, help="of the page; else 8017, or a free one")
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here needs a network
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to trainings

    from condenser.files import sha256_file
    from condenser.live.systems import Known, OpenSystems
    from condenser.pipeline.remembered import Remembered

    remembered = Remembered(args.known.with_name("asked.digests.json"))

    def digest(file: Path) -> str:
        value: str = remembered.of(file, sha256_file)
        remembered.write()
        return value

    systems = OpenSystems(digest)
    known = Known(args.known, overlays=args.overlays, make_arguments=args.make_arguments)
    if args.serve:
        from condenser.live.server import listen, serve

        def started(address: str) -> None:
            print(f"Two systems side by side: {address} (Ctrl-C ends it)", flush=True)

        serve(known, listen(args.port), on_start=started, systems=systems)
    elif args.query is None:
        from condenser.live.terminal import shown_systems

        print("\n".join(map(program.printable, shown_systems(known))))
    else:
        from condenser.live.terminal import shown_answer

        if not args.dataset or not args.system:
            parser.error("a query needs --dataset and --system")
        asked = known.asked(args.dataset, args.system, args.variant or None)
        answer = systems.answer(asked, args.query, args.depth)
        lines = shown_answer(asked, answer, columns=shutil.get_terminal_size().columns)
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that is not UTF-8
        print("\n".join(map(program.printable, lines)))


if __name__ == "__main__":
    program.run(main)
