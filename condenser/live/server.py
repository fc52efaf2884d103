"""The page of two systems side by side, for a browser on this machine.

The server listens on the loopback address alone and serves three things: `/` (the page), `/systems` (what can
be asked) and `/search` (one answer). A request must name this server as its host, come from its own page or
from none, and have the token of the address that was printed, which other users of this machine do not see.
(A cookie would be sent to their servers too, on other ports.) Its body has at most `MAX_BODY_BYTES`. The page
loads nothing from elsewhere: its Content-Security-Policy allows the script and the style that stand in it, by
their digests, and requests to this server.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import hmac
import json
import logging
import re
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from condenser.live.known import Asked, Known, NotReady
from condenser.live.systems import MAX_CHARACTERS, MAX_DEPTH, OpenSystems, check

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
USUAL_PORT = 8017
MAX_BODY_BYTES = 16_384
MAX_HEADER_BYTES = 16_384
MAX_CONNECTIONS = 64
DEADLINE_S = 20.0  # for the body of a request to arrive
MAX_TEXT = 5_000  # characters of a passage; a whole document would take the page
PAGE = Path(__file__).with_name("page.html")


def listen(port: int | None) -> socket.socket:
    """A socket on the loopback address; without a port the usual one, or one that is free.

    Raises:
        ValueError: the port is taken.
    """
    for one in (USUAL_PORT, 0) if port is None else (port,):
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((ADDRESS, one))
            opened.listen()  # before the address is shown
            return opened
        except (OSError, OverflowError) as error:
            opened.close()
            if getattr(error, "errno", None) == errno.EADDRINUSE and port is None:
                continue
            why = getattr(error, "strerror", None) or "the greatest is 65535"
            raise ValueError(f"port {one}: expected a free port ({why}). Choose another.") from error
    raise ValueError(f"{ADDRESS}: expected a free port, found none.")


def serve(
    known: Known,
    opened: socket.socket,
    *,
    on_start: Callable[[str], None],
    systems: OpenSystems | None = None,
) -> None:
    """Serve until the process is interrupted (Ctrl-C); `on_start` gets the page's address."""
    import uvicorn

    port, token = opened.getsockname()[1], secrets.token_urlsafe(32)
    with ThreadPoolExecutor(1, thread_name_prefix="search") as searching:
        server = uvicorn.Server(
            uvicorn.Config(
                application(known, port=port, token=token, searching=searching, systems=systems),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_graceful_shutdown=1,
            )
        )
        on_start(f"http://{ADDRESS}:{port}/?token={token}")
        try:
            server.run(sockets=[opened])
        except KeyboardInterrupt:  # uvicorn raises it again once it has shut down
            pass
        finally:
            searching.shutdown(wait=False, cancel_futures=True)


def application(
    known: Known,
    *,
    port: int,
    token: str,
    searching: ThreadPoolExecutor,
    systems: OpenSystems | None = None,
) -> ASGIApp:
    """The server's application; `searching` has one thread, in which all systems are opened and asked."""
    page, policy = _page()
    opened = systems or OpenSystems()

    async def show_page(request: Request) -> Response:
        return HTMLResponse(page)

    async def show_systems(request: Request) -> Response:
        return JSONResponse(_systems(known))

    async def search(request: Request) -> Response:
        try:
            async with asyncio.timeout(DEADLINE_S):
                body = await _body(request)
            asked, query, depth = _asked(known, body)
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(searching, opened.answer, asked, query, depth)
        except TimeoutError:
            said = f"request: expected its body within {DEADLINE_S:g} s."
            return JSONResponse({"error": said}, status_code=408, headers={"Connection": "close"})
        except _TooLarge as error:
            return JSONResponse({"error": str(error)}, status_code=413)
        except NotReady as error:  # that is an answer: a browser would log another status as a fault
            return JSONResponse({"error": error.reason, "command": error.command})
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except Exception:  # a defect of ours: the page says so, and the server goes on
            log.exception("a query failed")
            return JSONResponse({"error": "internal error: see the server's terminal"}, status_code=500)
        found = asdict(answer)
        for hit in found["hits"]:
            for part in ("title", "text"):
                if len(hit[part]) > MAX_TEXT:
                    hit[part] = hit[part][:MAX_TEXT] + "…"
        return JSONResponse(found)

    routes = [
        Route("/", show_page, methods=["GET"]),
        Route("/systems", show_systems, methods=["GET"]),
        Route("/search", search, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), port=port, token=token, policy=policy)


