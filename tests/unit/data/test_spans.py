from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from condenser.data.spans import SpanDocuments, sample_spans, span_documents
from condenser.data.tokens import TokenShards
from tests.token_shards import hand_made_shards

VOCAB = 50  # ids from 30 continue a word
IS_CONTINUATION = np.arange(VOCAB) >= 30


def shards_of(folder, lengths: list[int], *, titles: list[int] | None = None, seed: int = 0, last: int = 29):
    random = np.random.default_rng(seed)
    rows = []
    for length, title in zip(lengths, titles or [0] * len(lengths), strict=True):
        text = random.integers(1, last + 1, length)
        text[:1] = 1  # a text begins with a word
        rows.append([[1] * title, text.tolist()])
    return hand_made_shards(folder, rows)


def sampled(shards: TokenShards, documents: SpanDocuments, **options):
    options = {
        "is_continuation": IS_CONTINUATION,
        "min_tokens": 3,
        "lengths": (6, 9),
        "short_probability": 0.1,
        "seed": 1,
        "epoch": 0,
        **options,
    }
    items = options.pop("items", np.arange(len(documents)))
    starts, lengths = sample_spans(shards, documents, items, **options)
    return starts.reshape(-1, 2), lengths.reshape(-1, 2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(6, 60), min_size=2, max_size=12),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([29, 35, 49]),
)
def test_spans_lie_in_their_document_apart_and_within_half_of_it(
    tmp_path_factory, sizes, seed, short_probability, last
):
    titles = [index % 3 for index in range(len(sizes))]
    shards = shards_of(tmp_path_factory.mktemp("shards"), sizes, titles=titles, last=last)
    documents = span_documents(shards, min_tokens=3)
    starts, lengths = sampled(shards, documents, seed=seed, short_probability=short_probability)
    ends = starts + lengths
    assert (starts >= documents.starts[:, None]).all()
    assert (ends <= (documents.starts + documents.lengths)[:, None]).all()
    assert (np.minimum(ends[:, 0], ends[:, 1]) <= np.maximum(starts[:, 0], starts[:, 1])).all()
    assert (lengths >= 1).all()
    assert (lengths <= np.minimum(9, documents.lengths // 2)[:, None]).all()


def test_a_span_begins_at_a_word(tmp_path):
    shards = shards_of(tmp_path, [30] * 400, last=49)  # four tokens in ten continue a word
    starts, lengths = (part.ravel() for part in sampled(shards, span_documents(shards, min_tokens=3)))
    first = shards.read(starts, np.ones_like(starts), width=1, fill=-1)[:, 0]
    assert not IS_CONTINUATION[first].any()
    assert np.mean(lengths >= 6) > 0.8  # where there is room a moved span keeps its length


def test_a_span_at_the_start_of_a_text_stays_there_whatever_its_first_token_is(tmp_path):
    """In a vocabulary that marks words by the space before them the first token of a text has no mark."""
    shards = hand_made_shards(tmp_path, [[[], [30, 5, 6, 7, 8, 9]]] * 40)
    documents = span_documents(shards, min_tokens=3)
    starts, _ = sampled(shards, documents, lengths=(3, 3), short_probability=0.0)
    assert (starts.min(axis=1) == documents.starts).all()


def test_a_span_inside_one_long_word_stays_where_it_is(tmp_path):
    word = [1] + [40] * 29
    shards = hand_made_shards(tmp_path, [[[], word]] * 50)
    _, lengths = sampled(shards, span_documents(shards, min_tokens=3), short_probability=0.0)
    assert (lengths >= 6).all()


def test_lengths_are_drawn_evenly_and_one_in_ten_short(tmp_path):
    shards = shards_of(tmp_path, [100] * 600)
    documents = span_documents(shards, min_tokens=3)
    pairs = np.concatenate([sampled(shards, documents, epoch=epoch)[1] for epoch in range(10)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 4 / np.sqrt(len(pairs))  # each span has a length of its own
    lengths = pairs.ravel()
    counts = np.bincount(lengths, minlength=10) / len(lengths)
    expected = np.zeros(10)
    expected[6:10] += 0.9 / 4
    expected[3:7] += 0.1 / 4
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - expected) / len(lengths))).all()


def test_every_place_and_either_order_is_as_likely(tmp_path):
    # two spans of 3 in 8 tokens: gaps (before, between, behind) add up to 2 in six ways
    shards = shards_of(tmp_path, [8] * 500)
    documents = span_documents(shards, min_tokens=3)
    found: Counter[tuple[int, int]] = Counter()
    for epoch in range(24):
        starts, lengths = sampled(shards, documents, lengths=(3, 3), epoch=epoch)
        assert (lengths == 3).all()
        found.update(map(tuple, (starts - documents.starts[:, None]).tolist()))
    pairs = [(one, other) for one in range(6) for other in range(one + 3, 6)]
    assert set(found) == {*pairs, *((other, one) for one, other in pairs)}
    expected = 12_000 / 12
    assert sum((count - expected) ** 2 / expected for count in found.values()) < 31.3  # chi2, 11 df, p .001


def test_spans_depend_on_seed_epoch_and_row_alone(tmp_path):
    shards = shards_of(tmp_path, [40] * 20)
    documents = span_documents(shards, min_tokens=3)
    whole = sampled(shards, documents)[0]
    backwards = sampled(shards, documents, items=np.arange(20)[::-1])[0]
    assert (backwards[::-1] == whole).all()
    assert (sampled(shards, documents, items=np.array([7]))[0] == whole[7]).all()
    assert (sampled(shards, documents, epoch=1)[0] != whole).any()
    assert (sampled(shards, documents, seed=2)[0] != whole).any()
    # documents are known by their row: leaving other rows out changes nothing
    fewer = span_documents(shards_of(tmp_path / "b", [40] * 20), min_tokens=3)
    fewer = SpanDocuments(fewer.rows[5:], fewer.starts[5:], fewer.lengths[5:], 5)
    assert (sampled(shards, fewer)[0] == whole[5:]).all()


def test_documents_without_room_are_left_out_and_counted(tmp_path):
    shards = shards_of(tmp_path, [5, 6, 0, 9], titles=[4, 0, 9, 2])
    documents = span_documents(shards, min_tokens=3)
    assert documents.rows.tolist() == [1, 3]
    assert documents.lengths.tolist() == [6, 9]
    assert documents.starts.tolist() == [9, 26]  # 4 + 5 | 6 | 9 + 0 | 2 ...
    assert documents.num_left_out == 2
