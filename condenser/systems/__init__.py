"""Systems: whatever ranks passages for a query, or tells how similar sentences are.

A kind of system NAME is the module `condenser.systems.NAME` and the rules of `rules/systems/NAME.smk`, both
found by their names. The module holds:

- `Settings`: a pydantic class of its keys, made from `condenser.settings.System`;
- `is_trained(settings) -> bool`: whether fine-tuning makes it; then it has `initial` and `negatives` among
  its keys and a function `training(settings, files, initial, run) -> Trainable`, with a
  `condenser.train.examples.TrainingFiles` and `Run` and `Trainable` of `condenser.train.loop`; the settings
  of the run are the recipe.

It may hold:

- `learns_from_judgements(settings) -> bool`: whether judged train queries change its rankings; without it as
  `is_trained`.
- `systems_of(settings) -> list[str]`: the systems that it names, whose runs or examples it reads; without it
  those are its `negatives`. A system has variants (train size and seed) if it is trained, or if one of these
  has variants, and variants of the seed alone if its `initial` is pre-trained for each seed.
- `reorders(settings) -> list[str]`: the systems whose hits it sorts anew, so that its runs are no deeper
  than theirs, nor than its own key `depth` if it has one.
- `kind_of_start(settings) -> str`: the kind of the systems that it may start from; without it bi-encoders.
- `gives_probabilities(settings, systems) -> bool`: whether the sigmoid of a score of its runs is the
  probability that the passage is relevant, so that negatives may be denoised by it.
- `OF_RUNS: tuple[str, ...]`: keys that only its runs depend on. Jobs without a split, such as its training,
  do not see them, and do not rerun when they change.
- `longest_row(recipe) -> int`: tokens of the longest row that its model reads, specials included, if that is
  longer than a query or a passage; its rules ask `condenser.config.positions.check_longest_row`.
- `check(settings, systems)`: raises `ValueError` where its entry does not fit those of the other systems.
- `made_from_texts(settings, variant) -> list[str]`: results under `results/<dataset>/` that it makes of the
  collection before any query. A table makes these and the models of its rows where no query is judged.
- `TASKS: tuple[str, ...]`: the tasks of the data sets that it is for (`condenser.data.sources`), where it is
  for sentences. Then it has no `negatives`, its own rules train it, and they make `similarities.<split>.tsv`
  in place of a run; see `condenser/systems/sentence_encoder.py`.

`settings` is the system's entry in the configuration. The module itself imports no torch: the workflow reads
it to check the configuration.
"""

FOLDER = "systems"
