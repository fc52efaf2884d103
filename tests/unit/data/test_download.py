"""Downloads from a real server on this machine that cuts, stalls, lies and changes its mind."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from job_files import do

from condenser.data.download import _Session, download, mirror_places
from condenser.data.official import OFFICIAL_FILES, official_file
from condenser.data.sources import dpr, msmarco_doc, squad
from condenser.papers.sources import nli, stsb, wikisection
from tests.small_files import small_files

CONTENT = random.Random(1).randbytes(300_000)
OTHER = bytes(len(CONTENT))
MD5 = hashlib.md5(CONTENT).hexdigest()
TAG = '"v1"'


@dataclass
class Behaviour:
    """What the server does with one request."""

    status: int | None = None  # answer with this status and no file
    cut_after: int | None = None  # close the connection after so many bytes
    stall_after: int | None = None  # fall silent after so many bytes
    content: bytes = CONTENT
    etag: str | None = TAG
    ranges: bool = True
    if_range: bool = True  # honours If-Range
    length: bool = True  # tells Content-Length
    shift: int = 0  # answers a range that begins so many bytes later
    total: int | None = None  # tells this length of the whole file with a range
    coding: str | None = None  # tells this Content-Encoding


@dataclass
class Server:
    url: str = ""
    script: list[Behaviour] = field(default_factory=list)  # one a request; the last stays
    requests: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that does as its script says."""
    state = Server()
    released = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer_empty(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            does = state.script.pop(0) if len(state.script) > 1 else state.script[0]
            state.requests.append(dict(self.headers))
            if does.status:
                self.answer_empty(does.status)
                return
            begin = 0
            asked = self.headers.get("Range")
            is_same = self.headers.get("If-Range") == does.etag or not does.if_range
            if asked and does.ranges and is_same:
                begin = int(asked.removeprefix("bytes=").rstrip("-")) + does.shift
                if begin >= len(does.content):
                    self.answer_empty(416)
                    return
                self.send_response(206)
                last = len(does.content) - 1
                self.send_header("Content-Range", f"bytes {begin}-{last}/{does.total or last + 1}")
            else:
                self.send_response(200)
            body = does.content[begin:]
            if does.length:
                self.send_header("Content-Length", str(len(body)))
            if does.etag:
                self.send_header("ETag", does.etag)
            if does.coding:
                self.send_header("Content-Encoding", does.coding)
            self.end_headers()
            limit = min(x for x in (does.cut_after, does.stall_after, len(body)) if x is not None)
            try:
                self.wfile.write(body[:limit])
                self.wfile.flush()
            except ConnectionError:
                return  # the client has seen enough
            if does.stall_after is not None:
                released.wait(5)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state.url = f"http://127.0.0.1:{http.server_port}/folder/file.bin"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    released.set()
    http.shutdown()
    http.server_close()
    thread.join()


def fetch(server: Server, path: Path, **changed):
    options = {
        **{"num_bytes": len(CONTENT), "digest": MD5, "mirror": None, "retries": 3, "wait_s": 0.001},
        "timeout_s": 1.5,  # a busy machine is silent for longer than 0.3 s
    }
    return download(server.url, path, **options | changed)


def assert_only(path: Path) -> None:
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == [path.name]


OLD = Behaviour(cut_after=9, content=OTHER, etag='"v0"')
NO_TAG = Behaviour(etag=None, if_range=False)
MENDED = {
    "whole": ([Behaviour()], 1, 0),
    "cut at once": ([Behaviour(cut_after=0), Behaviour()], 2, 0),
    "cut after a byte": ([Behaviour(cut_after=1), Behaviour()], 2, 1),
    "cut twice": ([Behaviour(cut_after=70_000), Behaviour(cut_after=100_000), Behaviour()], 3, 2),
    "cut before the last byte": ([Behaviour(cut_after=len(CONTENT) - 1), Behaviour()], 2, 1),
    "silent": ([Behaviour(stall_after=100_000), Behaviour()], 2, 1),
    "status 500": ([Behaviour(status=500), Behaviour(status=503), Behaviour()], 3, 0),
    "status 429": ([Behaviour(status=429), Behaviour()], 2, 0),
    "ranges ignored": ([Behaviour(cut_after=99_999), Behaviour(ranges=False)], 2, 0),
    "changed": ([OLD, Behaviour()], 2, 0),
    "changed, If-Range ignored": ([OLD, Behaviour(if_range=False), Behaviour()], 3, 0),
    "changed under the same tag": (
        [replace(OLD, cut_after=70_000, etag=TAG), Behaviour(), Behaviour()],
        3,
        1,
    ),
    "no tag": ([Behaviour(cut_after=70_000, etag=None), Behaviour(etag=None)], 2, 0),
    "no length, cut": ([Behaviour(cut_after=70_000, length=False), Behaviour(length=False)], 2, 1),
    "no tag with the rest": ([Behaviour(cut_after=70_000), NO_TAG, Behaviour()], 3, 0),
    "coding that is a mere name": ([Behaviour(coding="x-gzip")], 1, 0),
    "another range than asked": ([Behaviour(cut_after=70_000), Behaviour(shift=5), Behaviour()], 3, 0),
}


@pytest.mark.parametrize("case", MENDED)
def test_a_fault_that_can_be_mended_ends_in_the_right_file(server, tmp_path, case):
    server.script, attempts, resumed = list(MENDED[case][0]), MENDED[case][1], MENDED[case][2]
    done = fetch(server, tmp_path / "file.bin")
    assert_only(tmp_path / "file.bin")
    assert (done["attempts"], done["resumed"]) == (attempts, resumed)


@pytest.mark.parametrize("rest", [NO_TAG, Behaviour(total=400_000), replace(NO_TAG, total=400_000)])
def test_without_a_sum_no_rest_is_taken_that_does_not_show_its_version(server, tmp_path, rest):
    server.script = [Behaviour(cut_after=100_000, content=OTHER), rest, Behaviour()]
    done = fetch(server, tmp_path / "file.bin", digest=None)
    assert_only(tmp_path / "file.bin")
    assert (done["attempts"], done["resumed"]) == (3, 0)


def test_a_download_cut_at_any_byte_resumes_there_until_it_is_complete(server, tmp_path):
    draw = random.Random(2)
    for number in range(12):
        cuts = sorted(draw.sample(range(len(CONTENT)), 3))
        lengths = [cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1]]
        server.script = [*(Behaviour(cut_after=length) for length in lengths), Behaviour()]
        folder = tmp_path / str(number)
        assert fetch(server, folder / "file.bin")["resumed"] == 3
        assert_only(folder / "file.bin")


