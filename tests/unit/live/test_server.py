"""The server's refusals, and the headers of whatever it sends. No socket: the application is called."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import uvicorn

from condenser.files import write_json
from condenser.live.door import VERSION
from condenser.live.known import Known
from condenser.live.server import (
    ADDRESS,
    FOLDER,
    MAX_BODY_BYTES,
    PAGES,
    TOKEN_VARIABLE,
    USUAL_PORT,
    application,
    listen,
    serve,
)

HOST = "127.0.0.1:8017"
TOKEN = "a-token-of-43-characters"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Calls the application as a server does."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(
        self,
        path: str = "/",
        *,
        method: str = "GET",
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        body: bytes = b"",
        pieces: int = 1,
        query: str = f"token={TOKEN}",
    ) -> Reply:
        given = list(headers.items()) if isinstance(headers, dict) else headers or []
        if not any(name == "host" for name, _ in given):
            given.append(("host", HOST))
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "server": (ADDRESS, 8017), "client": (ADDRESS, 1),
            "headers": [(name.encode(), value.encode()) for name, value in given],
        }  # fmt: skip
        step = max(1, -(-len(body) // pieces))
        parts = [body[start : start + step] for start in range(0, max(1, len(body)), step)]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self._app(scope, receive, send))
        of_reply = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], of_reply, b"".join(one.get("body", b"") for one in sent[1:]))

    def get(self, path: str, **parameters: Any) -> Reply:
        return self(path, query=urlencode([("token", TOKEN), *parameters.items()], doseq=True))

    def search(self, **changed: Any) -> Reply:
        fields = {"dataset": "mine", "system": "learnt", "variant": "seed42", "q": "words", "k": 10}
        return self.get("/search", **{**fields, **changed})

    def post(self, path: str, posted: Any, *, pieces: int = 1) -> Reply:
        body, json_type = json.dumps(posted).encode(), {"content-type": "application/json"}
        return self(path, method="POST", headers=json_type, body=body, pieces=pieces)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Of a server whose one system has not been trained."""
    embeddings = str(tmp_path / "{variant}" / "collection.0-of-1.npy")
    system = {
        "kind": "biencoder", "label": "<b>A learnt one</b>", "variant": "seed42", "pattern": r"seed\d+",
        "settings": {}, "files": {"embeddings": [embeddings]}, "variants": {"seed42": {"reasons": []}},
    }  # fmt: skip
    texts = {"collection": str(tmp_path / "c"), "doc_ids": str(tmp_path / "d"), "is_split": False}
    texts["judged_in"] = str(tmp_path / "mine")
    systems = {"opens_with": [["learnt", "seed42"]], "systems": {"learnt": system}}
    write_json(tmp_path / "known.json", {"datasets": {"mine": {**texts, **systems}}})
    known = Known.read(tmp_path / "known.json")
    with ThreadPoolExecutor(1) as searching:
        yield Client(application(known, port=8017, token=TOKEN, searching=searching))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_its_own_script_and_style_and_nothing_else(client: Client, path: str) -> None:
    reply = client(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", reply.body.decode(), flags=re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'" and "unsafe" not in reply.headers["content-security-policy"]


@pytest.mark.parametrize("name", [*PAGES.values(), "page.js", "page.css"])
def test_a_page_names_no_other_place_and_writes_no_markup(name: str) -> None:
    page = (FOLDER / name).read_text()
    assert not re.findall(r"(?:https?:)?//[\w.]", re.sub(r"^\s*//.*$", "", page, flags=re.M))
    ways = "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval\\(| style=| onclick="
    assert not re.findall(ways, page)


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/", f"token={TOKEN}", 200),
        ("/systems", f"token={TOKEN}", 200),
        ("/../../etc/passwd", f"token={TOKEN}", 404),
        ("/", "", 403),
    ],
)
def test_every_reply_has_the_security_headers(client: Client, path: str, query: str, status: int) -> None:
    reply = client(path, query=query)
    assert reply.status == status
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", [*PAGES, "/systems", "/search", "/passage", "/judging", "/pool", "/nothing"])
def test_the_guard_stands_before_every_path(client: Client, path: str, method: str) -> None:
    assert client(path, method=method, headers=[("host", "evil.example")]).status == 403
    assert client(path, method=method, query="token=another").status == 403


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "evil.example")],
        [("host", "evil.example:8017")],  # DNS rebinding: a name of others that leads to this machine
        [("host", "127.0.0.1")],
        [("host", "127.0.0.1:8018")],
        [("host", "127.0.0.1:8017.evil.example")],
        [("host", HOST), ("host", "evil.example")],
        [("host", HOST), ("origin", "http://evil.example")],
        [("host", HOST), ("origin", "null")],
        [("host", HOST), ("origin", "https://127.0.0.1:8017")],
        [("host", HOST), ("origin", "http://127.0.0.1:9999")],
        [("host", HOST), ("sec-fetch-site", "cross-site")],
        [("host", HOST), ("sec-fetch-site", "same-site")],
    ],
)
def test_requests_of_others_are_refused(client: Client, headers: list[tuple[str, str]]) -> None:
    assert client("/systems", headers=headers).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "LOCALHOST:8017"},
        {"host": HOST, "origin": "http://127.0.0.1:8017", "sec-fetch-site": "same-origin"},
        {"host": "localhost:8017", "origin": "http://localhost:8017"},
        {"host": HOST, "sec-fetch-site": "none"},
    ],
)
def test_its_own_page_and_a_typed_address_are_served(client: Client, headers: dict[str, str]) -> None:
    assert client("/systems", headers=headers).status == 200


