"""Arrays, JSON and lines of files; full disks, simulated by the system's limit on the size of a file."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from condenser import manifest
from condenser.data.download import _Part
from condenser.files import (
    atomic_folder,
    atomic_write,
    count_lines,
    load_npy,
    read_json,
    save_npy,
    write_json,
)
from condenser.pipeline.locks import join_folder
from condenser.retrieve.blocks import BlockFile, row_of_numbers
from condenser.train.checkpoint import StepLog, prepare_work_folder
from tests.small_files import small_files

ARRAYS = [np.arange(6.0).reshape(2, 3), np.zeros((0, 4), np.float32), np.arange(3) > 1]


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> tuple:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mapped", [True, False])
def test_what_was_written_comes_back(tmp_path: Path, array: np.ndarray, mapped: bool) -> None:
    save_npy(tmp_path / "array.npy", array)
    loaded = load_npy(tmp_path / "array.npy", mapped=mapped)
    assert (loaded.dtype, loaded.shape, loaded.tolist()) == (array.dtype, array.shape, array.tolist())


@pytest.mark.parametrize("mapped", [True, False])
def test_pickles_and_archives_of_arrays_are_refused_unread(tmp_path: Path, mapped: bool) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.array([Trap()], dtype=object), allow_pickle=True)
    for content in (path.read_bytes(), pickle.dumps(Trap())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"allow_pickle|Python objects"):
            load_npy(path, mapped=mapped)


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5000, b"", b"{", b"\xff", b"[1,\n2"]
)
def test_a_file_that_is_not_json_is_one_line_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"meta\.json:[12]: expected JSON, got something else") as caught:
        read_json(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_lines_are_counted_by_line_feeds_alone(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes("one\u2028still one\r\n\nthree".encode())
    assert count_lines(tmp_path / "lines") == 2
    (tmp_path / "long").write_bytes(b"x" * 3_000_000 + b"\n" + b"y\n" * 600_000)
    assert count_lines(tmp_path / "long") == 600_001


def write_bytes(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(bytes(5000))


def write_tensors(path: Path) -> None:
    with atomic_folder(path) as folder:
        safetensors.numpy.save_file({"weight": np.zeros(5000)}, folder / "model.safetensors")


def write_tokenizer(path: Path) -> None:
    words = {f"word{number}": number for number in range(500)}
    with atomic_folder(path) as folder:
        Tokenizer(WordPiece(words, unk_token="word0")).save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    "write", [write_bytes, write_tensors, write_tokenizer, lambda path: save_npy(path, np.zeros(5000))]
)
def test_a_full_disk_is_an_oserror_that_names_the_place_and_leaves_nothing_there(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    with pytest.raises(OSError, match=r"File too large") as caught, small_files(1000):
        write(tmp_path / "result")
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(tmp_path / "result")
    assert not list(tmp_path.iterdir())


def test_what_is_written_goes_to_no_link_that_waits_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may write, a link leads to a file of the user's."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in (".a.tsv.partial-", ".folder.partial-", ".folder.old-"):
        for number in (str(os.getpid()), "0" * 16):
            (tmp_path / f"{name}{number}").symlink_to(precious)
    write_json(tmp_path / "a.tsv", [1])
    for _ in range(2):
        with atomic_folder(tmp_path / "folder") as folder:
            (folder / "file").write_text("new")
    assert precious.read_text() == "precious" and (tmp_path / "folder" / "file").read_text() == "new"

    monkeypatch.setattr("condenser.files.secrets.token_hex", lambda count: "0" * 2 * count)  # foretold
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "a.tsv", 1)
    with pytest.raises(FileExistsError), atomic_folder(tmp_path / "folder"):
        pass
    assert precious.read_text() == "precious"


def test_files_of_known_names_that_are_continued_are_no_links(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    places = [".snakemake/machines", "b.npy", "b.sha256", "log.jsonl", "claims", "file.bin.part"]
    for place in places:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).symlink_to(precious)

    blocks = BlockFile(tmp_path, "b", row=row_of_numbers(1), bounds=[0, 1])
    for write in (
        lambda: join_folder(tmp_path / ".snakemake"),
        blocks.__enter__,
        lambda: StepLog(tmp_path / "log.jsonl", num_bytes=0),
        lambda: manifest._claim(tmp_path / "claims", tmp_path / "result"),
        lambda: _Part(tmp_path / "file.bin", "http://host/", "").open_at(0, None),
    ):
        with pytest.raises(ValueError, match=r"expected a file, got a link\. Remove it"):
            write()
    assert precious.read_text() == "precious"


def test_a_linked_partial_of_a_killed_process_is_removed_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / ".a.tsv.partial-1").symlink_to("precious")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".step").symlink_to("../precious")
    manifest._sweep(tmp_path / "a.tsv.manifest.json")
    prepare_work_folder(tmp_path / "work")
    assert (tmp_path / "precious").is_dir() and not (tmp_path / ".a.tsv.partial-1").is_symlink()
