from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from condenser.model import devices
from condenser.model.devices import (
    Compute,
    Gpu,
    choose_device,
    choose_precision,
    claim_gpus,
    claim_visible_gpus,
    cpu_multiplies_bf16,
    list_gpus,
    named_gpus,
    parse_gpus,
    set_up,
)

CPU = torch.device("cpu")
GPUS = [Gpu("GPU-a", 900), Gpu("GPU-b", 3), Gpu("GPU-c", 3)]


def test_float16_on_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="expected fp32 or bf16 on a CPU, got fp16"):
        choose_precision("fp16", CPU)


def test_an_explicit_device_and_precision_are_used() -> None:
    assert choose_device("cpu") == CPU
    assert [choose_precision(name, CPU) for name in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_cuda_without_a_gpu_is_refused() -> None:
    assert choose_device("auto") == CPU
    with pytest.raises(ValueError, match="expected a GPU, PyTorch finds none"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("flags", "has_bf16"),
    [
        ("fpu avx2 avx512f avx512_bf16 sse", True),
        ("fpu amx_bf16 amx_tile", True),
        ("fpu avx2 avx512f", False),
        ("fpu not_avx512_bf16x", False),
    ],
)
def test_bf16_of_a_processor_is_read_from_its_flags(flags: str, has_bf16: bool, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nbugs\t\t: avx512_bf16\nflags\t\t: {flags}\n")
    assert cpu_multiplies_bf16(cpuinfo) is has_bf16
    assert cpu_multiplies_bf16(tmp_path / "none") is False


def test_a_process_is_set_up_with_fixed_threads_and_kernels() -> None:
    before = torch.get_num_threads()
    try:
        compute = set_up(device="cpu", precision="bf16", threads=2)
        assert (compute.device, compute.precision, str(compute)) == (CPU, "bf16", "cpu bf16")
        with compute.autocast():
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def test_a_gpu_is_named_behind_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its first word the figure `costs` tells the hours of GPUs from those of processors."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    assert str(Compute(torch.device("cuda"), "bf16")) == "cuda bf16, NVIDIA H200"


def test_gpus_are_read_from_nvidia_smis_lines() -> None:
    listing = "GPU-5d6c, 512\nGPU-77aa, 0\n\n"
    assert parse_gpus(listing) == [Gpu("GPU-5d6c", 512), Gpu("GPU-77aa", 0)]
    assert parse_gpus("No devices were found\n") == []
    assert parse_gpus("GPU-5d6c, [N/A]\n") == [Gpu("GPU-5d6c", 0)]


# What a claim needs of torch is nothing; without it a process starts ten times as fast.
WITHOUT_TORCH = """
import sys, types
sys.modules["torch"] = types.ModuleType("torch")
"""
CLAIM = f"""{WITHOUT_TORCH}
from pathlib import Path
from condenser.model.devices import Gpu, claim_gpus
gpus = [Gpu("GPU-a", 900), Gpu("GPU-b", 3), Gpu("GPU-c", 3)]
claims = claim_gpus(gpus, count=1, lock_folder=Path(sys.argv[1]))
print(claims[0][0].name, flush=True)
sys.stdin.read()
"""


def test_two_jobs_never_claim_one_gpu_and_a_killed_job_lets_go(tmp_path: Path) -> None:
    """The claims of real processes; the third is killed and its GPU goes to the next."""

    def job() -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    jobs = [job() for _ in range(3)]
    try:
        taken = [child.stdout.readline().strip() for child in jobs]
        assert sorted(taken) == ["GPU-a", "GPU-b", "GPU-c"]
        with pytest.raises(ValueError, match="expected 1 free, got 0 of 3"):
            claim_gpus(GPUS, count=1, lock_folder=tmp_path)
        jobs[1].send_signal(signal.SIGKILL)
        jobs[1].wait(30)
        ((gpu, claim),) = claim_gpus(GPUS, count=1, lock_folder=tmp_path)
        assert gpu.name == taken[1]
        os.close(claim)
    finally:
        for child in jobs:
            child.kill()
            child.communicate(timeout=30)


def test_too_few_free_gpus_leave_none_claimed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 4 free, got 3 of 3"):
        claim_gpus(GPUS, count=4, lock_folder=tmp_path)
    claims = claim_gpus(GPUS, count=3, lock_folder=tmp_path)
    for _, claim in claims:
        os.close(claim)


@pytest.fixture
def three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of the three GPUs on which nobody has assigned any; gives the folder of their locks."""
    monkeypatch.setattr(devices, "list_gpus", lambda: GPUS)
    monkeypatch.setenv("CONDENSER_GPU_LOCKS", str(tmp_path))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")  # so that what the code sets is taken back
        monkeypatch.delenv(name)
    return tmp_path


def free(lock_folder: Path) -> list[str]:
    """The GPUs that another job could still claim."""
    found = []
    for gpu in GPUS:
        try:
            ((_, claim),) = claim_gpus([gpu], count=1, lock_folder=lock_folder)
        except ValueError:
            continue
        os.close(claim)
        found.append(gpu.name)
    return found


def test_a_gpu_is_claimed_before_cuda_starts_and_until_the_process_ends(three_gpus: Path) -> None:
    claim_visible_gpus(count=1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    gc.collect()  # nobody need hold anything
    assert free(three_gpus) == ["GPU-a", "GPU-c"]


@pytest.mark.parametrize(
    ("visible", "order", "claimed"),
    [
        ("0,2", None, ["GPU-c", "GPU-a"]),  # numbers are nvidia-smi's ...
        ("0,2", "FASTEST_FIRST", ["0", "2"]),  # ... unless somebody has told CUDA to count otherwise
        ("MIG-1,MIG-GPU-a/2/0", None, ["MIG-1", "MIG-GPU-a/2/0"]),
        ("0", None, ["0", "0"]),  # no more than asked for
        ("", None, ["", ""]),
    ],
)
def test_of_several_gpus_that_somebody_names_each_job_claims_one(
    three_gpus: Path, monkeypatch: pytest.MonkeyPatch, visible: str, order: str | None, claimed: list[str]
) -> None:
    if order is not None:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    for expected in claimed:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        claim_visible_gpus(count=1)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
    assert os.environ["CUDA_DEVICE_ORDER"] == (order or "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if "," in visible:
        with pytest.raises(ValueError, match="expected 1 free, got 0 of 2"):
            claim_visible_gpus(count=1)


def test_gpus_are_named_by_number_or_by_the_beginning_of_their_uuid() -> None:
    gpus = [Gpu(f"GPU-{number}{number}", 0) for number in range(12)]

    def named(visible: str, order: str = "PCI_BUS_ID") -> list[str]:
        return [gpu.name for gpu in named_gpus(gpus, visible, order=order)]

    assert named("1, GPU-7") == ["GPU-11", "GPU-77"]
    assert named("1, GPU-7, MIG-5", "FASTEST_FIRST") == ["1", "GPU-77", "MIG-5"]
    assert named("") == named("-1") == []
    assert named("3,-1,4") == named("3,12,4") == ["GPU-33"]


@pytest.mark.parametrize(
    ("program", "num_files", "num_gpus", "warning"),
    [
        (None, 2, 2, "No such file or directory"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", 2, 2, "status 9"),
        ("exec sleep 60", 2, 2, "no answer in 0.2 s"),
        ("echo No devices were found; exit 6", 1, 0, None),
        (None, 0, 0, None),
    ],
)
def test_if_nvidia_smi_fails_gpus_are_named_by_number(
    program: str | None,
    num_files: int,
    num_gpus: int,
    warning: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(num_files))):
        (tmp_path / name).touch()
    if program is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(devices, "DEVICE_FOLDER", tmp_path)
    monkeypatch.setattr(devices, "SMI_TIMEOUT_S", 0.2)
    assert list_gpus() == [Gpu(str(number), 0) for number in range(num_gpus)]
    expected = [f"nvidia-smi: {warning}: GPUs are claimed by number, whatever memory is in use"]
    assert [record.getMessage() for record in caplog.records] == (expected if warning else [])


def test_without_gpus_nothing_is_claimed(three_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "list_gpus", list)
    claim_visible_gpus(count=1)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ and not list(three_gpus.iterdir())


def test_jobs_with_temp_folders_of_their_own_never_take_one_gpu(
    three_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grid Engine and PBS give each job another TMPDIR."""
    program = f"{WITHOUT_TORCH}from condenser.model import devices; print(devices.LOCKS_DEFAULT)"
    environment = {**os.environ, "TMPDIR": str(three_gpus), "PYTHONPATH": str(Path(__file__).parents[3])}
    found = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert found.strip() == devices.LOCKS_DEFAULT
    names = [f"GPU-{letter}-{os.getpid()}" for letter in "ab"]
    monkeypatch.setattr(devices, "list_gpus", lambda: [Gpu(name, 0) for name in names])
    monkeypatch.delenv("CONDENSER_GPU_LOCKS")
    try:
        for name in names:
            monkeypatch.setenv("TMPDIR", str(three_gpus / name))
            monkeypatch.setattr(tempfile, "tempdir", None)  # which remembers another one
            (three_gpus / name).mkdir()
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
            claim_visible_gpus(count=1)
            assert os.environ["CUDA_VISIBLE_DEVICES"] == name
    finally:
        for lock in Path("/tmp").glob(f"condenser-GPU-[ab]-{os.getpid()}.*lock"):
            lock.unlink()


def test_a_gpu_that_somebody_fills_is_taken_last_and_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gpus = [Gpu("GPU-a", 40_000), Gpu("GPU-b", 900)]
    claims = claim_gpus(gpus, count=1, lock_folder=tmp_path)
    assert [gpu.name for gpu, _ in claims] == ["GPU-b"]
    assert not caplog.records
    claims += claim_gpus(gpus, count=1, lock_folder=tmp_path)
    assert "GPU GPU-a: others use 40000 MB of it, and no emptier GPU is free" in caplog.text
    for _, claim in claims:
        os.close(claim)


def test_workers_keep_their_gpus_when_their_launcher_was_killed(
    three_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = claim_gpus(GPUS[1:], count=2, lock_folder=three_gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-c")
    monkeypatch.setenv("LOCAL_RANK", "1")
    claim_visible_gpus(count=1)  # in a worker
    for _, claim in launcher:
        os.close(claim)
    assert free(three_gpus) == ["GPU-a"]


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A temp folder of all users: writable for all, each file for its owner alone."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("plant", ["pipe", "link", "socket"])
def test_what_is_no_file_under_a_locks_name_counts_as_claimed_and_is_not_waited_for(
    tmp_path: Path, plant: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In /tmp anybody may put it there."""
    place = tmp_path / "condenser-GPU-a.lock"
    if plant == "pipe":
        os.mkfifo(place)
    elif plant == "link":
        place.symlink_to(tmp_path / "other")
    else:
        with socket.socket(socket.AF_UNIX) as planted:
            planted.bind(str(place))
    (claimed,) = claim_gpus([Gpu("GPU-a", 0), Gpu("GPU-b", 5)], count=1, lock_folder=tmp_path)
    os.close(claimed[1])
    assert claimed[0].name == "GPU-b" and f"{place}: belongs to another user" in caplog.text
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_locks_of_another_user_count_and_do_not_fail(
    shared_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.umask(0o077)
    try:
        ((_, claim),) = claim_gpus(GPUS[:1], count=1, lock_folder=shared_folder)
    finally:
        os.umask(before)
    (shared_folder / "condenser-GPU-b.lock").touch(0o600)
    os.seteuid(65534)
    try:
        assert free(shared_folder) == ["GPU-c"]
        assert "condenser-GPU-b.lock: belongs to another user" in caplog.text
        os.close(claim)
        assert free(shared_folder) == ["GPU-a", "GPU-c"]
    finally:
        os.seteuid(0)
