"""What computes, and how exactly: device, precision, determinism, free GPUs."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Compute:
    """What a process computes on: a device, and "fp32", "bf16" or "fp16" of its matrix products."""

    device: torch.device
    precision: str

    def __str__(self) -> str:
        """For manifests, such as `cpu fp32` and `cuda bf16, NVIDIA H200`."""
        name = f", {torch.cuda.get_device_name(self.device)}" if self.device.type == "cuda" else ""
        return f"{self.device.type} {self.precision}{name}"

    def autocast(self) -> AbstractContextManager[object]:
        """A context in which matrix products have this precision (`autocast`)."""
        return autocast(self.device, self.precision)


# The folder of GPU claims, which all jobs of a machine must share. TMPDIR will not do: schedulers give
# each job its own.
LOCKS_VARIABLE, LOCKS_DEFAULT = "CONDENSER_GPU_LOCKS", "/tmp"
DEVICE_FOLDER = Path("/dev")
SMI_TIMEOUT_S = 60.0
# A desktop uses less. If more is in use on a GPU that no job of ours has claimed, somebody else works there.
FOREIGN_MB = 1024


def choose_device(name: str) -> torch.device:
    """The device that the config's "auto", "cpu" or "cuda" means here.

    Raises:
        ValueError: it is "cuda" and there is no GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("compute.device: expected a GPU, PyTorch finds none. Set it to auto or cpu.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def choose_precision(name: str, device: torch.device) -> str:
    """The precision that the config's "auto", "fp32", "bf16" or "fp16" means on this device.

    auto: bf16 if the hardware multiplies it (GPUs since Ampere; CPUs with AVX512-BF16 or AMX), else
    fp16 with a loss scaler on a GPU, else fp32.

    Raises:
        ValueError: it is "fp16" on a CPU.
    """
    if name == "fp16" and device.type != "cuda":
        raise ValueError("compute.precision: expected fp32 or bf16 on a CPU, got fp16. Set it to auto.")
    if name != "auto":
        return name
    if device.type == "cuda":
        major, _ = torch.cuda.get_device_capability(device)
        return "bf16" if major >= 8 else "fp16"
    return "bf16" if cpu_multiplies_bf16(Path("/proc/cpuinfo")) else "fp32"


def set_up(*, device: str, precision: str, threads: int) -> Compute:
    """Make this process compute as the config's `compute` says, on a GPU that it claims if there is one.

    Call it once, before the first tensor goes to a GPU.

    Raises:
        ValueError: the machine lacks the device or the precision, or all its GPUs are taken.
    """
    if device != "cpu":
        claim_visible_gpus(count=1)
    chosen = choose_device(device)
    make_deterministic(threads=threads)
    return Compute(chosen, choose_precision(precision, chosen))


def cpu_multiplies_bf16(cpuinfo: Path) -> bool:
    """Whether the processor multiplies bfloat16 numbers, by Linux's list of its features."""
    if not cpuinfo.is_file():
        return False
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return bool({"avx512_bf16", "amx_bf16"} & set(line.split()))
    return False


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """A context in which matrix products are computed in `precision`; it does nothing for fp32.

    Use a new one for each chunk (see `condenser.train.gradient_cache.batch_backward`).
    """
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[precision])


