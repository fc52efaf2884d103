"""Token shards: a collection tokenised once, written as flat arrays, read through memory maps.

A shard is three NPY files behind one prefix. `tokens` holds the tokens of all rows end to end,
without [CLS] and [SEP] around them; `num_sentences` [row] and `sentence_lengths` [sentence] cut
them up. Sentence 0 of every row is its title with its [SEP], so that a row read from its start is the
passage `title [SEP] text` (texttron/tevatron). Without a title it has length 0, or is [SEP] alone.

Beside the arrays, `counts.json` has what notes and `lengths: auto` need (`condenser.data.lengths`).

Tokens are uint16 unless the vocabulary needs uint32. A count takes one byte; from 255 on it is a byte
of 255 for each whole 255 in it, and a byte for the rest.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt8, UInt32
from sentencex import segment

from condenser.data.lengths import TokenCounts
from condenser.data.records import read_passages, read_queries
from condenser.files import atomic_write, count_lines, load_npy, read_json, save_npy, write_json
from condenser.progress import Progress
from condenser.shards import counts_file, shard_files

# sentencex 1.0.32 panics on a capital letter, one of these spaces and a full stop ("John F\u00a0. Kennedy"),
# as it assumes that every space is one byte. So we segment a copy with plain spaces, of equal length.
_WIDE_SPACES = dict.fromkeys(map(ord, "\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000"), " ")
_WIDE_SPACES |= dict.fromkeys(range(0x2000, 0x200B), " ")


def shard_bounds(num_rows: int, *, num_shards: int, multiple_of: int = 1) -> list[tuple[int, int]]:
    """First row and end of every shard: they cover every row once, in order.

    Inner bounds are multiples of `multiple_of`; sizes differ by one such multiple at most, but
    for the last rows that do not fill one. With more shards than multiples some are empty.

    >>> shard_bounds(10, num_shards=3)
    [(0, 3), (3, 6), (6, 10)]
    """
    multiples = -(-num_rows // multiple_of)
    bounds = [min(index * multiples // num_shards * multiple_of, num_rows) for index in range(num_shards + 1)]
    return list(pairwise(bounds))


def shard_rows(num_rows: int, shard: str, *, multiple_of: int) -> tuple[int, int]:
    """First row and end of a shard such as `0-of-2`."""
    index, num_shards = map(int, shard.split("-of-"))
    return shard_bounds(num_rows, num_shards=num_shards, multiple_of=multiple_of)[index]


class Tokenizer:
    """A tokenizer of a Hugging Face folder, as arrays that need no transformers.

    Its pieces are WordPiece's, those of byte-level BPE (RoBERTa, ModernBERT), or SentencePiece's (XLM-R). The
    first token of a text is called [CLS] here, the one behind it [SEP], whatever their names are.

    Attributes:
        cls_id, sep_id, pad_id, mask_id, vocab_size: whole numbers.
        first, separator: the names of [CLS] and [SEP].
        keeps_spaces: whether a word's pieces tell whether a space is before it.
        num_separators: [SEP] between the two texts of a pair: 1 (BERT), or 2 (RoBERTa).
        unk_id: of [UNK], for a word that the vocabulary cannot spell, or of more than 100 characters; -1
            if it has none.
        is_continuation: bool [vocab], pieces that continue a word (`word_continuation`).
        random_ids: ids that may stand for a masked token: all but the special ones.
    """

    def __init__(self, folder: str | Path) -> None:
        from tokenizers import Tokenizer as Backend

        file = Path(folder) / "tokenizer.json"
        if not file.is_file():  # a job may be written by hand
            raise ValueError(f"{folder}: expected a folder with tokenizer.json, found none.")
        self._backend = Backend.from_file(str(file))
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = False
        told = file.with_name("tokenizer_config.json")
        names = _special_names(read_json(told) if told.is_file() else {})
        ids: dict[str, Any] = {kind: self._backend.token_to_id(name) for kind, name in names.items()}
        specials = [ids[kind] for kind in ("cls", "sep", "pad", "mask")]
        continues_word = word_continuation(self._backend)
        if continues_word is None or None in specials:
            raise ValueError(
                f"{folder}: expected a tokenizer of WordPiece, byte-level BPE or SentencePiece with [CLS], "
                f"[SEP], [PAD] and [MASK], got {type(self._backend.model).__name__} with ids {specials}. "
                "Choose another backbone."
            )
        self.cls_id, self.sep_id, self.pad_id, self.mask_id = specials
        self.first, self.separator = names["cls"], names["sep"]
        self.unk_id = -1 if ids["unk"] is None else ids["unk"]
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values()) + 1
        self.keeps_spaces = type(self._backend.model).__name__ != "WordPiece"
        self.is_continuation: Bool[np.ndarray, " vocab"] = np.zeros(self.vocab_size, dtype=bool)
        self.is_continuation[[i for piece, i in vocabulary.items() if continues_word(piece)]] = True
        added = self._backend.get_added_tokens_decoder().items()
        others = {i for i, token in added if token.special} | {i for i in ids.values() if i is not None}
        self.random_ids: Int[np.ndarray, " ids"] = np.setdiff1d(
            np.fromiter(vocabulary.values(), np.int64), np.array([*others], dtype=np.int64)
        )
        self.is_continuation[[*others]] = False
        self.num_separators = max(1, self._backend.encode("a", "a").ids.count(self.sep_id) - 1)

    @property
    def dtype(self) -> type[np.unsignedinteger]:
        """The smallest type of ours that holds every id."""
        return np.uint16 if self.vocab_size <= 2**16 else np.uint32

    def encode(self, texts: Sequence[str]) -> list[Integer[np.ndarray, " token"]]:
        """Ids of each text, without specials around it and uncut."""
        ids, lengths = self.encode_flat(texts)
        return np.split(ids, np.cumsum(lengths)[:-1]) if len(texts) else []

    def encode_flat(
        self, texts: Sequence[str]
    ) -> tuple[Integer[np.ndarray, " token"], Int[np.ndarray, " text"]]:
        """Ids of all texts end to end, and the number of each text's."""
        encoded = [one.ids for one in self._backend.encode_batch_fast(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, encoded), np.int64, count=len(encoded))
        return np.fromiter(chain.from_iterable(encoded), self.dtype, count=int(lengths.sum())), lengths

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones and without spaces around it."""
        text: str = self._backend.decode(ids, skip_special_tokens=True)
        return text.strip()

    def encode_prompt(self, prompt: str, *, max_tokens: int) -> Integer[np.ndarray, " token"]:
        """Ids of what is put before texts that are cut to `max_tokens` tokens with [CLS] and [SEP].

        They are those of the prompt in the whole text: the words of both do not run together.

        Raises:
            ValueError: they would, or the prompt leaves no room for a text.
        """
        if not prompt:
            return np.zeros(0, dtype=self.dtype)
        space = self.leading_space(prompt)
        (ids,) = self.encode([prompt.removesuffix(space)])
        if len(ids) > max_tokens - 3:
            raise ValueError(
                f"prompts: expected room for a text within {max_tokens} tokens, got a prompt of {len(ids)} "
                f"tokens and two special ones: {prompt!r:.80}. Raise lengths of the recipe, or shorten it."
            )
        beginnings = ("a", "1", "é", "的", "-", "[", f"{self.separator[1:]} a")
        joined = self.encode([prompt + text for text in beginnings])
        apart = [np.concatenate([ids, text]) for text in self.encode([space + text for text in beginnings])]
        if not all(map(np.array_equal, joined, apart)):
            raise ValueError(
                "prompts: expected an end that keeps the prompt apart from a text's first word, such as a "
                f"space, got {prompt!r:.80}. Add a space."
            )
        return ids

    @property
    def joint(self) -> str:
        """What is written between a title and a text that another library tokenises as one."""
        return self.separator if self.keeps_spaces else f" {self.separator} "

    def leading_space(self, prompt: str) -> str:
        """What is put before texts that follow this prompt: the space at its end, if pieces tell of it."""
        return " " if self.keeps_spaces and prompt.endswith(" ") else ""


def _special_names(settings: Mapping[str, Any]) -> dict[str, str]:
    """The names of the special tokens in a tokenizer_config.json, by kind; BERT's names by default."""
    names = {}
    for kind in ("cls", "sep", "pad", "mask", "unk"):
        name = settings.get(f"{kind}_token") or f"[{kind.upper()}]"
        names[kind] = name["content"] if isinstance(name, Mapping) else name
    return names


