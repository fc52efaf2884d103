"""In which languages texts seem to be written: by the scripts of letters, and by common words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

NAMES = {
    **{"ar": "Arabic", "bn": "Bengali", "da": "Danish", "de": "German", "en": "English", "es": "Spanish"},
    **{
        "fa": "Persian",
        "fi": "Finnish",
        "fr": "French",
        "hi": "Hindi",
        "hu": "Hungarian",
        "id": "Indonesian",
    },
    **{"it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian", "pl": "Polish"},
    **{"pt": "Portuguese", "ru": "Russian", "sv": "Swedish", "te": "Telugu", "th": "Thai", "tr": "Turkish"},
    **{"uk": "Ukrainian", "zh": "Chinese"},
}
_SCRIPTS = {  # as the names of letters in Unicode begin; of the other languages LATIN
    **{"ar": ("ARABIC",), "fa": ("ARABIC",), "bn": ("BENGALI",), "hi": ("DEVANAGARI",), "ko": ("HANGUL",)},
    **{"ru": ("CYRILLIC",), "uk": ("CYRILLIC",), "te": ("TELUGU",), "th": ("THAI",), "zh": ("CJK",)},
    **{"ja": ("CJK", "HIRAGANA", "KATAKANA")},
}
_KANA = _SCRIPTS["ja"][1:]
_FEWEST_LETTERS, _FEWEST_WORDS = 200, 500  # fewer tell nothing
_SURE = 0.01  # of the words; in running text they are a tenth or more, in lists of names hardly any
# Words that are frequent in a language and in few others, also not in neighbours such as Czech or Romanian.
_WORDS = {
    "ar": "في من على إلى أن التي الذي هذا هذه كان ما لم",
    "da": "og af som ikke blev efter være også mellem hvor",
    "de": "der und das ist nicht ein eine auf für mit wird sich auch dem",
    "en": "the of and that with are from this which have not but you they were has been its by",
    "es": "el los las y del por más pero como fue sus su este muy",
    "fa": "در به از که این است را با برای شد های",
    "fi": "oli että ei myös kuin hän joka ovat sekä mutta tai",
    "fr": "les et du est dans pour pas qui une avec aux cette ont",
    "hu": "az és hogy nem egy volt csak meg vagy mint",
    "id": "yang dan untuk dari dengan pada ini tidak adalah dalam",
    "it": "il che di della gli sono nel più con alla anche è dei",
    "nl": "het een van voor zijn niet ook werd naar aan bij maar",
    "no": "ikke av til også etter ble kunne noen fra hvis",
    "pl": "w się jest przez oraz dla są lub jako także które jego był",
    "pt": "o os um uma não para mais ao pelo foi são ou das dos",
    "ru": "что это как из был для его они также чтобы",
    "sv": "och att som inte är för av ett den efter var från även",
    "tr": "ve bir bu için ile olarak çok daha gibi olan kadar",
    "uk": "що це як із та для його був також або є",
}
_WORD = re.compile(r"\w+")


class LanguageTally:
    """Counts of letters by script, of words, and of the commonest words by language."""

    def __init__(self) -> None:
        self._letters, self._common, self._num_words = Counter[str](), Counter[str](), 0

    def add(self, text: str) -> None:
        """Count a text."""
        self._letters.update(_script(letter) for letter in text if letter.isalpha())
        words = _WORD.findall(text.lower())
        self._num_words += len(words)
        self._common.update(language for word in words for language in _languages_of_word().get(word, ()))

    def as_json(self) -> dict[str, Any]:
        """The counts, for `language_of` and `is_written_in`."""
        return {"letters": dict(self._letters), "words": self._num_words, "common_words": dict(self._common)}


def language_of(counts: Mapping[str, Any]) -> str | None:
    """The language that texts seem to be written in; None of few texts, and of a language that is not here.

    >>> tally = LanguageTally()
    >>> tally.add("Koszt jest wysoki, ale nie przez to, że się psuje. " * 10)
    >>> language_of(tally.as_json()), is_written_in(tally.as_json(), "en")
    ('pl', False)
    """
    shares = _shares(counts)
    language = max(shares, key=lambda name: shares[name], default=None)
    return language if language is not None and shares[language] >= _SURE else None


def is_written_in(counts: Mapping[str, Any], language: str) -> bool:
    """Whether texts may be of a language; only false where they surely are not.

    They are not if most letters are of another script, if another language has half as many common words
    again, or if of many words hardly any is a common one of this language.
    """
    if sum(counts["letters"].values()) < _FEWEST_LETTERS:
        return True
    best = language_of(counts)
    if language not in NAMES:  # a code such as cs is another language than the one found; a word may be any
        return best is None or len(language) != 2
    shares = _shares(counts)
    own = shares.get(language)
    if own is None:
        return False
    is_other = best is not None and shares[best] > 1.5 * own
    return not is_other and (own >= _SURE or counts["words"] < _FEWEST_WORDS)


def _shares(counts: Mapping[str, Any]) -> dict[str, float]:
    """The share of common words, by language whose script most letters have; 1 where its script is enough."""
    letters, num_letters = counts["letters"], sum(counts["letters"].values())
    if num_letters < _FEWEST_LETTERS:
        return {}
    kana = sum(letters.get(script, 0) for script in _KANA) / num_letters
    shares = {}
    for language in NAMES:
        scripts = _SCRIPTS.get(language, ("LATIN",))
        is_script = sum(letters.get(script, 0) for script in scripts) >= num_letters / 2
        if is_script and not (language == "ja" and kana < 0.1) and not (language == "zh" and kana >= 0.1):
            has_words = language in _WORDS
            shares[language] = (
                counts["common_words"].get(language, 0) / max(counts["words"], 1) if has_words else 1.0
            )
    return shares


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]


@cache
def _languages_of_word() -> dict[str, list[str]]:
    languages: dict[str, list[str]] = {}
    for language, words in _WORDS.items():
        for word in words.split():
            languages.setdefault(word, []).append(language)
    return languages
