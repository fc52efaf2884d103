"""A WordPiece vocabulary learnt from a collection, the same for the same texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_WORD_CHARACTERS = 100
"""BERT's tokenizer turns a longer word into [UNK] whatever the vocabulary, so none is learnt from."""
ALPHABET = 1000
"""Characters kept at most, the most frequent; the others become [UNK]. BERT's own list has about 1,000."""


def learn_wordpieces(texts: Iterable[str], *, vocab_size: int) -> tuple[list[str], int]:
    """At most `vocab_size` word pieces of uncased texts, special words first; and how many words of the
    texts were too long to learn from.

    The trainer numbers pieces in the order in which it meets them, which changes between runs, and
    breaks ties by number. So it is given every character, alone and continuing a word, in a fixed
    order beforehand.

    Raises:
        ValueError: `vocab_size` leaves no room for words beside specials and characters.
    """
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    num_too_long = 0
    for text in texts:
        words = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        short = [word for word, _ in words if len(word) <= MAX_WORD_CHARACTERS]
        num_too_long += len(words) - len(short)
        counts.update(short)
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    alphabet = sorted(sorted(characters), key=lambda character: -characters[character])[:ALPHABET]
    alphabet.sort()
    fixed = [*SPECIAL_WORDS, *alphabet, *(f"##{character}" for character in alphabet)]
    if vocab_size <= len(fixed):
        raise ValueError(
            f"backbone vocab_size: expected more than {len(fixed)} (specials and {len(alphabet)} characters, "
            f"each alone and continuing a word), got {vocab_size}."
        )

    def repeated() -> Iterator[str]:
        for word in sorted(counts):
            for done in range(0, counts[word], 1000):
                yield " ".join([word] * min(1000, counts[word] - done))

    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=fixed,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    learner = Tokenizer(WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = WhitespaceSplit()
    learner.train_from_iterator(repeated(), trainer)
    numbers = learner.get_vocab()
    return sorted(numbers, key=lambda word: numbers[word]), num_too_long