def write_token_shard(
    texts: Iterable[tuple[str, str]],
    prefix: str | Path,
    tokenizer: Tokenizer,
    *,
    batch_size: int,
    split: bool,
    leading_separator: bool = False,
    leading_space: str = "",
    num_rows: int | None = None,
) -> dict[str, int]:
    """Tokenise (title, text) pairs into the shard behind `prefix`; gives its counts.

    With `leading_separator` a row without a title is `[SEP] text`, as the authors feed it (Tevatron joins
    title, separator and text whether the title is empty or not); else it is the text alone. `leading_space`
    (`Tokenizer.leading_space`) is put before the first of them.

    Rows go through the tokenizer `batch_size` at a time and straight to disk, so that memory
    holds one batch and the sentence counts; neither the batch size nor the number of threads
    (RAYON_NUM_THREADS) changes a byte. With `split` false the whole text is one sentence.
    Sentences without tokens are left out; a row without tokens stays, and is counted, as are the words that
    became [UNK]. `num_rows`, where it is known beforehand, is for the time left that is shown.
    """
    tokens_file, lengths_file, nums_file = shard_files(prefix)
    tally = TokenCounts()
    all_lengths, all_nums = [np.zeros(0, np.uint8)], [np.zeros(0, np.uint8)]
    names = ("rows", "rows_with_title", "rows_without_tokens", "sentences", "tokens", "unknown_words")
    counts = dict.fromkeys(names, 0)
    texts = iter(texts)
    with (
        atomic_write(tokens_file) as file,
        Progress(f"tokens {Path(prefix).name}", total=num_rows, unit="rows") as progress,
    ):
        _write_header(file, 0, tokenizer.dtype)
        while batch := list(islice(texts, batch_size)):
            ids, lengths, nums = _encode_rows(
                batch,
                tokenizer,
                split=split,
                leading_separator=leading_separator,
                leading_space=leading_space,
            )
            file.write(ids.tobytes())
            all_lengths.append(packed_counts(lengths))
            all_nums.append(packed_counts(nums))
            first = np.cumsum(nums) - nums
            is_bare = lengths[first] == 1  # [SEP] without a title
            counts["rows"] += len(batch)
            counts["rows_with_title"] += int(np.count_nonzero(lengths[first] > 1))
            counts["rows_without_tokens"] += int(np.count_nonzero(np.add.reduceat(lengths, first) == is_bare))
            counts["sentences"] += len(lengths) - len(batch)
            counts["tokens"] += len(ids)
            counts["unknown_words"] += int(np.count_nonzero(ids == tokenizer.unk_id))
            is_word = ~tokenizer.is_continuation[ids] & (ids != tokenizer.sep_id)
            tally.add(np.add.reduceat(lengths, first), num_words=int(np.count_nonzero(is_word)))
            progress.advance(len(batch))
        _write_header(file, counts["tokens"], tokenizer.dtype)
        save_npy(lengths_file, np.concatenate(all_lengths))
        save_npy(nums_file, np.concatenate(all_nums))
    tally.num_unknown = counts["unknown_words"]
    write_json(counts_file(prefix), tally.as_json())
    return counts