class _TooLarge(ValueError):
    """A request that is larger than the limits."""


class _Guard:
    """Refuses the requests of others, and puts the security headers on every response."""

    def __init__(self, inside: ASGIApp, *, port: int, token: str, policy: str) -> None:
        names = [ADDRESS, "localhost"]
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._query = f"token={token}".encode()
        self._inside = inside
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope["query_string"])
        inside = PlainTextResponse(f"{refusal}\n", status_code=403) if refusal else self._inside
        await inside(scope, receive, send_guarded)

    def _refusal(self, headers: Headers, query: bytes) -> str | None:
        """Why a request is refused; None if it is not."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return f"Host: expected {min(self._hosts)}, got another."  # a name of others that leads here
        if any(origin.lower() not in self._origins for origin in headers.getlist("origin")):
            return f"Origin: expected {min(self._origins)}, got another."
        # of a request from another page, also where it has no Origin
        if any(site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")):
            return "Sec-Fetch-Site: expected same-origin, got another."
        if not hmac.compare_digest(query, self._query):
            return "token: expected that of the address that make serve printed last. Open that address."
        return None


def _page() -> tuple[bytes, str]:
    """The page, and the policy that allows its own script and style, and requests to this server."""
    page = PAGE.read_text(encoding="utf-8")
    allowed = {}
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[tag] = f"'sha256-{digest}'"
    policy = (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.encode(), policy


async def _body(request: Request) -> Any:
    """The JSON of a request's body.

    Raises:
        ValueError: it is larger than `MAX_BODY_BYTES`, or is no JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ValueError("Content-Type: expected application/json, got another.")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise _TooLarge(
                    f"request: expected at most {MAX_BODY_BYTES:,} bytes, got more. "
                    f"A query has at most {MAX_CHARACTERS:,} characters."
                )
    except ClientDisconnect as error:
        raise ValueError("request: ended early") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("request: expected JSON, got something else.") from error


def _asked(known: Known, body: Any) -> tuple[Asked, str, int]:
    """System, query and depth of a request.

    Raises:
        ValueError: a field is missing, is of another type, or names nothing that is known.
    """
    expected = {"dataset": str, "system": str, "variant": str, "query": str, "depth": int}
    is_object = isinstance(body, dict) and body.keys() == expected.keys()
    if not is_object or any(type(body[name]) is not kind for name, kind in expected.items()):
        raise ValueError(
            f"request: expected the fields {', '.join(expected)} (depth a whole number, the others text)."
        )
    try:
        check(body["query"], body["depth"])
    except ValueError as error:
        raise (_TooLarge if len(body["query"]) > MAX_CHARACTERS else ValueError)(str(error)) from error
    return known.asked(body["dataset"], body["system"], body["variant"]), body["query"], body["depth"]


def _systems(known: Known) -> dict[str, Any]:
    """What the page offers: every system, and what keeps it from answering now."""
    offered = []
    for dataset in known.datasets:
        for system, variants in known.systems(dataset).items():
            for variant in variants:
                asked = known.asked(dataset, system, variant)
                state = asked.state()
                offered.append(
                    {
                        "dataset": dataset,
                        "system": system,
                        "variant": variant,
                        "kind": asked.kind,
                        "label": asked.label,
                        "ready": state is None,
                        "why": state,
                        "command": "" if state is None or asked.error else asked.command,
                    }
                )
    return {
        "systems": offered,
        "opens_with": {dataset: known.dataset(dataset).opens_with for dataset in known.datasets},
        "max_characters": MAX_CHARACTERS,
        "max_depth": MAX_DEPTH,
    }
