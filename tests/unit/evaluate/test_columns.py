"""Names of columns: data set, evaluation set and measure."""

from __future__ import annotations

import pytest

from condenser.evaluate import columns
from condenser.evaluate.columns import Column, places
from configs import OnPlainValues

parse = OnPlainValues(columns).parse

DATASETS = {
    "mine": {"source": "beir", "eval_split": "dev", "other_eval_splits": {"dl19": {}, "nq": {}}},
    "nq": {"source": "beir", "eval_split": "test", "other_eval_splits": None},
    "wiki": {"source": "hub_text"},
}


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("MRR@10", ("mine", "dev", "MRR@10")),
        ("dev/MRR@10", ("mine", "dev", "MRR@10")),
        ("dl19/nDCG@10", ("mine", "dl19", "nDCG@10")),
        ("nq/hits@20", ("nq", "test", "hits@20")),  # a data set before an evaluation set
        ("mine/nq/hits@20", ("mine", "nq", "hits@20")),
        ("nq/test/hits@20", ("nq", "test", "hits@20")),
        ("tqa/hits@20", None),
        ("tqa/test/hits@20", None),
        ("nq/dl20/hits@20", None),
    ],
)
def test_a_column_names_a_measure_and_where_it_is_measured(
    name: str, parsed: tuple[str, str, str] | None
) -> None:
    assert parse(name, dataset="mine", datasets=DATASETS, optional=["tqa", "dl20"]) == parsed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dl9/nDCG@10", r"dl9/nDCG@10: expected a data set or evaluation .*, got dl9\. Did you mean dl19"),
        ("train/MRR@10", "got train"),  # train queries are no evaluation set
        ("nq/tests/hits@20", r"\(test\), got tests\. Did you mean test\?"),
        ("somewhere/hits@20", "Add it, or name it among the table's optional ones"),
        ("wiki/hits@20", "expected a data set with judged queries, got wiki"),
        ("a/b/c/MRR@10", r"expected \[data set/\]\[evaluation set/\]measure, got 'a/b/c/MRR@10'"),
        ("nq//MRR@10", "expected .*measure, got"),
    ],
)
def test_a_wrong_column_is_refused_with_the_nearest_name(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(name, dataset="mine", datasets=DATASETS)


def test_without_judged_queries_a_measure_has_no_place_to_be_measured() -> None:
    assert parse("MRR@10", dataset="wiki", datasets=DATASETS) == ("wiki", None, "MRR@10")


def test_places_come_once_in_the_order_of_the_columns() -> None:
    sets = [("mine", "dev"), ("nq", "test"), ("mine", "dev"), ("mine", "dl19")]
    columns = [Column("a name", dataset, split, "R@10", "beir", None, 10) for dataset, split in sets]
    assert places(columns) == [("mine", "dev"), ("nq", "test"), ("mine", "dl19")]
