"""Ask a finished system a new query: in the terminal, with --serve in a browser, with --agent by agents.

    make search QUERY="how to invert a matrix"
    make search DATASET=msmarco SYSTEM=cocondenser-round2 QUERY="how to invert a matrix"
    make serve
    make agent DATASET=msmarco
    make index TEXTS=../my/folder
    snakemake --cores 1 ask

Reads what can be asked, which the rule `ask` writes, and of the systems that are asked the collection, the
model and the embeddings, or the index. Where what can be asked is out of date, the command of --refresh runs
first. Beside it the program keeps the digests of the files that it opened. With --texts it writes
`results/NAME/texts/` and `results/NAME/index.yaml`. Without a query it prints what can be asked. The page is
served on this machine alone, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from condenser import program

if TYPE_CHECKING:
    from condenser.live.known import Known

DATASET = "msmarco"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--known", type=Path, required=True, help="what can be asked, from the rule ask")
    parser.add_argument("--refresh", help="the command that writes it, where it is out of date")
    parser.add_argument("--overlays", default="", help="CONFIG of make, for commands that are shown")
    parser.add_argument("--make-arguments", default="", help="SNAKEMAKE_ARGS, for commands that are shown")
    parser.add_argument("--dataset", help=f"else {DATASET}; without a query, all")
    parser.add_argument("--system", help="else hybrid, or the first one that is ready")
    parser.add_argument("--variant", help="else the configuration's seed and all train queries")
    parser.add_argument("--query", help="at most 1,000 characters")
    parser.add_argument("--depth", type=int, default=10, help="passages shown, at most 100")
    parser.add_argument("--files", action="store_true", help="print the files that a system needs, and end")
    texts = parser.add_argument_group("texts that become a new collection first")
    texts.add_argument(
        "--texts", help="a folder of .txt and .md, or a .jsonl, .csv or .tsv file with a header"
    )
    texts.add_argument("--name", default="", help="of the collection; else that of the folder or file")
    texts.add_argument("--title", default="", help="the column of titles; else found by its name")
    texts.add_argument("--text", default="", help="the column of texts; else found by its name")
    parser.add_argument("--serve", action="store_true", help="serve the page")
    parser.add_argument("--agent", action="store_true", help="be a tool of agents, by standard input (MCP)")
    parser.add_argument("--port", type=int, help="of the page; else 8017, or a free one")
    args = parser.parse_args()
    gc.set_threshold(200_000)  # what PyTorch's import makes all stays: collecting takes a seventh of the time
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here needs a network
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to trainings

    from condenser.files import sha256_file
    from condenser.live.known import DIGESTS, USUAL, Known
    from condenser.live.searchers import ORIGIN
    from condenser.live.systems import OpenSystems
    from condenser.pipeline.remembered import has_origin, remembered_by

    def read_known(*, anew: bool) -> Known:
        """What can be asked; what is named must be known."""
        if anew:
            done = subprocess.run(
                ["bash", "-c", args.refresh], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
            )
            if done.returncode:
                sys.stderr.buffer.write(done.stderr)
                sys.exit(done.returncode)
        known = Known.read(args.known, overlays=args.overlays, make_arguments=args.make_arguments)
        if args.system:
            known.asked(dataset, args.system, args.variant)
        elif args.dataset:
            known.systems(dataset)
        return known

    dataset, systems = (
        args.dataset or DATASET,
        OpenSystems(remembered_by(args.known.with_name(DIGESTS), sha256_file)),
    )
    origin, arguments = args.known.with_suffix(ORIGIN), [args.overlays, args.make_arguments]
    is_outdated = bool(args.refresh) and not (args.known.is_file() and has_origin(origin, arguments))
    try:
        known = read_known(anew=is_outdated)
    except ValueError:  # an unknown name
        if is_outdated or not args.refresh:
            raise
        known = read_known(anew=True)
    if args.texts:
        dataset = taken_texts(args, known)
        known = read_known(anew=True)
    if args.files:
        asked = known.asked(dataset, args.system or USUAL, args.variant)
        if asked.error:
            raise ValueError(f"{asked.name}: {asked.error}")
        print(*asked.needed(), sep="\n")
    elif args.serve:
        from condenser.live.server import listen, serve

        def started(address: str) -> None:
            print(f"Two systems side by side: {address} (Ctrl-C ends it)", flush=True)

        serve(known, listen(args.port), on_start=started, systems=systems)
    elif args.agent:
        from condenser.live.agent import agents_server

        asked = known.asked(dataset, args.system, args.variant) if args.system else known.usual(dataset)
        agents_server(asked, systems).run(transport="stdio", show_banner=False)
    elif not args.query:
        from condenser.live.terminal import shown_systems

        datasets = [args.dataset] if args.dataset else list(known.datasets)
        print("\n".join(map(program.printable, shown_systems(known, datasets))))
    else:
        from condenser.live.terminal import shown_answer

        asked = known.asked(dataset, args.system, args.variant) if args.system else known.usual(dataset)
        answer = systems.answer(asked, args.query, args.depth)
        lines = shown_answer(asked, answer, columns=shutil.get_terminal_size().columns)
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that is not UTF-8
        print("\n".join(map(program.printable, lines)), flush=True)
        os._exit(0)  # to let go of PyTorch and Java piece by piece takes half a second


def taken_texts(args: argparse.Namespace, known: Known) -> str:
    """The name of the collection that texts have become; says what was read and what was left out."""
    from condenser.data.own_texts import described, name_of, write_index_overlay

    source, results = Path(args.texts), Path("results")
    name = args.name or name_of(source)
    if name in known.datasets and not (results / name / "index.yaml").is_file():
        raise ValueError(f"NAME: {name} is a data set of the configuration. Give another: NAME=my-{name}.")
    count, left_out = write_index_overlay(
        source, results, name=name, title=args.title or None, text=args.text or None
    )
    megabytes = (results / name / "texts" / "corpus.jsonl").stat().st_size / 1e6
    print(f"{source}: {count:,} texts, {megabytes:.1f} MB: collection {name}", file=sys.stderr)
    if left_out:
        print(f"left out: {program.printable(described(left_out))}", file=sys.stderr)
    return name


if __name__ == "__main__":
    program.run(main)
