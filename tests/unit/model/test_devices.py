from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from condenser.model.devices import (
    Gpu,
    autocast,
    choose_device,
    choose_precision,
    claim_gpus,
    cpu_multiplies_bf16,
    make_deterministic,
    parse_gpus,
)

CPU = torch.device("cpu")
GPUS = [Gpu("GPU-a", 900), Gpu("GPU-b", 3), Gpu("GPU-c", 3)]


def test_names_that_are_no_device_or_precision_are_refused() -> None:
    with pytest.raises(ValueError, match=r"compute\.device: expected auto, cpu or cuda, got 'gpu'"):
        choose_device("gpu")
    with pytest.raises(ValueError, match=r"compute\.precision: .* got 'half'"):
        choose_precision("half", CPU)
    with pytest.raises(ValueError, match="expected fp32 or bf16 on a CPU, got fp16"):
        choose_precision("fp16", CPU)


def test_a_cpu_asked_for_is_a_cpu_and_a_precision_asked_for_is_kept() -> None:
    assert choose_device("cpu") == CPU
    assert [choose_precision(name, CPU) for name in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_gpu_asked_for_where_there_is_none_is_refused() -> None:
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


def test_autocast_multiplies_in_the_precision_asked_for() -> None:
    left = torch.ones(2, 2)
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(CPU, precision):
            assert (left @ left).dtype == dtype


def test_deterministic_mode_fixes_threads_and_kernels() -> None:
    before = torch.get_num_threads()
    try:
        make_deterministic(threads=2)
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def test_gpus_are_read_from_nvidia_smis_lines() -> None:
    listing = "GPU-5d6c, 512\nGPU-77aa, 0\n\n"
    assert parse_gpus(listing) == [Gpu("GPU-5d6c", 512), Gpu("GPU-77aa", 0)]
    assert parse_gpus("No devices were found\n") == []


def test_the_idlest_gpus_are_claimed_first(tmp_path: Path) -> None:
    claims = claim_gpus(GPUS, count=2, lock_folder=tmp_path)
    assert [gpu.uuid for gpu, _ in claims] == ["GPU-b", "GPU-c"]
    for _, file in claims:
        file.close()


CLAIM = """
import sys
from pathlib import Path
from condenser.model.devices import Gpu, claim_gpus
gpus = [Gpu("GPU-a", 900), Gpu("GPU-b", 3), Gpu("GPU-c", 3)]
claims = claim_gpus(gpus, count=1, lock_folder=Path(sys.argv[1]))
print(claims[0][0].uuid, flush=True)
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
        ((gpu, file),) = claim_gpus(GPUS, count=1, lock_folder=tmp_path)
        assert gpu.uuid == taken[1]
        file.close()
    finally:
        for child in jobs:
            child.kill()
            child.communicate(timeout=30)


def test_too_few_free_gpus_leave_none_claimed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 4 free, got 3 of 3"):
        claim_gpus(GPUS, count=4, lock_folder=tmp_path)
    claims = claim_gpus(GPUS, count=3, lock_folder=tmp_path)
    for _, file in claims:
        file.close()
