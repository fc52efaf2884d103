import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from condenser.train.checkpoint import (
    LOG_NAME,
    Checkpoint,
    LogPosition,
    StepLog,
    load_newest_checkpoint,
    prepare_work_folder,
    save_checkpoint,
)

META = "meta.json"
_EMPTY_LOG = LogPosition(0, hashlib.sha256(b"").hexdigest())


def _checkpoint(step: int, log: LogPosition = _EMPTY_LOG) -> Checkpoint:
    weights = {"layer.weight": torch.full((2, 3), float(step)), "layer.bias": torch.arange(3.0)}
    moments = {
        "layer.weight/exp_avg": torch.full((2, 3), step / 7),
        "layer.weight/step": torch.tensor(float(step)),
    }
    return Checkpoint(step, weights, moments, {"loss_scale": 1.0}, log)


def _save(folder: Path, step: int, *, keep: int = 2, log: LogPosition = _EMPTY_LOG) -> Path:
    (folder / LOG_NAME).touch()
    return save_checkpoint(folder, _checkpoint(step, log), fingerprint="abc", keep=keep)


def _load(folder: Path) -> Checkpoint | None:
    return load_newest_checkpoint(folder, fingerprint="abc", device="cpu")


def _steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 30):
        _save(tmp_path, step)
    assert _steps(tmp_path) == ["step-00000002", "step-00000030"]
    _save(tmp_path, 31, keep=1)
    assert _steps(tmp_path) == ["step-00000031"]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weights.safetensors", _flipped),
        *((name, lambda content: content[: len(content) // 2]) for name in ("optimiser.safetensors", META)),
        *((META, lambda _, text=text: text) for text in (b"null", b"{}")),
        *((name, None) for name in ("weights.safetensors", META)),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: Callable[[bytes], bytes] | None
) -> None:
    _save(tmp_path, 1)
    path = _save(tmp_path, 2) / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1
    assert "step-00000002 is damaged" in caplog.text


def test_a_damaged_later_checkpoint_is_removed_when_its_steps_are_repeated(tmp_path: Path) -> None:
    for step in (1, 2):
        _save(tmp_path, step)
    (tmp_path / "step-00000002" / META).write_text("{}")
    _save(tmp_path, 1)
    assert _steps(tmp_path) == ["step-00000001"]


def test_a_checkpoint_whose_log_was_changed_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = StepLog(tmp_path / LOG_NAME, num_bytes=0)
    for step in (1, 2):
        log.append({"step": step})
        _save(tmp_path, step, log=log.position())
    log.close()
    (tmp_path / LOG_NAME).write_text('{"step":1}\n{"step":3}\n')
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1
    assert "log.jsonl was changed" in caplog.text


def test_half_written_folders_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000004.partial-77").mkdir()
    prepare_work_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_with_similar_names_are_left_alone(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    (tmp_path / "step-backup01").touch()
    (tmp_path / "step-00000009").touch()
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1
    _save(tmp_path, 2, keep=1)
    assert _steps(tmp_path) == ["step-00000002", "step-00000009", "step-backup01"]
