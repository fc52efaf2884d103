import json
import logging
import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_trainings import run_of
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    MPNetConfig,
    MPNetModel,
    Trainer,
    get_linear_schedule_with_warmup,
)

from condenser.files import read_json
from condenser.train import loop
from condenser.train.checkpoint import LOG_NAME, Checkpoint, load_newest_checkpoint, save_checkpoint
from condenser.train.distributed import alone
from condenser.train.loop import (
    BAD_BATCH_NAME,
    Batch,
    StepRecord,
    Trainable,
    linear_factor,
    log_totals,
    train,
    weight_groups,
)

torch.set_num_threads(1)
_ALONE = alone(torch.device("cpu"))
_NUM_STEPS = 12


@dataclass
class _Points:
    step: int
    inputs: Tensor
    targets: Tensor


def _points(step: int) -> _Points:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(5, 4, generator=generator)
    return _Points(step, inputs, inputs @ torch.arange(12.0).view(4, 3) * (1 + step % 3))


def _batch(step: int) -> Batch[_Points]:
    return Batch(
        _points(step), epoch=0, num_items=5, num_tokens=20, ids=lambda: _names(step), num_in_epoch=20
    )


def _names(step: int) -> dict[str, list[str]]:
    return {"points": [f"p{step}.{number}" for number in range(66)]}


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.hidden = nn.Linear(4, 8)
            self.norm = nn.LayerNorm(8)
            self.out = nn.Linear(8, 3)
            self.frozen = nn.Linear(2, 2).requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.out(torch.tanh(self.norm(self.hidden(inputs))))


def _squares(net: _Net, batch: _Points) -> Tensor:
    return ((net(batch.inputs) - batch.targets) ** 2).mean()


def _train(
    folder: Path,
    *,
    prepare: Callable[[int], Batch[_Points]] = _batch,
    loss_of: Callable[[_Net, _Points], Tensor] = _squares,
    **changes: Any,
) -> _Net:
    folder.mkdir(exist_ok=True)
    net = _Net()

    def backward(batch: _Points, loss_scale: float) -> dict[str, float]:
        loss = loss_of(net, batch)
        (loss * loss_scale).backward()
        return {"loss": loss.item()}

    settings = {"learning_rate": 0.1, "weight_decay": 0.05, "warmup_ratio": 0.25, "max_grad_norm": 1.0}
    settings |= {"batch_size": 5, "updates": changes.pop("num_steps", _NUM_STEPS)}
    settings |= changes.pop("settings", {})
    run = run_of("f", folder, settings, **{"work_folder": folder, "checkpoint_every_s": 0, **changes})
    train(Trainable("test", net, 20, prepare, backward, save=print, counts={}), run)
    return net


def _log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG_NAME).read_text().splitlines()]


def _same(one: nn.Module, other: nn.Module) -> bool:
    others = other.state_dict()
    return all(torch.equal(value, others[name]) for name, value in one.state_dict().items())


def _fail_at(step: int) -> Callable[[_Net, _Points], Tensor]:
    def loss_of(net: _Net, batch: _Points) -> Tensor:
        if batch.step == step:
            raise RuntimeError("the power went")
        return _squares(net, batch)

    return loss_of


def _signal_at(step: int, number: int) -> Callable[[_Net, _Points], Tensor]:
    def loss_of(net: _Net, batch: _Points) -> Tensor:
        if batch.step == step:
            os.kill(os.getpid(), number)
        return _squares(net, batch)

    return loss_of


def _no_number_at(*steps: int, value: float = math.nan) -> Callable[[_Net, _Points], Tensor]:
    def loss_of(net: _Net, batch: _Points) -> Tensor:
        return _squares(net, batch) * (value if batch.step in steps else 1.0)

    return loss_of


