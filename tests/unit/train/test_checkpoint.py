import hashlib
import json
from pathlib import Path

import pytest
import torch

from condenser.files import canonical_json, sha256_file, sha256_text, write_json
from condenser.train.checkpoint import (
    LOG_NAME,
    Checkpoint,
    LogPosition,
    StepLog,
    load_newest_checkpoint,
    prepare_work_folder,
    save_checkpoint,
)

_EMPTY_LOG = LogPosition(0, hashlib.sha256(b"").hexdigest())


def _checkpoint(step: int, log: LogPosition = _EMPTY_LOG) -> Checkpoint:
    weights = {"layer.weight": torch.full((2, 3), float(step)), "layer.bias": torch.arange(3.0)}
    moments = {
        "layer.weight/exp_avg": torch.full((2, 3), step / 7),
        "layer.weight/step": torch.tensor(float(step)),
    }
    return Checkpoint(step, weights, moments, {"loss_scale": 1.0}, log)


def _save(folder: Path, step: int, *, keep: int = 2, log: LogPosition = _EMPTY_LOG) -> Path:
    return save_checkpoint(folder, _checkpoint(step, log), fingerprint="abc", keep=keep)


def _load(folder: Path) -> Checkpoint | None:
    return load_newest_checkpoint(folder, fingerprint="abc", device="cpu")


def _steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def test_what_was_saved_comes_back_bit_by_bit(tmp_path: Path) -> None:
    _save(tmp_path, 5)
    loaded, saved = _load(tmp_path), _checkpoint(5)
    assert loaded is not None and (loaded.step, loaded.state, loaded.log) == (5, saved.state, saved.log)
    for mine, theirs in ((loaded.weights, saved.weights), (loaded.optimiser, saved.optimiser)):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_an_empty_work_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert _load(tmp_path) is None


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 30):
        _save(tmp_path, step)
    assert _steps(tmp_path) == ["step-00000002", "step-00000030"]
    _save(tmp_path, 31, keep=1)
    assert _steps(tmp_path) == ["step-00000031"]


@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors", "meta.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    _save(tmp_path, 1)
    path = _save(tmp_path, 2) / name
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes(flipped if damage == "flip" else content[:middle])
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1
    assert "step-00000002 is damaged" in caplog.text


@pytest.mark.parametrize("mask", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_every_flipped_bit_of_meta_json_is_noticed(tmp_path: Path, mask: int) -> None:
    """Also if the file is still JSON: another loss scale, fingerprint or key."""
    _save(tmp_path, 1)
    path = _save(tmp_path, 2) / "meta.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :])
        loaded = _load(tmp_path)
        assert loaded is not None and loaded.step == 1, path.read_text(errors="replace")
    path.write_bytes(content)
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 2


@pytest.mark.parametrize("content", ["null", "[1]", '"sha256"', "{}"])
def test_other_json_in_place_of_meta_json_is_skipped(tmp_path: Path, content: str) -> None:
    _save(tmp_path, 1)
    (_save(tmp_path, 2) / "meta.json").write_text(content)
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1


def test_a_damaged_later_checkpoint_is_removed_when_its_steps_are_repeated(tmp_path: Path) -> None:
    for step in (1, 2):
        _save(tmp_path, step)
    (tmp_path / "step-00000002" / "meta.json").write_text("{}")
    _save(tmp_path, 1)
    assert _steps(tmp_path) == ["step-00000001"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    with pytest.raises(ValueError, match="expected a checkpoint of this training"):
        load_newest_checkpoint(tmp_path, fingerprint="other", device="cpu")


def test_a_pickle_in_place_of_weights_is_skipped_without_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if its digest is the recorded one."""
    _save(tmp_path, 1)
    folder = _save(tmp_path, 2)
    torch.save({"layer.weight": _Trap()}, folder / "weights.safetensors")
    meta = json.loads((folder / "meta.json").read_text())
    meta["digests"]["weights.safetensors"] = sha256_file(folder / "weights.safetensors")
    del meta["sha256"]
    write_json(folder / "meta.json", {**meta, "sha256": sha256_text(canonical_json(meta))})
    loaded = _load(tmp_path)
    assert loaded is not None and loaded.step == 1
    assert "step-00000002 is damaged" in caplog.text


class _Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> tuple:
        return exec, ("raise SystemExit('unpickled')",)


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


def test_the_log_is_cut_at_the_checkpoint_and_its_digest_continues(tmp_path: Path) -> None:
    path = tmp_path / LOG_NAME
    log = StepLog(path, num_bytes=0)
    log.append({"step": 0, "loss": 2.5})
    first = log.position()
    log.append({"step": 1, "loss": 2.25})
    whole = log.position()
    log.close()
    again = StepLog(path, num_bytes=first.num_bytes)
    assert path.read_text() == '{"loss":2.5,"step":0}\n'
    again.append({"step": 1, "loss": 2.25})
    assert again.position() == whole
    assert whole.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    again.close()


def test_checkpoints_hold_tensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    folder = _save(tmp_path, 3)
    assert sorted(path.name for path in folder.iterdir()) == [
        "meta.json",
        "optimiser.safetensors",
        "weights.safetensors",
    ]
    assert json.loads((folder / "meta.json").read_text())["step"] == 3


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


def test_a_checkpoint_that_is_a_link_is_used_and_later_unlinked(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    _save(work, 1).rename(elsewhere)
    (work / "step-00000001").symlink_to(elsewhere)
    loaded = _load(work)
    assert loaded is not None and loaded.step == 1
    _save(work, 2, keep=1)
    assert _steps(work) == ["step-00000002"] and elsewhere.exists()