@pytest.mark.parametrize(
    "query",
    [
        *("", "token=", "token", "token=another", f"token={TOKEN[:-1]}", f"token={TOKEN}x", f"Token={TOKEN}"),
        *(f"q=token={TOKEN}", f"q={TOKEN}&tokens={TOKEN}", f"token[]={TOKEN}"),
        *(f"token={TOKEN}&token=another", f"token=another&token={TOKEN}", "token=%FF%FE", "ü", "&" * 9000),
    ],
)
def test_who_has_not_the_address_that_was_printed_sees_nothing(client: Client, query: str) -> None:
    reply = client("/", query=query)
    assert reply.status == 403 and reply.body.startswith(b"token: expected that of the address")
    assert TOKEN.encode() not in reply.body


def test_a_program_gives_the_token_in_a_header(client: Client) -> None:
    given = {"authorization": f"Bearer {TOKEN}"}
    assert client("/systems", query="", headers=given).status == 200
    for other in ("Bearer another", f"Bearer {TOKEN}x", "Basic x"):
        assert client("/systems", query=f"token={TOKEN}", headers={"authorization": other}).status == 403
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")]
    assert client("/systems", headers=twice).status == 403


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a deadline of a second, in a process of its own."""
    known = tmp_path_factory.mktemp("served") / "known.json"
    write_json(known, {"datasets": {}})
    text = (
        "import sys; from pathlib import Path; import condenser.live.server as server\n"
        "from condenser.live.known import Known\n"
        "server.DEADLINE_S = 1.0\n"
        "say = lambda address: print(address, flush=True)\n"
        "server.serve(Known.read(Path(sys.argv[1])), server.listen(0), on_start=say)\n"
    )
    command = [sys.executable, "-c", text, str(known)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def test_each_start_has_a_token_of_its_own(serving: str) -> None:
    address, token = serving.split("?token=")
    assert len(token) >= 40
    with urllib.request.urlopen(f"{address}systems?token={token}") as reply:
        assert json.loads(reply.read())["systems"] == []
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{address}systems")


def test_a_body_that_does_not_arrive_is_ended_and_keeps_nobody_out(serving: str) -> None:
    address = urlsplit(serving)
    sent = (
        f"POST /judging?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n["
    )
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(sent.encode())
        while connection.recv(1 << 16):  # until the server ends it
            pass
    with urllib.request.urlopen(serving) as reply:
        assert reply.status == 200


def test_a_service_keeps_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "of the service")
    write_json(tmp_path / "known.json", {"datasets": {}})
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    said = list[str]()
    with listen(0) as opened:
        serve(Known.read(tmp_path / "known.json"), opened, on_start=said.append)
    assert said[0].endswith("/?token=of%20the%20service")
    with ThreadPoolExecutor(1) as searching:
        app = application(
            Known.read(tmp_path / "known.json"), port=8017, token="of the service", searching=searching
        )
    assert Client(app)("/", query="token=of%20the%20service").status == 200
    assert Client(app)("/", headers={"authorization": "Bearer of the service"}, query="").status == 200


def test_a_system_that_is_not_trained_comes_with_the_command(client: Client) -> None:
    reply = client.search()
    assert reply.status == 404 and reply.json["version"] == VERSION
    assert "is not trained and indexed yet" in reply.json["error"]
    assert reply.json["command"].startswith("make ") and "collection.0-of-1.npy" in reply.json["command"]
    (offered,) = client("/systems").json["systems"]
    assert not offered["ready"] and offered["command"] == reply.json["command"]


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("/search", {"system": "other"}, "expected a system"),
        ("/search", {"k": "ten"}, "k: expected a whole number, got 'ten'"),
        ("/search", {"k": "1000"}, "depth: expected 1 to 100"),
        ("/search", {"more": "1"}, "request: expected q, dataset, system, variant, k, each once, got 'more'"),
        ("/search", {"q": ["a", "b"]}, "each once, got 'q'"),
        ("/search", {"q": " "}, "query: expected words, got none"),
        ("/search", {"dataset": ""}, "dataset: expected one of mine, got none"),
        ("/search", {"dataset": "other"}, "expected a data set"),
        ("/passage", {}, "id: expected a value, got none"),
        ("/judging", {}, "dataset: expected a value, got none"),
        ("/pool", {"dataset": "mine", "id": "j9"}, "systems: expected one or more, got none"),
        (
            "/pool",
            {"dataset": "mine", "id": "j9", "systems": "learnt seed42"},
            "one that was added, got 'j9'",
        ),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_one_line(
    client: Client, path: str, given: dict[str, Any], said: str
) -> None:
    reply = client.search(**given) if path == "/search" else client.get(path, **given)
    assert reply.status == 400 and said in reply.json["error"] and "\n" not in reply.json["error"]


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/json", b"", "expected JSON"),
        ("application/json", b"\xff", "expected JSON"),
        ("application/json", b"[" * 9000, "expected JSON"),
        ("application/json", b"[]", "expected an object with dataset, queries"),
        ("application/json", b'{"dataset": "mine", "queries": "one"}', "expected an object with"),
        ("text/plain", b"{}", "Content-Type"),  # a form of another page
    ],
)
def test_what_is_no_object_of_json_is_refused(client: Client, kind: str, body: bytes, said: str) -> None:
    reply = client("/judging", method="POST", headers={"content-type": kind}, body=body)
    assert reply.status == 400 and said in reply.json["error"]


def test_a_query_of_too_many_characters_is_refused_with_the_limit(client: Client) -> None:
    reply = client.search(q="x" * 1001)
    assert reply.status == 413 and "at most 1,000 characters" in reply.json["error"]
    assert client.search(q="ü" * 1000).status == 404  # that is taken, by a system that is not made


def test_a_body_above_the_limit_is_refused_and_not_kept(client: Client) -> None:
    reply = client.post("/judging", {"dataset": "mine", "queries": ["x" * MAX_BODY_BYTES]}, pieces=10)
    assert reply.status == 413 and f"{MAX_BODY_BYTES:,} bytes" in reply.json["error"]


def test_queries_are_added_once_and_grades_need_a_pool(client: Client, tmp_path: Path) -> None:
    for _ in range(2):  # of two tabs
        reply = client.post("/judging", {"dataset": "mine", "queries": [" which  one ", "", "and that"]})
        assert [one["text"] for one in reply.json["queries"]] == ["which one", "and that"]
    given = {"dataset": "mine", "id": "j1", "systems": [], "grades": {"d1": 1}}
    reply = client.post("/pool", given)
    assert reply.status == 400 and "expected a text of j1's pool, got 'd1'" in reply.json["error"]
    for grade in (2, -1, True, "1", 1.0):
        reply = client.post("/pool", {**given, "grades": {"d1": grade}})
        assert reply.status == 400 and "grade: expected a whole number from 0 to 1" in reply.json["error"]
    assert len((tmp_path / "mine" / "qrels" / "judged.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client("/", method=method).status == 405


def test_it_listens_on_the_loopback_address_alone() -> None:
    with listen(0) as opened:
        assert opened.getsockname()[0] == "127.0.0.1"


def test_a_taken_port_that_was_asked_for_is_refused_and_the_usual_one_gives_way() -> None:
    with socket.socket() as other:
        other.bind((ADDRESS, 0))
        other.listen()
        with pytest.raises(ValueError, match="expected a free port"):
            listen(other.getsockname()[1])
    with pytest.raises(ValueError, match="65535"):
        listen(70000)
    with listen(None) as first, listen(None) as second:
        assert second.getsockname()[1] not in (0, USUAL_PORT, first.getsockname()[1])
