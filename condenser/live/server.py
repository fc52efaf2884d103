"""The pages for a browser on this machine, and the JSON behind them, which programs may ask too.

The server listens on the loopback address alone. `/` is the page of two systems side by side, `/judge` that
of judgements. These give JSON, with a `version`, and `error` where there is none (docs/service.md):

- `/systems`: what can be asked;
- `/search?q=...`: one answer; `dataset`, `system`, `variant` and `k` are optional;
- `/passage?id=...`: one passage;
- `/judging` and `/pool`: queries to judge, and the texts of one; posted to, they take queries and grades.

A request must name this server as its host, come from its own page or from none, and have the token, as
`token=` of the address or in the header `Authorization: Bearer`. Other users of this machine do not see it.
(A cookie would be sent to their servers too, on other ports.) A posted body has at most `MAX_BODY_BYTES`. The
pages load nothing from elsewhere: their Content-Security-Policy allows the script and the style that stand in
them, by their digests, and requests to this server.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from condenser.live.door import VERSION, Door, TooLarge
from condenser.live.known import Known, NotReady
from condenser.live.systems import OpenSystems

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
USUAL_PORT = 8017
MAX_BODY_BYTES = 262_144
MAX_HEADER_BYTES = 16_384
MAX_CONNECTIONS = 64
DEADLINE_S = 20.0  # for the body of a request to arrive
FOLDER = Path(__file__).parent
PAGES = {"/": "page.html", "/judge": "judge.html"}
TOKEN_VARIABLE = "CONDENSER_TOKEN"
"""The environment's token in place of one that is drawn at each start: of a service."""


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

    port, token = opened.getsockname()[1], os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
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
        on_start(f"http://{ADDRESS}:{port}/?token={quote(token, safe='')}")
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
    pages = {path: _page(name) for path, name in PAGES.items()}
    door = Door(known, systems or OpenSystems())

    async def show_page(request: Request) -> Response:
        page, policy = pages[request.url.path]
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    def json_of(*handlers: Callable[[Any], Any]) -> Callable[[Request], Awaitable[Response]]:
        """Answers a request by the handler of its parameters, or of its body where it is posted."""

        async def answer(request: Request) -> Response:
            try:
                if request.method == "POST":
                    async with asyncio.timeout(DEADLINE_S):
                        given, handler = await _body(request), handlers[-1]
                else:
                    given, handler = request.query_params.multi_items(), handlers[0]
                loop = asyncio.get_running_loop()
                found, status = await loop.run_in_executor(searching, handler, given), 200
            except TimeoutError:
                said = f"request: expected its body within {DEADLINE_S:g} s."
                found, status = {"error": said}, 408
            except TooLarge as error:
                found, status = {"error": str(error)}, 413
            except NotReady as error:
                found, status = {"error": error.reason, "command": error.command}, 404
            except (ValueError, OSError) as error:
                found, status = {"error": str(error)}, 400
            except Exception:  # a defect of ours: the page says so, and the server goes on
                log.exception("a request failed")
                found, status = {"error": "internal error: see the server's terminal"}, 500
            headers = {"Connection": "close"} if status == 408 else None
            return JSONResponse({"version": VERSION, **found}, status_code=status, headers=headers)

        return answer

    both = ["GET", "POST"]
    routes = [
        *(Route(path, show_page, methods=["GET"]) for path in pages),
        Route("/systems", json_of(door.systems), methods=["GET"]),
        Route("/search", json_of(door.search), methods=["GET"]),
        Route("/passage", json_of(door.passage), methods=["GET"]),
        Route("/judging", json_of(door.judging, door.add_queries), methods=both),
        Route("/pool", json_of(door.pool, door.grade), methods=both),
    ]
    return _Guard(Starlette(routes=routes), port=port, token=token)


class _Guard:
    """Refuses the requests of others, and puts the security headers on every response."""

    def __init__(self, inside: ASGIApp, *, port: int, token: str) -> None:
        names = [ADDRESS, "localhost"]
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._token = token.encode()
        self._inside = inside
        self._headers = {
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
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
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
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
        given = [value.removeprefix("Bearer ") for value in headers.getlist("authorization")]
        if not given:
            parts = (part.partition(b"=") for part in query.split(b"&"))
            given = [
                unquote_to_bytes(value).decode("latin-1") for name, _, value in parts if name == b"token"
            ]
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), self._token):
            return "token: expected that of the address that make serve printed last. Open that address."
        return None


def _page(name: str) -> tuple[bytes, str]:
    """A page, and the policy that allows its own script and style, and requests to this server."""
    page = (FOLDER / name).read_text(encoding="utf-8")
    for shared in ("page.css", "page.js"):
        page = page.replace(f"{{{{{shared}}}}}", (FOLDER / shared).read_text(encoding="utf-8"))
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
                raise TooLarge(
                    f"request: expected at most {MAX_BODY_BYTES:,} bytes, got more. Send less at a time."
                )
    except ClientDisconnect as error:
        raise ValueError("request: ended early") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("request: expected JSON, got something else.") from error
