"""Objectives: the ways in which a model comes about.

An objective NAME is the module `condenser.objectives.NAME`, found by its file name. `checkpoint` reads a
model that exists, `best_of` copies one of several; every other objective trains one, and holds:

- `Settings`: a pydantic class of its keys, made from `condenser.settings.Pretraining`;
- `training(initial, shards, tokenizer, settings, *, seed) -> Training`: the model and its losses as plain
  functions (`condenser.train.pretrain.Training`); the loop, checkpoints, resuming, several processes, bad
  losses and full memory are the loop's;
- `longest_row(settings) -> (key, tokens)`: the longest text that it feeds, without specials.

It may hold:

- `check(settings, *, num_layers)`: raises ValueError where the settings do not fit a backbone;
- `cost(job, data) -> work`: operations, bytes and other amounts that the training takes, for the plan of
  costs. Without it the plan says "unknown"; `lacks` says why no text of the collection is of use.
  `job.config` has the settings of the job's spec; `data` gives its texts and the model that it starts from
  (`condenser.pipeline.costs.data`), and its `training` adds up a training; `condenser.pipeline.costs.rules`
  says what the work may hold. A kind does not import the costs: their code would be a part of the training's
  spec.

`settings` is the model's entry in the configuration, with what `objectives.NAME` gives to all models of
this objective. The module itself imports no torch: the workflow reads it to check the configuration.
"""

FOLDER = "objectives"
