"""The learning rate as a function of the step."""

from __future__ import annotations

import math
from fractions import Fraction


def num_warmup_steps(num_steps: int, *, warmup_ratio: float) -> int:
    """The steps of warm-up: the ratio of all steps, rounded up.

    The ratio is taken as the decimal number a person wrote, so 0.1 of 70 steps is 7 and not the 8
    that rounding up 70 * 0.1 = 7.000000000000001 would give.

    Raises:
        ValueError: the ratio lies outside 0..1.
    """
    if not 0 <= warmup_ratio <= 1:
        raise ValueError(f"warmup_ratio: expected a number from 0 to 1, got {warmup_ratio}.")
    return math.ceil(Fraction(str(warmup_ratio)) * num_steps)


def linear_factor(step: int, *, num_steps: int, num_warmup_steps: int) -> float:
    """What the learning rate of update `step` (from 0) is multiplied by: up to 1, then down to 0.

    The factor climbs from 0 at step 0 to 1 at step `num_warmup_steps` and falls to 0 at step
    `num_steps`, which is never taken. With warm-up, the first update therefore changes nothing but
    the optimiser's averages: that is what the authors trained with (Hugging Face's linear schedule).
    """
    if step < num_warmup_steps:
        return step / num_warmup_steps
    return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup_steps))
