"""A WordPiece vocabulary learnt from a collection, the same for the same texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.processors import BertProcessing
from tokenizers.trainers import WordPieceTrainer
from transformers import PreTrainedTokenizerFast

SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET = 1000
"""Characters kept at most, the commonest; rarer ones become [UNK]. BERT's own list has about 1,000."""


def learn_wordpieces(texts: Iterable[str], *, vocab_size: int) -> list[str]:
    """At most `vocab_size` word pieces of uncased texts, special words first.

    The trainer numbers what it meets in an order that changes between runs, and breaks ties by
    number; so it is given every character, with its continuing form, in a fixed order beforehand.

    Raises:
        ValueError: `vocab_size` leaves no room for words beside specials and characters.
    """
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
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
            f"each alone and continuing), got {vocab_size}."
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
    return sorted(numbers, key=lambda word: numbers[word])


def wordpiece_tokenizer(words: list[str], *, max_length: int) -> PreTrainedTokenizerFast:
    """BERT's uncased tokenizer over these words."""
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder(prefix="##")
    tokenizer.post_processor = BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