@pytest.mark.parametrize(
    "settings", [{}, {"epsilon": 0.01, "bias_correction": True}]
)  # a recipe for sentences names its epsilon
def test_the_weights_are_those_of_a_plain_loop_with_torch_and_hugging_face(
    tmp_path: Path, settings: dict[str, float]
) -> None:
    plain = _Net()
    optimiser = torch.optim.AdamW(
        [
            {"params": [plain.hidden.weight, plain.out.weight], "weight_decay": 0.05},
            {
                "params": [plain.hidden.bias, plain.norm.weight, plain.norm.bias, plain.out.bias],
                "weight_decay": 0.0,
            },
        ],
        lr=0.1,
        eps=settings.get("epsilon", 1e-8),
    )
    schedule = get_linear_schedule_with_warmup(optimiser, 3, _NUM_STEPS)
    norms = []
    for step in range(_NUM_STEPS):
        optimiser.zero_grad()
        _squares(plain, _points(step)).backward()
        norms.append(float(nn.utils.clip_grad_norm_(plain.parameters(), 1.0)))
        optimiser.step()
        schedule.step()

    trained = _train(tmp_path, settings=settings)

    assert max(norms) > 1.0  # clipping took part
    for name, weight in trained.named_parameters():
        torch.testing.assert_close(weight, plain.get_parameter(name), rtol=1e-5, atol=1e-6)
    records = _log(tmp_path)
    assert [record["grad_norm"] for record in records] == pytest.approx(norms, rel=1e-5)


@pytest.mark.parametrize("at", [None, 2])
def test_without_bias_correction_an_update_is_berts(tmp_path: Path, at: int | None) -> None:
    """Written out as in the AdamW that Hugging Face had with `correct_bias=False`; also when resumed."""
    settings = {"learning_rate": 0.02, "max_grad_norm": 0.0, "epsilon": 1.0e-3, "bias_correction": False}
    plain = _Net()
    named = {name: weight for name, weight in plain.named_parameters() if weight.requires_grad}
    moments = {name: (torch.zeros_like(weight), torch.zeros_like(weight)) for name, weight in named.items()}
    for step in range(_NUM_STEPS):
        plain.zero_grad()
        _squares(plain, _points(step)).backward()
        rate = 0.02 * linear_factor(step, num_steps=_NUM_STEPS, num_warmup_steps=3)
        for name, weight in named.items():
            mean, square = moments[name]
            mean.mul_(0.9).add_(weight.grad, alpha=0.1)
            square.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
            with torch.no_grad():
                if name in ("hidden.weight", "out.weight"):  # before the update, as torch's
                    weight.mul_(1 - rate * 0.05)
                weight.addcdiv_(mean, square.sqrt() + 1e-3, value=-rate)
    if at is not None:
        with pytest.raises(RuntimeError):
            _train(tmp_path, settings=settings, loss_of=_fail_at(at))
    trained = _train(tmp_path, settings=settings)
    for name, weight in trained.named_parameters():
        torch.testing.assert_close(weight, plain.get_parameter(name), rtol=1e-4, atol=1e-6)


def test_a_gradient_below_the_limit_is_never_scaled_up(tmp_path: Path) -> None:
    free = _train(tmp_path / "free", max_grad_norm=0.0)
    records = _log(tmp_path / "free")
    limit = 1.5 * max(record["grad_norm"] for record in records)
    assert _same(_train(tmp_path / "limited", max_grad_norm=limit), free)


@pytest.mark.parametrize("step", [0, 1, 7, _NUM_STEPS - 1])
def test_a_training_that_died_and_was_resumed_gives_the_same_bytes(tmp_path: Path, step: int) -> None:
    whole = _train(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="the power went"):
        _train(tmp_path / "cut", loss_of=_fail_at(step))
    assert _same(_train(tmp_path / "cut"), whole)
    assert (tmp_path / "cut" / LOG_NAME).read_bytes() == (tmp_path / "whole" / LOG_NAME).read_bytes()


