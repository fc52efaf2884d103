"""How programs end: in one line, with their parent, and by signals; real processes."""

from __future__ import annotations

import getpass
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from condenser import program
from condenser.program import check_proxies, is_out_of_memory, printable


def test_a_stop_while_python_ends_says_nothing_odd() -> None:
    code = "import atexit, os, signal; from condenser import program; program.run(lambda: None); "
    code += "atexit.register(os.kill, os.getpid(), signal.SIGTERM)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


# Starts a child that is bound to it, tells the child's number, and waits for it.
PARENT = """
import signal, subprocess, sys
from condenser.program import bound
child = subprocess.Popen(bound(sys.argv[1:], number=signal.SIGKILL), stdout=subprocess.PIPE)
print(child.pid, child.stdout.readline().decode().strip(), flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the bond is Linux's")
def test_a_child_that_is_bound_to_its_parent_ends_with_it_though_it_is_killed(root: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, "/bin/sh", "-c", "echo $0 $1; exec sleep 60", "a b", "c"],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child, *said = parent.stdout.readline().split(maxsplit=1)
    try:
        assert said == ["a b c\n"]  # it has become the command, with its arguments as they were
        assert _is_alive(int(child))
    finally:
        parent.kill()
        parent.communicate()
    until = time.monotonic() + 10
    while _is_alive(int(child)):
        assert time.monotonic() < until, "the child outlives its parent"
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


FULL = """
import sys
from condenser import program

def torch_empty():
    import torch
    torch.empty(1 << 55, dtype=torch.uint8)

program.run(lambda: {"torch": torch_empty,
                          "python": lambda: bytearray(1 << 62),
                          "fault": lambda: 1 / 0}[sys.argv[1]]())
"""


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("torch", 1, r"error: out of memory: .*DefaultCPUAllocator.* Give this job more memory, or .*\n"),
        ("python", 1, r"error: out of memory: MemoryError\. Give this job more memory, or .*\n"),
        ("fault", 2, r"Traceback(.|\n)*internal error \(ZeroDivisionError\): division by zero\n"),
    ],
)
def test_memory_that_the_system_refuses_is_said_in_one_line_and_is_no_fault_of_ours(
    root: Path, what: str, status: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, what],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert re.fullmatch(said, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("said", "is_memory"),
    [
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("CUDA error: an illegal memory access was encountered", False),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`", False),
    ],
)
def test_memory_refused_outside_torchs_allocator_is_memory_too(said: str, is_memory: bool) -> None:
    """What the driver and cuBLAS take for themselves: torch.AcceleratorError, known by what it says."""
    assert is_out_of_memory(RuntimeError(said)) is is_memory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;t\x07\r\n\x9b1m\x7f", r"\x1b]0;t\x07\r\n\x9b1m\x7f"),
        ("\u202ea\u2066\u2028\ud800", r"\u202ea\u2066\u2028\ud800"),
        (
            "caf\u00e9 \u05e9\u05dc\u05d5\u05dd \u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f52c a\u00a0b",
            None,
        ),
    ],
)
def test_only_what_could_steer_a_terminal_is_escaped(text: str, shown: str | None) -> None:
    assert printable(text) == (shown or text)


@pytest.mark.parametrize(
    "statement", ["raise ValueError({})", "log.warning({})", "raise OSError(5, {})", "raise RuntimeError({})"]
)
def test_no_text_of_a_stranger_steers_the_terminal_and_no_password_of_a_proxy_is_said(
    root: Path, statement: str
) -> None:
    text = r"'no way by http://me:se:cr@et@proxy:3128/path \x1b[2J'"
    main = f"def main():\n    {statement.format(text)}\n"
    code = f"from condenser import program\nfrom condenser.program import log\n{main}program.run(main)\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    said = done.stderr
    assert r"no way by http://***@proxy:3128/path \x1b[2J" in said and "\x1b" not in said
    assert "et@" not in said.replace("***@", "") and "se:cr" not in said.partition("\n")[0]
    if "Runtime" not in statement:  # whose traceback shows the statement
        assert "se:cr" not in said


@pytest.mark.parametrize(
    "address",
    [*(f"http://someone:sec{mark}ret@proxy:1" for mark in " /#?\\"), "socks5://a:se/c@b:1", "a:se/c@b:1"],
)
def test_a_proxy_whose_password_would_be_cut_is_refused_without_it(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("https_proxy", address)
    with pytest.raises(ValueError, match="https_proxy: expected an address such as") as refused:
        check_proxies()
    assert "sec" not in str(refused.value) and "someone" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["proxy", "http://proxy:3128/", "http://me:a%2Fb@c:d@proxy:3128", "https://[::1]:3128", "h:1"]
)
def test_a_proxy_that_can_be_read_is_left_alone(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("https_proxy", address)
    monkeypatch.setenv("no_proxy", "localhost, .example")
    check_proxies()


@pytest.mark.parametrize("home", ["/proc/nothing", None])
def test_a_user_without_a_home_or_a_name_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    def no_entry(*_: object) -> NoReturn:
        raise KeyError

    monkeypatch.setattr(os, "environ", {"HOME": home} if home else {})
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    program.give_home(tmp_path / "home")
    assert Path.home() == tmp_path / "home" and Path.home().is_dir()
    assert getpass.getuser() == f"user{os.getuid()}"


def test_a_home_that_can_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path / "new"), "USER": "somebody"})
    program.give_home(tmp_path / "other")
    assert os.environ == {"HOME": str(tmp_path / "new"), "USER": "somebody"}


def test_models_in_a_home_that_can_only_be_read_stay_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "huggingface").mkdir(parents=True)
    (tmp_path / "cache" / "snakemake").touch()
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path / "cache"), "USER": "somebody"})
    program.give_home(tmp_path / "other")
    assert os.environ["HOME"] == str(tmp_path / "other")
    assert os.environ["HF_HOME"] == str(tmp_path / "cache" / "huggingface")
