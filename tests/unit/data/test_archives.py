"""Members of archives: only those wanted, only whole, never more than allowed."""

from __future__ import annotations

import gzip
import io
import random
import re
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from condenser.data.archives import extract_tar_members, open_gzip, tar_members

LIMIT = 1 << 20


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def read_tar(path: Path, names: list[str], *, limit: int = LIMIT) -> dict[str, bytes]:
    return {name: stream.read() for name, stream in tar_members(path, names, max_bytes=limit)}


def test_wanted_members_come_with_their_bytes_whatever_folder_they_lie_in(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", {"x/one.txt": b"1" * 50_000, "other": b"?", "./two.txt": b"22"})
    assert read_tar(path, ["two.txt", "one.txt"]) == {"one.txt": b"1" * 50_000, "two.txt": b"22"}


def test_a_member_may_be_left_half_read(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", {"one": b"abc" * 9999, "two": b"second"})
    first = {name: stream.readline(2) for name, stream in tar_members(path, ["one", "two"], max_bytes=LIMIT)}
    assert first == {"one": b"ab", "two": b"se"}


def test_members_are_written_under_our_names_and_nothing_is_written_elsewhere(tmp_path):
    path = write_tar(
        tmp_path / "a.tar.gz", {"../../out.txt": b"good", "../evil.txt": b"bad", "/tmp/evil2.txt": b"bad"}
    )
    (tmp_path / "in" / "deep").mkdir(parents=True)
    extracted = extract_tar_members(path, ["out.txt"], tmp_path / "in" / "deep", max_bytes=LIMIT)
    assert extracted["out.txt"] == tmp_path / "in" / "deep" / "out.txt"
    assert extracted["out.txt"].read_bytes() == b"good"
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["a.tar.gz", "out.txt"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_a_link_folder_or_device_in_place_of_a_wanted_member_is_refused(tmp_path, kind):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("one")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="expected 'one' to be a plain file"):
        extract_tar_members(path, ["one"], tmp_path / "out", max_bytes=LIMIT)
    assert not (tmp_path / "out").exists()


def test_what_is_written_never_passes_the_limit_and_goes_when_the_archive_is_cut(tmp_path):
    path = tmp_path / "a.tar.gz"
    write_tar(path, {"one": bytes(4 * LIMIT)})
    with pytest.raises(ValueError, match="at most 1,048,576 bytes unpacked"):
        extract_tar_members(path, ["one"], tmp_path / "out", max_bytes=LIMIT)
    assert not (tmp_path / "out").exists()
    write_tar(path, {"one": random.Random(1).randbytes(3 * LIMIT)})
    path.write_bytes(path.read_bytes()[: 2 * LIMIT])
    with pytest.raises(ValueError, match="damaged or shortened"):
        extract_tar_members(path, ["one"], tmp_path / "out", max_bytes=4 * LIMIT)
    assert list((tmp_path / "out").iterdir()) == []


def header(name: str, size: int = 0, *, kind: bytes = tarfile.REGTYPE, **attributes: str) -> bytes:
    """A member's header, in PAX where it has attributes, whose names have `_` for `.`."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    info.pax_headers = {key.replace("_", "."): value for key, value in attributes.items()}
    return info.tobuf(tarfile.PAX_FORMAT if attributes else tarfile.GNU_FORMAT)


def write_gzip(path: Path, *parts: bytes) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in (*parts, bytes(1024)):
            file.write(part)
    return path


def refusal(path: Path, *, name: str = "one", limit: int = LIMIT) -> str:
    """The message with which an archive is refused when this member is asked for."""
    with pytest.raises(ValueError, match=r"a\.tar\.gz: expected ") as caught:
        read_tar(path, [name], limit=limit)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    return str(caught.value)


SPARSE = {
    "GNU": header("x", kind=tarfile.GNUTYPE_SPARSE),
    "PAX 0.0": header("x", GNU_sparse_size="9", GNU_sparse_numblocks="1", GNU_sparse_offset="0"),
    "PAX 0.0, no number": header("x", GNU_sparse_size="many"),
    "PAX 0.1": header("x", GNU_sparse_map="0,1", GNU_sparse_size=str(4 << 30)),
    "PAX 0.1, no number": header("x", GNU_sparse_map="x,y"),
    "PAX 1.0": header("x", 512, GNU_sparse_major="1", GNU_sparse_minor="0") + b"1\n0\n1\n".ljust(1024, b"\0"),
    "PAX 1.0, no number": header("x", 512, GNU_sparse_major="1", GNU_sparse_minor="0") + b"abc\n".ljust(512),
    "PAX 1.0, cut": header("x", 512, GNU_sparse_major="1", GNU_sparse_minor="0") + b"9" * 512,
    "PAX 1.1": header("x", GNU_sparse_major="1", GNU_sparse_minor="1", GNU_sparse_realsize="2048"),
    "PAX for all": tarfile.TarInfo.create_pax_global_header({"GNU.sparse.map": "0,1"}) + header("x"),
}


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("name", ["one", "x"])
def test_a_sparse_member_is_refused_whether_it_is_wanted_or_not(tmp_path, kind, name):
    for before in (b"", header("one", 5) + b"hello".ljust(512, b"\0")):
        message = refusal(write_gzip(tmp_path / "a.tar.gz", before, SPARSE[kind]), name=name)
        assert "expected members without holes, got a sparse one" in message


def peak_bytes(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_map_of_a_sparse_member_is_not_read(tmp_path):
    first = header("x", 512, GNU_sparse_major="1", GNU_sparse_minor="0")
    path = write_gzip(tmp_path / "a.tar.gz", first, b"1000000\n", b"0\n" * 2_000_000)
    assert peak_bytes(lambda: refusal(path, limit=1 << 30)) < 5 << 20


def test_members_take_no_memory_however_many_there_are(tmp_path):
    wanted = header("one", 5) + b"hello".ljust(512, b"\0")
    path = write_gzip(tmp_path / "a.tar.gz", header("x") * 15_000, wanted)
    came = {}
    assert peak_bytes(lambda: came.update(read_tar(path, ["one"], limit=1 << 30))) < 5 << 20
    assert came == {"one": b"hello"}


def test_attributes_for_all_members_are_refused_before_they_fill_the_memory(tmp_path):
    attributes = [{f"key{number}": "x" * 100_000} for number in range(300)]
    headers = map(tarfile.TarInfo.create_pax_global_header, attributes)
    path = write_gzip(tmp_path / "a.tar.gz", *headers, header("one"))
    messages: list[str] = []
    assert peak_bytes(lambda: messages.append(refusal(path, limit=1 << 30))) < 10 << 20
    assert re.search(r"attributes of [\d,]+ characters", messages[0])


def attribute(record: bytes) -> bytes:
    """A PAX header of this record, which need not be one, and the member it is about."""
    return header("pax", len(record), kind=tarfile.XHDTYPE) + record.ljust(
        -(-len(record) // 512) * 512, b"\0"
    )


MALFORMED = {
    "an attribute of no length": attribute(b"9" * 5000 + b" path=x\n") + header("one"),
    "an unknown character set": attribute(b"22 hdrcharset=\xff\xff\xff\xff\xff\n") + header("one"),
    "a size below zero": attribute(b"11 size=-1\n") + header("one"),
    "headers of headers": attribute(b"") * 2000 + header("one"),
    "the end of the world": header("x", 8**20) + header("one"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_no_archive_holds_is_told_with_the_archives_name(tmp_path, kind):
    refusal(write_gzip(tmp_path / "a.tar.gz", MALFORMED[kind]))


@pytest.mark.parametrize(
    ("members", "names", "message"),
    [
        ({"a": b""}, ["a", "b"], "expected the members b, got none"),
        ({"x/a": b"1", "y/a": b"2"}, ["a"], "expected one member a, got a second, 'y/a'"),
    ],
)
def test_missing_or_doubled_members_are_told(tmp_path, members, names, message):
    with pytest.raises(ValueError, match=message):
        read_tar(write_tar(tmp_path / "a.tar.gz", members), names)


def test_an_archive_that_unpacks_to_more_than_allowed_is_stopped_whichever_member_is_large(tmp_path):
    for names in (["small"], ["large"]):
        path = write_tar(tmp_path / "a.tar.gz", {"large": bytes(4 * LIMIT), "small": b"1"})
        with pytest.raises(ValueError, match="expected at most 1,048,576 bytes unpacked, got more"):
            read_tar(path, names)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused_unread(tmp_path, kind):
    path = tmp_path / "a.tar.gz"
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, 64 << 20
    with gzip.open(path, "wb", compresslevel=1) as archive:
        archive.write(info.tobuf(tarfile.USTAR_FORMAT))
        archive.write(bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"a\.tar\.gz: expected a complete archive.*a header of 67,108,864 bytes"
    ):
        read_tar(path, ["one"], limit=1 << 30)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_an_archive_cut_at_any_place_never_passes(tmp_path):
    whole = write_tar(tmp_path / "a.tar.gz", {"one": bytes(range(256)) * 40, "two": b"2"}).read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for length in range(0, len(whole), 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.tar\.gz: expected"):
            read_tar(cut, ["one"])


def test_a_changed_byte_is_found_by_the_checksum_or_changes_nothing(tmp_path):
    content = b"abcdefgh" * 4
    whole = write_tar(tmp_path / "a.tar.gz", {"one": content, "two": b"2"}).read_bytes()
    changed = tmp_path / "changed.tar.gz"
    after_header = whole.index(b"\0", 10) + 1  # the name in gzip's header is covered by no sum
    num_refused = 0
    for place in range(after_header, len(whole)):
        changed.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
        try:
            came = read_tar(changed, ["one"])
        except ValueError:
            num_refused += 1
        else:
            assert came == {"one": content}  # some bits of a deflate stream mean nothing
    assert num_refused > 0.9 * (len(whole) - after_header)


def test_a_gzip_file_is_streamed_and_its_cut_form_refused(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000))
    with open_gzip(path, max_bytes=LIMIT) as stream:
        assert sum(1 for _ in stream) == 1000
    path.write_bytes(path.read_bytes()[:-9])
    with (
        pytest.raises(ValueError, match=r"a\.gz: expected a complete archive"),
        open_gzip(path, max_bytes=LIMIT) as stream,
    ):
        stream.read()


def test_a_file_that_is_no_archive_is_told(tmp_path):
    (tmp_path / "page.tar.gz").write_bytes(b"<html>Not found</html>")
    with pytest.raises(ValueError, match=r"page\.tar\.gz: expected a complete archive"):
        read_tar(tmp_path / "page.tar.gz", ["one"])
