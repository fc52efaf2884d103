"""Runs read by columns and line by line: the hits that were written, whatever the ids look like."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condenser.data import records
from condenser.data.parsing import BadRow, check_id
from condenser.data.records import ScoredDoc, hits_by_query, read_run, write_run


def is_id(text: str) -> bool:
    try:
        check_id("id", text)
    except BadRow:
        return False
    return True


IDS = st.text(max_size=4).filter(is_id) | st.sampled_from(['"b', "NULL", "nan", "ä\u200b", "1e5", "a,b", "'"])
HITS = st.builds(
    ScoredDoc, IDS, IDS, st.floats(width=32, allow_nan=False), st.sampled_from(["", "ä#1", '"#2'])
)


@settings(deadline=None)  # pyarrow is imported
@given(st.lists(HITS, max_size=30), st.sampled_from([100, 1 << 21]))
def test_what_was_written_is_read_line_by_line_and_by_query(tmp_path_factory, hits, block_bytes):
    path = tmp_path_factory.getbasetemp() / "any.trec"
    write_run(path, hits, system="s")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_BLOCK_BYTES", block_bytes)
        found = list(read_run(path))
        by_query = [(key, ids.to_pylist(), scores.tolist()) for key, ids, scores in hits_by_query(path)]
    assert found == [hit._replace(score=float(f"{hit.score:.9g}")) for hit in hits]
    assert by_query == [
        (key, [hit.doc_id for hit in of_query], [hit.score for hit in of_query])
        for key, group in groupby(found, key=attrgetter("query_id"))
        for of_query in [list(group)]
    ]


def test_a_run_without_a_line_has_no_hits(tmp_path: Path) -> None:
    (tmp_path / "run.trec").touch()
    assert list(read_run(tmp_path / "run.trec")) == list(hits_by_query(tmp_path / "run.trec")) == []
