"""Members of archives: those that are wanted, and only if the archive is whole."""

from __future__ import annotations

import gzip
import random
import tarfile
from pathlib import Path

import pytest
from official_files import write_tar

from condenser.data.archives import extract_tar_members


def read_tar(path: Path, names: list[str]) -> dict[str, bytes]:
    extracted = extract_tar_members(path, names, path.parent / "in" / "deep")
    assert all(file == path.parent / "in" / "deep" / name for name, file in extracted.items())
    return {name: file.read_bytes() for name, file in extracted.items()}


def test_wanted_members_are_written_under_our_names_and_nothing_is_written_elsewhere(tmp_path):
    members = {
        "x/one.txt": b"1" * 50_000,
        "../evil.txt": b"?",
        "/tmp/evil2.txt": b"?",
        "../../two.txt": b"22",
    }
    path = write_tar(tmp_path / "a.tar.gz", members)
    assert read_tar(path, ["two.txt", "one.txt"]) == {"one.txt": b"1" * 50_000, "two.txt": b"22"}
    names = sorted(file.name for file in tmp_path.rglob("*") if file.is_file())
    assert names == ["a.tar.gz", "one.txt", "two.txt"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, None])
def test_a_link_folder_or_device_in_place_of_a_wanted_member_is_none(tmp_path, kind):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("one" if kind else "two")
        info.type, info.linkname = kind or tarfile.REGTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="expected the members one, got none"):
        read_tar(path, ["one"])
    assert not (tmp_path / "in").exists()


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


def test_an_archive_cut_at_any_place_never_passes_nor_what_is_none(tmp_path):
    whole = write_tar(tmp_path / "a.tar.gz", {"one": bytes(range(256)) * 40, "two": b"2"}).read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for content in (b"<html>Not found</html>", *(whole[:length] for length in range(0, len(whole), 7))):
        cut.write_bytes(content)
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