def test_steps_after_the_last_checkpoint_are_repeated_and_logged_once(tmp_path: Path) -> None:
    whole = _train(tmp_path / "whole")
    seldom = {"checkpoint_every_s": 3600}
    with pytest.raises(SystemExit):
        _train(tmp_path / "cut", loss_of=_signal_at(2, signal.SIGTERM), **seldom)
    with pytest.raises(RuntimeError):
        _train(tmp_path / "cut", loss_of=_fail_at(9), **seldom)
    assert len((tmp_path / "cut" / LOG_NAME).read_bytes().splitlines()) == 9
    assert _same(_train(tmp_path / "cut", **seldom), whole)
    assert (tmp_path / "cut" / LOG_NAME).read_bytes() == (tmp_path / "whole" / LOG_NAME).read_bytes()


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_after_a_signal_the_step_is_finished_and_saved_and_handlers_are_restored(
    tmp_path: Path, number: int, error: type[BaseException]
) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(error) as raised:
        _train(tmp_path, loss_of=_signal_at(4, number), checkpoint_every_s=3600)
    if isinstance(raised.value, SystemExit):
        assert raised.value.code == 143
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    checkpoint = load_newest_checkpoint(tmp_path, fingerprint="f", device="cpu")
    assert checkpoint is not None and checkpoint.step == 5
    assert _same(_train(tmp_path), _train(tmp_path / "whole"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_last_step_does_not_stop_a_training_that_is_finished(
    tmp_path: Path, number: int
) -> None:
    last = _train(tmp_path / "cut", loss_of=_signal_at(_NUM_STEPS - 1, number))
    assert _same(last, _train(tmp_path / "whole"))


def test_seconds_to_the_next_checkpoint_are_counted_from_the_end_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a clock by which a step takes 10 seconds and a checkpoint 25."""
    now, saved = 0.0, []

    def loss_of(net: _Net, batch: _Points) -> Tensor:
        nonlocal now
        now += 10
        return _squares(net, batch)

    def save(folder: Path, checkpoint: Checkpoint, **settings: Any) -> None:
        nonlocal now
        now += 25
        saved.append(checkpoint.step)
        save_checkpoint(folder, checkpoint, **settings)

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(loop, "save_checkpoint", save)
    _train(tmp_path, loss_of=loss_of, checkpoint_every_s=30)
    assert saved == [3, 6, 9, 12]


def test_a_finished_training_does_no_more_steps(tmp_path: Path) -> None:
    whole = _train(tmp_path)

    def prepare(step: int) -> Batch[_Points]:
        raise AssertionError("no batch is needed")

    assert _same(_train(tmp_path, prepare=prepare), whole)


def test_a_nan_loss_skips_its_update(tmp_path: Path) -> None:
    _train(tmp_path, loss_of=_no_number_at(5, 6), bad_loss_patience=2, num_steps=7)
    before = load_newest_checkpoint(tmp_path, fingerprint="f", device="cpu")
    assert before is not None
    records = _log(tmp_path)
    assert [record["outcome"] for record in records] == ["updated"] * 5 + ["skipped"] * 2
    assert records[5]["loss"] is None
    with pytest.raises(RuntimeError):
        _train(tmp_path / "before", loss_of=_fail_at(5), num_steps=7)
    fifth = load_newest_checkpoint(tmp_path / "before", fingerprint="f", device="cpu")
    assert fifth is not None and fifth.step == 5
    assert all(torch.equal(before.weights[name], fifth.weights[name]) for name in fifth.weights)
    assert log_totals(tmp_path / LOG_NAME)["updates_skipped"] == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_too_many_bad_losses_in_a_row_stop_the_training_and_name_step_and_items(
    tmp_path: Path, value: float
) -> None:
    bad = _no_number_at(3, 5, 6, value=value)
    with pytest.raises(
        ValueError,
        match=rf"log.jsonl:7: .* got {value} .* at step 6 .*, on points p6.0, .*, p6.63 and 2 more \(all: ",
    ) as raised:
        _train(tmp_path, loss_of=bad, bad_loss_patience=1)
    assert "\n" not in str(raised.value)
    assert read_json(tmp_path / BAD_BATCH_NAME) == {"step": 6, **_names(6)}
    checkpoint = load_newest_checkpoint(tmp_path, fingerprint="f", device="cpu")
    assert checkpoint is not None and checkpoint.step == 6
    assert all(torch.isfinite(weight).all() for weight in checkpoint.weights.values())
    with pytest.raises(ValueError, match="at step 6"):  # patience counts across a restart
        _train(tmp_path, loss_of=bad, bad_loss_patience=1)


@pytest.mark.parametrize("when", ["due", "at the end"])
def test_infinite_weights_stop_the_training_and_are_never_saved(tmp_path: Path, when: str) -> None:
    every, num_steps = (0, _NUM_STEPS) if when == "due" else (10_000, 6)
    with pytest.raises(ValueError, match=r"log.jsonl:6: expected finite weights .* on points p5\.0, "):
        _train(
            tmp_path, loss_of=_weights_lost_at(5), checkpoint_every_s=every, num_steps=num_steps,
            bad_loss_patience=3,
        )  # fmt: skip
    kept = load_newest_checkpoint(tmp_path, fingerprint="f", device="cpu")
    if when == "due":
        assert kept is not None and kept.step == 5
        assert all(torch.isfinite(weight).all() for weight in kept.weights.values())
    else:
        assert kept is None


def _weights_lost_at(step: int) -> Callable[[_Net, _Points], Tensor]:
    """A loss that is finite, as is its gradient, while a weight overflows meanwhile."""

    def loss_of(net: _Net, batch: _Points) -> Tensor:
        loss = _squares(net, batch)
        if batch.step == step:
            next(net.parameters()).data[0] = math.inf
        return loss

    return loss_of


def test_a_scaled_loss_gives_the_weights_of_an_unscaled_one(tmp_path: Path) -> None:
    assert _same(_train(tmp_path / "scaled", precision="fp16"), _train(tmp_path / "plain"))


def test_an_overflow_halves_the_loss_scale_and_is_not_a_bad_loss(tmp_path: Path) -> None:
    scales = []

    def loss_of(net: _Net, batch: _Points) -> Tensor:
        def overflow_as_float16_would(gradient: Tensor) -> Tensor:
            scales.append(float(gradient))
            return gradient * (float("inf") if float(gradient) > 20000 else 1.0)

        loss = _squares(net, batch)
        loss.register_hook(overflow_as_float16_would)
        return loss

    _train(tmp_path / "whole", loss_of=loss_of, precision="fp16")
    assert scales == [65536, 32768] + [16384] * 10
    assert log_totals(tmp_path / "whole" / LOG_NAME)["updates_skipped"] == 2
    with pytest.raises(SystemExit):
        _train(
            tmp_path / "cut",
            precision="fp16",
            loss_of=lambda net, batch: (_signal_at(1, signal.SIGTERM)(net, batch), loss_of(net, batch))[1],
        )
    scales.clear()
    _train(tmp_path / "cut", loss_of=loss_of, precision="fp16")
    assert scales == [16384] * 10  # the scale was resumed too
    assert (tmp_path / "cut" / LOG_NAME).read_bytes() == (tmp_path / "whole" / LOG_NAME).read_bytes()


def test_the_loss_scale_doubles_after_good_steps_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_GOOD_STEPS_TO_DOUBLE", 4)  # 2,000 in a training
    scales: list[float] = []

    def loss_of(net: _Net, batch: _Points) -> Tensor:
        def overflow_at_two(gradient: Tensor) -> Tensor:
            scales.append(float(gradient) / 65536)
            return gradient * (float("inf") if batch.step == 2 else 1.0)

        loss = _squares(net, batch)
        loss.register_hook(overflow_at_two)
        return loss

    _train(tmp_path, loss_of=loss_of, precision="fp16")
    # two good steps, an overflow; then four good ones in a row, twice
    assert scales == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 2]


def test_a_finite_weight_whose_moment_is_infinite_is_named() -> None:
    weight = nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.AdamW([weight])
    weight.grad = torch.ones(2)
    optimiser.step()
    assert loop._not_finite({"out.bias": weight}, optimiser) is None
    optimiser.state[weight]["exp_avg_sq"][1] = math.inf
    assert loop._not_finite({"out.bias": weight}, optimiser) == "out.bias"


def test_overflows_halve_the_loss_scale_down_to_one_and_count_as_bad_then() -> None:
    state = {"loss_scale": 4.0, "good_steps": 0, "bad_streak": 0}
    outcomes = [loop._judge(1.0, math.inf, state, use_loss_scale=True) for _ in range(3)]
    assert outcomes == ["overflowed", "overflowed", "skipped"]
    assert state == {"loss_scale": 1.0, "good_steps": 0, "bad_streak": 1}


def test_an_error_while_preparing_a_batch_comes_through(tmp_path: Path) -> None:
    def prepare(step: int) -> Batch[_Points]:
        if step == 3:
            raise ValueError("tokens.npy: cut short")
        return _batch(step)

    with pytest.raises(ValueError, match="cut short"):
        _train(tmp_path, prepare=prepare)


def test_another_training_does_not_resume_from_this_ones_checkpoints(tmp_path: Path) -> None:
    _train(tmp_path)
    with pytest.raises(ValueError, match="expected a checkpoint of this training"):
        _train(tmp_path, fingerprint="g")


def test_the_hook_gets_each_step_as_it_is_logged_and_changes_no_byte(tmp_path: Path) -> None:
    """After the log's line and before the checkpoint; in a resumed training, for the steps left."""
    seen: list[StepRecord] = []

    def note(record: StepRecord) -> None:
        seen.append(record)
        lines = (tmp_path / "watched" / LOG_NAME).read_text().splitlines()
        assert json.loads(lines[-1]) == record.log_line()
        assert not (tmp_path / "watched" / f"step-{record.step + 1:08d}").exists()

    plain = _train(tmp_path / "plain")
    with pytest.raises(RuntimeError):
        _train(tmp_path / "watched", loss_of=_fail_at(7), on_step=note)
    assert [record.step for record in seen] == list(range(7))
    assert _same(_train(tmp_path / "watched", on_step=note), plain)
    assert [record.step for record in seen[7:]] == list(range(7, _NUM_STEPS))
    assert (tmp_path / "watched" / LOG_NAME).read_bytes() == (tmp_path / "plain" / LOG_NAME).read_bytes()
    assert all(record.batch.content.step == record.step for record in seen)


def test_the_log_has_each_step_and_gives_the_totals(tmp_path: Path) -> None:
    _train(tmp_path)
    records = _log(tmp_path)
    assert [record["step"] for record in records] == list(range(_NUM_STEPS))
    rates = [record["learning_rate"] for record in records[:5]]
    assert rates == pytest.approx([0, 0.1 / 3, 0.2 / 3, 0.1, 0.8 / 9])
    assert log_totals(tmp_path / LOG_NAME) == {
        "steps": 12,
        "items_seen": 60,
        "tokens_seen": 240,
        "updates_skipped": 0,
    }


@pytest.mark.parametrize(("kind", "config"), [(BertModel, BertConfig), (MPNetModel, MPNetConfig)])
def test_weight_decay_leaves_out_the_weights_that_hugging_faces_trainer_leaves_out(
    kind: Any, config: Any
) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = kind(config(vocab_size=20, **shape))
    decayed_there = set(Trainer.get_decay_parameter_names(None, model))  # type: ignore[arg-type]
    names = {id(weight): name for name, weight in model.named_parameters()}
    decayed, spared = weight_groups(model, weight_decay=0.3)
    assert {names[id(weight)] for weight in decayed["params"]} == decayed_there
    assert {names[id(weight)] for weight in spared["params"]} == set(names.values()) - decayed_there
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)


def test_frozen_weights_are_left_out() -> None:
    groups = weight_groups(_Net(), weight_decay=0.1)
    assert [len(group["params"]) for group in groups] == [2, 4]


@pytest.mark.parametrize(
    ("length", "asked"),
    [
        ({"epochs": 3, "updates": None}, ""),
        ({"epochs": None, "updates": 6}, ""),
        ({"epochs": 0.1, "updates": {"least": 6}}, "; at least 6 asked, epochs 0.1 would be 1"),
        ({"epochs": 5, "updates": {"most": 6}}, "; at most 6 asked, epochs 5 would be 10"),
    ],
    ids=str,
)
def test_updates_are_logged_with_the_epochs_that_they_come_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, length: dict[str, Any], asked: str
) -> None:
    run = run_of("f", tmp_path, {"batch_size": 30, **length})
    with caplog.at_level(logging.INFO):
        assert run.num_steps(60, title="test") == 6
    assert caplog.messages == [f"test: 6 updates, 3.00 epochs of 60 items{asked}"]
