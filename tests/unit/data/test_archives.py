"""Members of archives: those that are wanted, and only if the archive is whole."""

from __future__ import annotations

import gzip
import random
import tarfile
from pathlib import Path

import pytest
from official_files import write_tar

from condenser.data.archives import extract_tar_members, open_gzip, tar_members


def read_tar(path: Path, names: list[str]) -> dict[str, bytes]:
    return {name: stream.read() for name, stream in tar_members(path, names)}


def test_wanted_members_come_with_their_bytes_whatever_folder_they_lie_in(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", {"x/one.txt": b"1" * 50_000, "other": b"?", "./two.txt": b"22"})
    assert read_tar(path, ["two.txt", "one.txt"]) == {"one.txt": b"1" * 50_000, "two.txt": b"22"}


def test_a_member_may_be_left_half_read(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", {"one": b"abc" * 9999, "two": b"second"})
    first = {name: stream.readline(2) for name, stream in tar_members(path, ["one", "two"])}
    assert first == {"one": b"ab", "two": b"se"}


def test_members_are_written_under_our_names_and_nothing_is_written_elsewhere(tmp_path):
    path = write_tar(
        tmp_path / "a.tar.gz", {"../../out.txt": b"good", "../evil.txt": b"bad", "/tmp/evil2.txt": b"bad"}
    )
    (tmp_path / "in" / "deep").mkdir(parents=True)
    extracted = extract_tar_members(path, ["out.txt"], tmp_path / "in" / "deep")
    assert extracted["out.txt"] == tmp_path / "in" / "deep" / "out.txt"
    assert extracted["out.txt"].read_bytes() == b"good"
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["a.tar.gz", "out.txt"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_link_folder_or_device_in_place_of_a_wanted_member_is_refused(tmp_path, kind):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("one")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="expected 'one' to be a regular file"):
        extract_tar_members(path, ["one"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_member_of_an_archive_that_is_cut_is_not_kept(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", {"one": random.Random(1).randbytes(3 << 20)})
    path.write_bytes(path.read_bytes()[: 2 << 20])
    with pytest.raises(ValueError, match="damaged or shortened"):
        extract_tar_members(path, ["one"], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_was_shortened_before_it_was_compressed_never_passes(tmp_path):
    whole = write_tar(tmp_path / "a.tar.gz", {"one": bytes(50_000)}).read_bytes()
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:20_000]))
    with pytest.raises(ValueError, match=r"a\.tar\.gz: expected a complete archive"):
        read_tar(path, ["one"])


@pytest.mark.parametrize(
    ("members", "names", "message"),
    [
        ({"a": b""}, ["a", "b"], "expected the members b, got none"),
        ({"x/a": b"1", "y/a": b"2"}, ["a"], "expected one member a, got a second, 'y/a'"),
    ],
)
def test_missing_or_doubled_members_are_named(tmp_path, members, names, message):
    with pytest.raises(ValueError, match=message):
        read_tar(write_tar(tmp_path / "a.tar.gz", members), names)


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
    with open_gzip(path) as stream:
        assert sum(1 for _ in stream) == 1000
    path.write_bytes(path.read_bytes()[:-9])
    with (
        pytest.raises(ValueError, match=r"a\.gz: expected a complete archive"),
        open_gzip(path) as stream,
    ):
        stream.read()


def test_a_file_that_is_not_an_archive_is_refused(tmp_path):
    (tmp_path / "page.tar.gz").write_bytes(b"<html>Not found</html>")
    with pytest.raises(ValueError, match=r"page\.tar\.gz: expected a complete archive"):
        read_tar(tmp_path / "page.tar.gz", ["one"])
