"""The learning rate as a function of the step."""

from __future__ import annotations

import math
from fractions import Fraction


def num_warmup_steps(num_steps: int, *, warmup_ratio: float) -> int:
    """The number of warm-up steps: `warmup_ratio` of all steps, rounded up.

    The ratio counts as the decimal number that a person wrote: 0.1 of 70 steps is 7, although
    70 * 0.1 = 7.000000000000001 in floating point.

    Raises:
        ValueError: the ratio is not between 0 and 1.
    """
    if not 0 <= warmup_ratio <= 1:
        raise ValueError(f"warmup_ratio: expected a number from 0 to 1, got {warmup_ratio}.")
    return math.ceil(Fraction(str(warmup_ratio)) * num_steps)


def linear_factor(step: int, *, num_steps: int, num_warmup_steps: int) -> float:
    """The factor of the learning rate at update `step`, which counts from 0.

    It rises from 0 at step 0 to 1 at step `num_warmup_steps` and falls to 0 at step `num_steps`, one
    after the last. So with warm-up the first update changes only the optimiser's averages, as in the
    authors' trainings (Hugging Face's linear schedule).
    """
    if step < num_warmup_steps:
        return step / num_warmup_steps
    return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup_steps))