def _encode_rows(
    batch: Sequence[tuple[str, str]],
    tokenizer: Tokenizer,
    *,
    split: bool,
    leading_separator: bool = False,
    leading_space: str = "",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids end to end, sentence lengths and sentences per row of one batch, titles closed by [SEP]."""
    if leading_space:
        batch = [(title and leading_space + title, text if title else leading_space + text)
                 for title, text in batch]  # fmt: skip
    cut = _spaces_in_front if tokenizer.keeps_spaces else list[str]
    rows = [[title, *(cut(split_sentences(text)) if split else [text])] for title, text in batch]
    nums = np.fromiter(map(len, rows), np.int64, count=len(rows))
    ids, lengths = tokenizer.encode_flat(list(chain.from_iterable(rows)))
    is_title = np.zeros(len(lengths), dtype=bool)
    is_title[np.cumsum(nums) - nums] = True
    is_closed = is_title & (leading_separator | (lengths > 0))
    ids = np.insert(ids, np.cumsum(lengths)[is_closed], tokenizer.sep_id)
    lengths[is_closed] += 1
    kept = is_title | (lengths > 0)
    return ids, lengths[kept], np.add.reduceat(kept.astype(np.int64), np.cumsum(nums) - nums)


def split_sentences(text: str) -> list[str]:
    """The sentences of an English text; joined they are the text, with its whitespace.

    A boundary is kept only after whitespace or punctuation, where BERT also splits words. So the tokens of
    the sentences, concatenated, are the tokens of the text.
    """
    pieces: list[str] = []
    begin = end = 0
    for piece in segment("en", text if text.isascii() else text.translate(_WIDE_SPACES)):
        end += len(piece)
        if _ends_word(text[end - 1]):
            pieces.append(text[begin:end])
            begin = end
    if begin < len(text):
        pieces.append(text[begin:])
    return pieces


@cache
def _ends_word(char: str) -> bool:
    # BERT removes control characters, also those that are whitespace to Python: they do not end a word.
    # The character must be punctuation in Unicode 3.2, too: the tokenizer may not know newer punctuation.
    tables = (unicodedata, unicodedata.ucd_3_2_0)
    return char in "\t\n\r" or all(table.category(char)[0] in "PZ" for table in tables)


def _spaces_in_front(sentences: Sequence[str]) -> list[str]:
    """The text of the sentences, cut only before the spaces between them.

    So the pieces of the parts are those of the text where a piece tells whether a space is before it.

    >>> _spaces_in_front(["One. ", "Two!", "Three."])
    ['One.', ' Two!Three.']
    """
    text, parts, begin, end = "".join(sentences), [], 0, 0
    for sentence in sentences:
        end += len(sentence)
        cut = begin + len(text[begin:end].rstrip())
        if begin < cut < end < len(text):
            parts.append(text[begin:cut])
            begin = cut
    return [*parts, text[begin:]]


def packed_counts(counts: Integer[np.ndarray, " count"]) -> UInt8[np.ndarray, " byte"]:
    """Counts as bytes: 255 as often as it goes into a count, then the rest.

    >>> packed_counts(np.array([3, 255, 600])).tolist()
    [3, 255, 0, 255, 255, 90]
    """
    num_bytes = counts // 255 + 1
    packed = np.full(num_bytes.sum(), 255, np.uint8)
    packed[np.cumsum(num_bytes) - 1] = counts % 255
    return packed


def load_counts(file: Path) -> UInt32[np.ndarray, " count"]:
    """The counts of a file of `packed_counts`."""
    packed = load_npy(file, mapped=False)
    counts = packed[packed < 255].astype(np.uint32)
    full = np.flatnonzero(packed == 255)
    np.add.at(counts, full - np.arange(len(full)), 255)
    return counts


def _write_header(file: IO[bytes], count: int, dtype: type[np.unsignedinteger]) -> None:
    """An NPY header at the front of the file; numpy leaves it room to grow, so any count fits."""
    file.seek(0)
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": (count,),
    }
    np.lib.format.write_array_header_1_0(file, header)


class TokenShards:
    """The ordered shards of one collection, read as one.

    Attributes (positions are flat, over all shards):
        num_rows: rows of all shards.
        row_starts: int64 [row + 1].
        title_lengths: int64 [row], with the [SEP].
        sentence_starts: int64 [sentence + 1], each row's sentence 0 included.
        first_sentence: int64 [row + 1], indices into `sentence_starts`.
    """

    def __init__(self, prefixes: Sequence[str | Path]) -> None:
        """`prefixes` are those of the shards, in order."""
        files = [shard_files(prefix) for prefix in prefixes]
        self._hold(
            [load_npy(tokens) for tokens, _, _ in files],
            np.concatenate([load_counts(lengths) for _, lengths, _ in files]),
            np.concatenate([load_counts(nums) for _, _, nums in files]),
        )

    @classmethod
    def of_texts(cls, texts: Sequence[tuple[str, str]], tokenizer: Tokenizer, **options: Any) -> TokenShards:
        """The shard that `write_token_shard` would write of some texts with these options, in memory."""
        ids, lengths, nums = _encode_rows(texts, tokenizer, **options)
        shards = cls.__new__(cls)
        shards._hold([ids], lengths, nums)
        return shards

    def _hold(self, tokens: list[np.ndarray], lengths: np.ndarray, nums: np.ndarray) -> None:
        self._tokens, self.num_rows = tokens, len(nums)
        self._shard_starts = _starts(list(map(len, tokens)))
        self.first_sentence: Int[np.ndarray, " rows_and_end"] = _starts(nums)
        self.sentence_starts: Int[np.ndarray, " sentences_and_end"] = _starts(lengths)
        self.row_starts: Int[np.ndarray, " rows_and_end"] = self.sentence_starts[self.first_sentence]
        titles = self.first_sentence[:-1]
        self.title_lengths: Int[np.ndarray, " row"] = (
            self.sentence_starts[titles + 1] - self.sentence_starts[titles]
        )

    def read(
        self,
        starts: Int[np.ndarray, " row"],
        lengths: Int[np.ndarray, " row"],
        *,
        width: int,
        fill: int,
    ) -> Int[np.ndarray, "row width"]:
        """`lengths[i]` tokens from flat position `starts[i]`, each row filled up on the right.

        A stretch lies within one shard, as every stretch of a row does.
        """
        assert lengths.max(initial=0) <= width, "the caller chooses a width that holds its rows"
        shard_of = np.searchsorted(self._shard_starts, starts, side="right") - 1
        shard_of = np.minimum(shard_of, len(self._tokens) - 1)  # an empty stretch at the very end
        assert (starts + lengths <= self._shard_starts[shard_of + 1]).all(), "a stretch crosses shards"
        columns, used = np.arange(width), np.flatnonzero(np.bincount(shard_of[lengths > 0]))
        out = (starts - self._shard_starts[shard_of])[:, None] + columns  # positions, then their tokens
        for shard in used:
            rows = shard_of == shard if len(used) > 1 else slice(None)
            out[rows] = self._tokens[shard].take(out[rows], mode="clip")  # behind a stretch: others
        out[columns.astype(np.int32) >= lengths.astype(np.int32)[:, None]] = fill
        return out


def _starts(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def tokenise_collection(
    collection: str | Path,
    doc_ids: str | Path,
    prefix: str | Path,
    tokenizer: Tokenizer,
    *,
    shard: str,
    multiple_of: int,
    leading_separator: bool,
    leading_space: str = "",
    batch_size: int,
) -> dict[str, int]:
    """Write one shard of a collection, such as `0-of-2`, cut at multiples of some rows; gives its counts."""
    begin, end = shard_rows(count_lines(doc_ids), shard, multiple_of=multiple_of)
    passages = islice(read_passages(collection, first_row=begin), end - begin)
    return write_token_shard(
        ((passage.title, passage.text) for passage in passages),
        prefix,
        tokenizer,
        batch_size=batch_size,
        split=True,
        leading_separator=leading_separator,
        leading_space=leading_space,
        num_rows=end - begin,
    )


def tokenise_queries(
    queries: str | Path, prefix: str | Path, tokenizer: Tokenizer, *, batch_size: int, leading_space: str = ""
) -> dict[str, int]:
    """Write the shard of one split's queries; gives its counts."""
    texts = (("", query.text) for query in read_queries(queries))
    return write_token_shard(
        *(texts, prefix, tokenizer),
        batch_size=batch_size,
        split=False,
        leading_space=leading_space,
        num_rows=count_lines(queries),
    )


def word_continuation(backend: Any) -> Callable[[str], bool] | None:
    """Whether a piece of a tokenizer continues the word before it; None if the kind of tokenizer is unknown.

    WordPiece marks such pieces. Byte-level BPE and SentencePiece mark the space before a word: there a piece
    without it continues a word if it begins with a letter, a digit or the rest of a character, so that
    punctuation begins a word, as BERT splits it. Of a text's first word the first piece has no mark; there is
    no word before it.
    """
    from tokenizers.decoders import ByteLevel

    if type(backend.model).__name__ == "WordPiece":
        prefix = backend.model.continuing_subword_prefix
        return (lambda piece: piece.startswith(prefix)) if prefix else None
    settings = json.loads(backend.to_str())
    kinds = f"{settings['pre_tokenizer']} {settings['decoder']}"
    if "'ByteLevel'" in kinds:
        decoder = ByteLevel()
        return lambda piece: _begins_inside_a_word(decoder.decode([piece]))
    return _begins_inside_a_word if "'Metaspace'" in kinds else None


def _begins_inside_a_word(text: str) -> bool:
    return text[:1].isalnum() or text[:1] == "\ufffd"
