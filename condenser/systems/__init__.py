"""Systems: whatever ranks passages for a query.

A kind of system NAME is the module `condenser.systems.NAME` and the rules of `rules/systems/NAME.smk`, both
found by their names. The module holds:

- `Settings`: a pydantic class of its keys, made from `condenser.settings.System`;
- `is_trained(settings) -> bool`: whether fine-tuning makes it; then its results differ by variant (train
  size and seed), and it has `initial` and `negatives` among its keys and a function
  `train(examples, initial, output, *, settings, recipe, ...) -> counts`.

It may hold:

- `cost(job, data) -> work`: what a job of this kind takes, as that of an objective (`condenser.objectives`).
  It serves the stages that have `system` among their settings, such as `train`; `job.stage` tells them apart.

`settings` is the system's entry in the configuration. The module itself imports no torch: the workflow reads
it to check the configuration.
"""

FOLDER = "systems"

UNTRAINED = "untrained"
"""The variant of a system that no fine-tuning makes: it is the same for every train size and seed."""