REFUSED = {
    "status 404": ([Behaviour(status=404)], r"expected the file, got HTTP status 404 .*mirror", 1),
    "status 403": ([Behaviour(status=403)], "got HTTP status 403", 1),
    "longer": ([Behaviour(content=CONTENT + b"x")], r"expected 300,000 bytes, got the offer of 300,001", 1),
    "shorter": ([Behaviour(content=CONTENT[:-1])], "got the offer of 299,999", 1),
    "longer than told": ([Behaviour(content=CONTENT + b"x", length=False)], "300,000 bytes, got more", 1),
    "other bytes": ([Behaviour(content=OTHER)], f"expected the MD5 {MD5}, got .*The file has changed", 1),
    "always cut": ([Behaviour(cut_after=0)], "within 4 attempts, got ", 4),
    "always 500": ([Behaviour(status=500)], "within 4 attempts, got HTTP status 500", 4),
    "always short": ([Behaviour(content=CONTENT[:-1], length=False, etag=None)], "got 299,999 bytes", 4),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_fault_that_cannot_be_mended_is_one_line_and_no_file(server, tmp_path, case):
    server.script, message, num_requests = list(REFUSED[case][0]), REFUSED[case][1], REFUSED[case][2]
    with pytest.raises(ValueError, match=message) as caught:
        fetch(server, tmp_path / "file.bin")
    assert "\n" not in str(caught.value) and str(caught.value).startswith(server.url)
    assert not (tmp_path / "file.bin").exists()
    assert len(server.requests) == num_requests
    if num_requests == 1:  # it is another file, or there is none: nothing is kept
        assert not list(tmp_path.iterdir())


def test_a_later_run_resumes_where_the_last_one_gave_up(server, tmp_path):
    server.script = [Behaviour(cut_after=200_000)]
    with pytest.raises(ValueError, match="What was received is kept"):
        fetch(server, tmp_path / "file.bin", retries=0)
    kept = (tmp_path / "file.bin.part").stat().st_size
    assert 0 < kept <= 200_000
    server.script = [Behaviour()]
    assert fetch(server, tmp_path / "file.bin")["resumed"] == 1
    assert server.requests[-1]["Range"] == f"bytes={kept}-"
    assert server.requests[-1]["If-Range"] == '"v1"'
    assert server.requests[-1]["X-Ms-Version"] == "2019-12-12"  # which Azure, the host of MS MARCO, wants
    assert_only(tmp_path / "file.bin")


def test_a_full_disk_is_an_error_that_names_the_part_and_the_download_resumes_later(server, tmp_path):
    server.script = [Behaviour()]
    with pytest.raises(OSError, match="File too large") as caught, small_files(100_000):
        fetch(server, tmp_path / "file.bin")
    assert caught.value.filename == str(tmp_path / "file.bin.part")
    assert len(server.requests) == 1  # to ask again would not help
    assert fetch(server, tmp_path / "file.bin")["resumed"] == 1
    assert_only(tmp_path / "file.bin")


@pytest.mark.parametrize("state", ["", "{", '{"url": 1}', '{"url": "http://other", "validator": "\\"v1\\""}'])
def test_a_part_of_an_unknown_version_or_of_another_address_is_downloaded_again(server, tmp_path, state):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    (tmp_path / "file.bin.part.json").write_text(state)
    server.script = [Behaviour()]
    assert fetch(server, tmp_path / "file.bin", digest=None)["resumed"] == 0
    assert_only(tmp_path / "file.bin")


def test_a_part_that_came_whole_before_the_end_is_checked_and_taken_without_asking(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    (tmp_path / "file.bin.part.json").write_text(json.dumps({"url": server.url, "validator": '"v1"'}))
    server.script = [Behaviour(status=404)]
    fetch(server, tmp_path / "file.bin")
    assert server.requests == []
    assert_only(tmp_path / "file.bin")


def test_a_host_that_cannot_be_reached_is_one_short_line(tmp_path):
    nobody = Server("http://127.0.0.1:9/file.bin")
    message = "expected 9 bytes within 2 attempts, got 0 bytes, then ConnectionError, NewConnectionError"
    with pytest.raises(ValueError, match=message) as caught:
        fetch(nobody, tmp_path / "file.bin", num_bytes=9, retries=1)
    assert len(str(caught.value)) < 300
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("num_bytes", [9, None])
@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere.invalid"])
def test_a_file_that_mirror_and_network_lack_is_refused_at_once_with_the_places(tmp_path, num_bytes, address):
    nobody, mirror = Server(f"http://{address}/folder/file.bin"), tmp_path / "mirror"
    with pytest.raises(ValueError, match="within 1 attempt, got ") as caught:
        fetch(nobody, tmp_path / "file.bin", num_bytes=num_bytes, mirror=mirror, retries=5, wait_s=60)
    places = f"{mirror}/{address}/folder/file.bin, {mirror}/folder/file.bin, {mirror}/file.bin."
    assert str(caught.value).endswith(f"put the file into the mirror, which has none of {places}")


def test_a_server_that_fails_is_asked_again_also_with_a_mirror(server, tmp_path):
    server.script = [Behaviour(status=500), Behaviour(cut_after=0), Behaviour()]
    assert fetch(server, tmp_path / "out" / "file.bin", mirror=tmp_path)["attempts"] == 3


@pytest.mark.parametrize("place", ["127.0.0.1/folder/file.bin", "folder/file.bin", "file.bin"])
def test_a_mirror_serves_a_file_by_host_path_or_name(tmp_path, place):
    file = tmp_path / "mirror" / place
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    nobody = Server("http://127.0.0.1/folder/file.bin")
    done = fetch(nobody, tmp_path / "out" / "file.bin", mirror=tmp_path / "mirror", retries=0)
    assert done["from"] == "mirror"
    assert_only(tmp_path / "out" / "file.bin")


@pytest.mark.parametrize(("content", "message"), [(CONTENT[:-1], "299,999"), (OTHER, "expected the MD5")])
def test_a_mirrors_file_is_checked_like_any_other(tmp_path, content, message):
    (tmp_path / "file.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        fetch(Server("http://127.0.0.1/file.bin"), tmp_path / "out" / "file.bin", mirror=tmp_path, retries=0)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_url_cannot_name_a_place_outside_the_mirror():
    for place in mirror_places("http://host/../%2e%2e/etc/../passwd", Path("/mirror")):
        assert place.is_relative_to("/mirror") and ".." not in place.parts


def test_the_official_files_are_those_that_the_sources_need():
    needed = {
        *("collectionandqueries.tar.gz", "marco.tar.gz", "qidpidtriples.train.full.2.tsv.gz"),
        *(msmarco_doc.DOCUMENTS, "2019qrels-pass.txt", dpr.PASSAGES, *dpr.RELEASED.values()),
        *(name for files in msmarco_doc.SPLITS.values() for name in files),
        *(name for files in dpr.FILES.values() for name in files.values()),
        *(stsb.FILE, wikisection.ARCHIVE, nli.FILE, *squad.OFFICIAL_ROWS),
    }
    assert set(OFFICIAL_FILES) == needed
    assert all(len(file.digest) in (32, 64) for file in OFFICIAL_FILES.values() if file.digest)
    documents = official_file("msmarco-docs.tsv.gz")
    assert -(-documents.num_bytes // 4096) * 4096 == 8_446_275_584  # blocks on disk, as users list it
    with pytest.raises(ValueError, match=r"expected one of the files .*, got 'passwd'"):
        official_file("passwd")


def test_the_program_takes_the_file_from_the_mirror_of_the_environment(tmp_path, monkeypatch):
    official = official_file("msmarco-test2019-queries.tsv.gz")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "msmarco-test2019-queries.tsv.gz").write_bytes(bytes(official.num_bytes))
    monkeypatch.setenv("CONDENSER_MIRROR", str(tmp_path / "mirror"))
    with pytest.raises(ValueError, match=f"expected the MD5 {official.digest}"):
        do(
            "download",
            wildcards={"file": "msmarco-test2019-queries.tsv.gz"},
            output={"file": tmp_path / "out", "manifest": tmp_path / "manifest.json"},
            options={"mirror": None, "retries": 0, "timeout_s": 1},
        )
    assert not (tmp_path / "manifest.json").exists()


def test_a_file_of_unpublished_length_is_as_long_as_the_server_says(server: Server, tmp_path: Path) -> None:
    unknown = {"num_bytes": None, "digest": None}
    server.script = [Behaviour(status=503), Behaviour(cut_after=1000), Behaviour()]
    done = fetch(server, tmp_path / "file.bin", **unknown)
    assert_only(tmp_path / "file.bin")
    assert (done["bytes"], done["attempts"], done["resumed"]) == (len(CONTENT), 3, 1)
    server.script = [Behaviour(length=False)]
    with pytest.raises(ValueError, match="expected the length of the file, got an answer without one"):
        fetch(server, tmp_path / "other.bin", **unknown)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "file.bin").write_bytes(CONTENT[:7])
    done = fetch(server, tmp_path / "third.bin", **unknown, mirror=tmp_path / "mirror")
    assert done["bytes"] == 7 and done["from"] == "mirror"


def test_a_redirect_from_https_to_http_is_refused():
    answer = requests.Response()
    answer.url, answer.status_code = "https://host/file.bin", 302
    for place in ("/other", "https://other/file.bin"):
        answer.headers["Location"] = place
        assert _Session().get_redirect_target(answer) == place
    answer.headers["Location"] = "http://other/file.bin"
    with pytest.raises(
        ValueError, match=r"/file\.bin: expected to stay with https, .* redirect to http://other"
    ):
        _Session().get_redirect_target(answer)


def test_a_file_without_a_published_sum_must_stay_as_it_was_first_seen(server, tmp_path):
    known = tmp_path / "known" / "file.bin.sha256"
    options = {"num_bytes": None, "digest": None, "first_seen": known}
    server.script = [Behaviour()]
    for _ in range(2):
        done = fetch(server, tmp_path / "file.bin", **options)
        assert done["digest"] is None  # none is published
        assert known.read_text() == f"{hashlib.sha256(CONTENT).hexdigest()}  file.bin\n"
        (tmp_path / "file.bin").unlink()
    server.script = [Behaviour(content=OTHER)]
    with pytest.raises(ValueError, match=f"got .*If it is right as it is now, delete {known}") as caught:
        fetch(server, tmp_path / "file.bin", **options)
    assert "\n" not in str(caught.value) and not (tmp_path / "file.bin").exists()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "file.bin").write_bytes(CONTENT[:7])
    with pytest.raises(ValueError, match=f"Copy it to the mirror again. If it is right .*, delete {known}"):
        fetch(server, tmp_path / "file.bin", **options, mirror=tmp_path / "mirror")
    known.write_text("7\n")
    with pytest.raises(ValueError, match=r"file.bin.sha256:1: expected a SHA-256 and a name, got '7"):
        fetch(server, tmp_path / "file.bin", **options)


def test_the_program_keeps_the_sum_of_a_file_that_has_none(tmp_path):
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "AllNLI.tsv.gz").write_bytes(CONTENT)
    downloads = tmp_path / "downloads"
    job = {
        "wildcards": {"file": "AllNLI.tsv.gz"},
        "output": {"file": downloads / "AllNLI.tsv.gz", "manifest": downloads / "AllNLI.manifest.json"},
        "options": {"mirror": tmp_path / "mirror", "retries": 0, "timeout_s": 1},
    }
    do("download", **job)
    (tmp_path / "mirror" / "AllNLI.tsv.gz").write_bytes(CONTENT[1:])
    with pytest.raises(ValueError, match=r"delete .*downloads/known/AllNLI.tsv.gz.sha256"):
        do("download", **job)
