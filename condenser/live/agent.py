"""A finished search as tools for agents, by the Model Context Protocol: `make agent DATASET=mine`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from condenser.live.door import MAX_TEXT, VERSION
from condenser.live.known import Asked
from condenser.live.systems import OpenSystems

if TYPE_CHECKING:
    from fastmcp import FastMCP


def agents_server(asked: Asked, systems: OpenSystems) -> FastMCP:
    """A server of two tools, `search` and `fetch`. All calls run in one thread, as Java needs it."""
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError

    server: FastMCP = FastMCP(
        "condenser",
        instructions=f"Searches a collection of texts ({asked.name}). Cite passages by their id.",
        version=str(VERSION),
    )
    searching = ThreadPoolExecutor(1, thread_name_prefix="search")

    async def in_thread(call: Any, *given: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(searching, call, asked, *given)
        except ValueError as error:  # a line of ours
            raise ToolError(str(error)) from error

    @server.tool
    async def search(query: str, depth: int = 10) -> list[dict[str, Any]]:
        """The best passages for a question or some words, best first.

        Args:
            query: at most 1,000 characters, in the language of the texts.
            depth: how many passages, 1 to 100.
        """
        answer = await in_thread(systems.answer, query, depth)
        return [
            {
                **{"rank": hit.rank, "score": hit.score, "id": hit.passage_id or hit.doc_id},
                **{"document": hit.doc_id, "title": hit.title, "text": hit.text[:MAX_TEXT]},
            }
            for hit in answer.hits
        ]

    @server.tool
    async def fetch(id: str) -> dict[str, str]:
        """The whole passage with an id that a search gave."""
        passage = await in_thread(systems.passage, id)
        return {"id": passage.doc_id, "title": passage.title, "text": passage.text}

    return server
