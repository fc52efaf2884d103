import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import get_linear_schedule_with_warmup

from condenser.train.loop import linear_factor, num_warmup_steps


@settings(deadline=None)
@given(num_steps=st.integers(1, 60), warmup=st.integers(0, 60))
def test_the_factor_is_that_of_hugging_faces_linear_schedule(num_steps: int, warmup: int) -> None:
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimiser, warmup, num_steps)
    for step in range(num_steps):
        assert linear_factor(step, num_steps=num_steps, num_warmup_steps=warmup) == pytest.approx(
            schedule.get_last_lr()[0], abs=1e-15
        )
        optimiser.step()
        schedule.step()


def test_warm_up_steps_are_rounded_up_from_the_ratio_as_it_was_written() -> None:
    assert num_warmup_steps(70, warmup_ratio=0.1) == 7  # 70 * 0.1 is 7.000000000000001
    assert num_warmup_steps(71, warmup_ratio=0.1) == 8
    assert num_warmup_steps(5, warmup_ratio=0.0) == 0
    assert num_warmup_steps(5, warmup_ratio=1.0) == 5
