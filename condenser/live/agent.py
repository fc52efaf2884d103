"""A finished search as tools for agents: the Model Context Protocol over standard input and output.

    python -m condenser.live.agent results/mine
    python -m condenser.live.agent results/mine --system bm25

The tool `search` gives the best passages for a query, `fetch` one passage whole. Nothing else is offered, and
nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condenser import program
from condenser.live.door import MAX_TEXT, VERSION
from condenser.notebook import Search

if TYPE_CHECKING:
    from fastmcp import FastMCP


def server_of(search: Search) -> FastMCP:
    """The two tools of a search. All calls run in one thread, as Java and the systems need it."""
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError

    server: FastMCP = FastMCP(
        "condenser",
        instructions=f"Searches a collection of texts ({search.name}). Cite passages by their id.",
        version=str(VERSION),
    )
    searching = ThreadPoolExecutor(1, thread_name_prefix="search")

    async def in_thread(call: Any, *given: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(searching, call, *given)
        except ValueError as error:  # one line of ours; others are not shown to the agent
            raise ToolError(str(error)) from error

    @server.tool(name="search")
    async def find(query: str, depth: int = 10) -> list[dict[str, Any]]:
        """The best passages for a question or some words, best first.

        Args:
            query: at most 1,000 characters, in the language of the texts.
            depth: how many passages, 1 to 100.
        """
        hits = await in_thread(search, query, depth)
        return [
            {
                **{"rank": hit.rank, "score": hit.score, "id": hit.passage_id or hit.doc_id},
                **{"document": hit.doc_id, "title": hit.title, "text": hit.text[:MAX_TEXT]},
            }
            for hit in hits
        ]

    @server.tool
    async def fetch(id: str) -> dict[str, str]:
        """The whole passage with an id that a search gave."""
        passage = await in_thread(search.passage, id)
        return {"id": passage.doc_id, "title": passage.title, "text": passage.text}

    return server


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m condenser.live.agent",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the results of a data set, such as results/mine")
    parser.add_argument("--system", help="else hybrid, or the first one that is ready")
    parser.add_argument("--variant", help="else the configuration's seed and all train queries")
    args = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here needs a network
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to others
    search = Search(args.folder, system=args.system, variant=args.variant)
    server_of(search).run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    program.run(main)
