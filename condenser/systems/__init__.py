"""Systems: whatever ranks passages for a query, or tells how similar sentences are.

A kind of system NAME is the module `condenser.systems.NAME` and the rules of `rules/systems/NAME.smk`, both
found by their names. The module holds `Settings`, a pydantic class of its keys, made from

- `condenser.nouns.System`, whose methods and properties say what a kind may answer otherwise; or
- `StartedSystem`, which starts from a model and may be trained by rules of its own; or
- `FineTunedSystem`, which the rule `train` trains on negatives, by its method `training`.

A kind for sentences has other `TASKS`; its systems make `similarities.<split>.tsv` in place of a run.

The module itself imports no torch: the workflow reads it to check the configuration.
"""

FOLDER = "systems"
