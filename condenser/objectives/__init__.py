"""Objectives: the ways in which a model comes about.

An objective NAME is the module `condenser.objectives.NAME`, found by its file name. `checkpoint` reads a
model that exists, `best_of` copies one of several; every other objective trains one, and holds:

- `Settings`: a pydantic class of its keys, made from `condenser.nouns.Pretraining`, with `longest_row`,
  and with `check` where the settings may not fit a backbone (`condenser.nouns.Model`);
- `training(initial, shards, tokenizer, settings, *, seed) -> Training`: the model and its losses as plain
  functions (`condenser.train.pretrain.Training`); the loop, checkpoints, resuming, several processes, bad
  losses and full memory are the loop's.

`settings` is the model's entry in the configuration, with what `objectives.NAME` gives to all models of
this objective. The module itself imports no torch: the workflow reads it to check the configuration.
"""

FOLDER = "objectives"