def make_deterministic(*, threads: int) -> None:
    """Let the same inputs give the same bits: fixed thread count, deterministic kernels, no TF32.

    Call it before the first tensor goes to a GPU: cuBLAS reads its workspace setting only once.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")  # use_deterministic_algorithms imports Inductor: 1.3 s a job
    # No kernel here reads memory that was never written, and filling it first takes a tenth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@dataclass(frozen=True)
class Gpu:
    """A GPU: a name that CUDA_VISIBLE_DEVICES accepts, and the memory in use (0 if unknown)."""

    name: str
    used_mb: int


def list_gpus() -> list[Gpu]:
    """The machine's GPUs in nvidia-smi's order.

    If nvidia-smi fails, GPUs are named by number, which is right with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    query = ["nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
    except OSError as error:
        failure = error.strerror or str(error)
    except subprocess.TimeoutExpired:
        failure = f"no answer in {SMI_TIMEOUT_S:g} s"
    else:
        gpus = parse_gpus(done.stdout)
        if gpus or "No devices were found" in done.stdout:
            return gpus
        failure = f"status {done.returncode}"
    count = len(list(DEVICE_FOLDER.glob("nvidia[0-9]*")))
    if count:
        log.warning("nvidia-smi: %s: GPUs are claimed by number, whatever memory is in use", failure)
    return [Gpu(str(number), 0) for number in range(count)]


def parse_gpus(listing: str) -> list[Gpu]:
    """GPUs from nvidia-smi's lines `uuid, MiB in use`; an unknown number becomes 0."""
    gpus = []
    for line in listing.splitlines():
        uuid, _, used = (part.strip() for part in line.partition(","))
        if uuid.startswith("GPU-"):
            gpus.append(Gpu(uuid, int(used) if used.isdigit() else 0))
    return gpus


def claim_gpus(gpus: Sequence[Gpu], *, count: int, lock_folder: Path) -> list[tuple[Gpu, int]]:
    """The `count` GPUs with the least memory in use that no other job of ours has claimed.

    A claim is a lock on one file for each GPU. It lasts until the returned descriptor is closed or the
    process ends, also by SIGKILL. GPUs that somebody else uses come last, with a warning.

    Raises:
        ValueError: fewer than `count` are free.
    """
    claimed: list[tuple[Gpu, int]] = []
    lock_folder.mkdir(parents=True, exist_ok=True)
    for gpu in sorted(gpus, key=lambda gpu: (gpu.used_mb, gpu.name)):
        if len(claimed) == count:
            break
        claim = _lock(_lock_file(lock_folder, gpu.name))
        if claim is None:
            continue
        workers = _lock(_lock_file(lock_folder, f"{gpu.name}.workers"))
        if workers is None:  # the launcher was killed, and its processes are still saving a checkpoint
            os.close(claim)
            continue
        os.close(workers)
        claimed.append((gpu, claim))
    if len(claimed) < count:
        for _, claim in claimed:
            os.close(claim)
        raise ValueError(
            f"GPUs: expected {count} free, got {len(claimed)} of {len(gpus)}. "
            "Run fewer jobs at once (resources: gpu=...), or wait."
        )
    for gpu, _ in claimed:
        if gpu.used_mb > FOREIGN_MB:
            log.warning("GPU %s: others use %d MB of it, and no emptier GPU is free", gpu.name, gpu.used_mb)
    return claimed


def claim_visible_gpus(*, count: int) -> None:
    """Claim `count` free GPUs and set CUDA_VISIBLE_DEVICES to them; they are ours until the process ends.

    If CUDA_VISIBLE_DEVICES is set, only the GPUs it names are claimed; if it names `count` or fewer, a
    scheduler has assigned them and nothing is claimed. Numbers in it count as nvidia-smi does (CUDA is
    told so), unless CUDA_DEVICE_ORDER is set. A process started by torchrun shares the claim of its
    launcher. On a machine without GPUs nothing happens. Call it before CUDA is first used.
    """
    order = os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    lock_folder = Path(os.environ.get(LOCKS_VARIABLE) or LOCKS_DEFAULT)
    assigned = os.environ.get("CUDA_VISIBLE_DEVICES")
    if "LOCAL_RANK" in os.environ:
        _share_claims((assigned or "").split(","), lock_folder)
        return
    if assigned is not None and len(assigned.split(",")) <= count:
        return
    gpus = list_gpus()
    if assigned is not None and gpus:
        gpus = named_gpus(gpus, assigned, order=order)
    if len(gpus) > (0 if assigned is None else count):
        claimed = claim_gpus(gpus, count=count, lock_folder=lock_folder)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.name for gpu, _ in claimed)


def named_gpus(gpus: Sequence[Gpu], visible: str, *, order: str) -> list[Gpu]:
    """The GPUs that a CUDA_VISIBLE_DEVICES names, by number or by the beginning of a UUID.

    A name that fits none of `gpus` (a MIG instance, a number in another `order` than PCI_BUS_ID) becomes
    a GPU of its own. As in CUDA, the list ends at the first invalid entry.
    """
    named: list[Gpu] = []
    for name in map(str.strip, visible.split(",")):
        if name in ("", "-1"):
            break
        if name.isdigit() and order == "PCI_BUS_ID":
            found = list(gpus[int(name) : int(name) + 1])
        else:
            found = [gpu for gpu in gpus if name.startswith("GPU-") and gpu.name.startswith(name)]
            found = found or [Gpu(name, 0)]
        if not found:
            break
        named += found
    return named


def _share_claims(names: Sequence[str], lock_folder: Path) -> None:
    """Keep others from claiming these GPUs until this process ends, even if its launcher ends earlier."""
    for name in filter(None, map(str.strip, names)):
        fcntl.flock(_open_lock(_lock_file(lock_folder, f"{name}.workers")), fcntl.LOCK_SH)


def _lock_file(folder: Path, name: str) -> Path:
    return folder / f"condenser-{name.replace('/', '-')}.lock"  # MIG-GPU-.../1/0


def _lock(file: Path) -> int | None:
    """The descriptor that holds this lock, or None if another process holds it."""
    try:
        descriptor = _open_lock(file)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EINVAL, errno.ENXIO):
            raise
        log.warning(
            "%s: belongs to another user or is no file, so its GPU counts as claimed. "
            "Remove it if no job runs",
            file,
        )
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(file: Path) -> int:
    """Open or make a lock file in a folder that many users share.

    Raises:
        PermissionError: the file is another user's and cannot be read.
        OSError: it is a link (ELOOP), or no plain file (EINVAL).
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        # With O_CREAT, Linux may refuse another user's file. A pipe would be waited for without O_NONBLOCK.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "no plain file", str(file)) from None
        return descriptor
    os.fchmod(descriptor, 0o644)  # whatever the umask
    return descriptor
