"""The grammar of ``--where`` and of the search line: which questions are shown.

``field:value`` (stage, subtype, case, model, outcome), values with blanks in quotes, ``-`` before a
term negates it, plain words search id and text; all terms must hold. Case does not matter.

* A value selects the rows whose field equals it; where none does, those whose field contains it.
  ``_`` and blank are the same. A field with several labels (``a; b``) is looked at label by label.
* ``model:NAME`` selects the questions this model answered, and narrows ``outcome:`` to it.
* ``outcome:right|wrong|unread|unscored`` is the official outcome of any model shown (or named);
  ``outcome:disagrees`` selects answers that the official scorer and a careful reader read
  differently.
* ``official:`` and ``read:`` take the same outcomes apart, as an audit counts them: what the
  official scorer gives (to a failed answer, too, whose ``outcome:`` is unread), and what a careful
  reader does. ``unread:several`` is why a reader reads nothing (``core.unread``).
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import contains
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import Outcome
from napari_ctvqa.core.unread import Unread, unread_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Score

SCORE_FIELDS = ("outcome", "official", "read", "unread")
"""Fields that tell how an answer counts."""
FIELDS = ("stage", "subtype", "case", "model", *SCORE_FIELDS)
DISAGREES = "disagrees"
OUTCOMES = (*(outcome.value for outcome in Outcome), DISAGREES)
VALUES: Mapping[str, tuple[str, ...]] = {
    "outcome": OUTCOMES,
    "official": tuple(outcome.value for outcome in Outcome),
    "read": tuple(outcome.value for outcome in Outcome),
    "unread": tuple(kind.value for kind in Unread),
}
"""What a field about scores may be."""
_PLURALS = {
    "outcome": "outcomes",
    "official": "official outcomes",
    "read": "outcomes as read",
    "unread": "kinds of unread answers",
}

Scores = Mapping[str, Mapping[str, "Score"]]
_Flags = npt.NDArray[np.bool_]

_BETWEEN = "\x00"
_SAMPLE = 500
_SWEPT_PER_LOOK = 250
"""Bytes that are swept in the time that one text is looked at, roughly."""

_TERM = re.compile(r'(-?)(?:(\w+):)?(?:"([^"]*)"|([^\s"]*))')


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; an empty field is a word to search for."""

    field: str
    value: str
    negated: bool = False


class WhereError(CtvqaError):
    """A filter that cannot be understood."""

    code = "where"


def parse_where(text: str) -> Where:
    """Return the filter that a text describes; an empty text selects everything.

    A quote that is not closed (yet) ends with the text.

    Raises
    ------
    WhereError
        For an unknown field or outcome, listing what exists.
    """
    if text.count('"') % 2:
        text += '"'
    terms: list[Term] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _TERM.match(text, position)
        if match is None or match.end() == position:
            position += 1
            continue
        position = match.end()
        terms += _term(match)
    return Where(tuple(terms))


def _term(match: re.Match[str]) -> list[Term]:
    negated = bool(match[1])
    field = (match[2] or "").lower()
    value = match[3] if match[3] is not None else match[4]
    if not field:
        if value == "" and negated:
            return [Term("", "-")] if match[3] is None else []
        return [Term("", value.lower(), negated)] if value else []
    if field not in FIELDS:
        raise WhereError(
            f"the filter has no field {field!r}; fields are {', '.join(FIELDS)}.",
            hint=f'To search for the text, quote it: "{match[0].lstrip("-")}".',
        )
    if field in VALUES:
        value = _score_value(field, value)
    return [Term(field, value, negated)] if value else []


def _score_value(field: str, value: str) -> str:
    """Return what a value about scores means; a beginning of its name will do."""
    lowered, known = value.lower(), VALUES[field]
    if not lowered or lowered in known:
        return lowered
    fits = [name for name in known if name.startswith(lowered)]
    if not fits:
        raise WhereError(
            f"the filter has no {field} {value!r}; {_PLURALS[field]} are {', '.join(known)}.",
            hint=f"Example: {field}:{known[1]}.",
        )
    return fits[0]


def _fold(text: str) -> str:
    return text.replace("_", " ").lower()


@dataclass(frozen=True, slots=True)
class Where:
    """A filter; ``rows`` applies it."""

    terms: tuple[Term, ...] = ()

    @property
    def needs_scores(self) -> bool:
        """Return whether the filter asks about models or outcomes."""
        return any(term.field in ("model", *SCORE_FIELDS) for term in self.terms)

    def rows(
        self, questions: QuestionSet, scores_by_model: Scores | None = None
    ) -> npt.NDArray[np.intp]:
        """Return the rows that satisfy every term, in file order."""
        keep = np.ones(len(questions), np.bool_)
        for term in self.terms:
            if term.field in ("stage", "subtype", "case"):
                keep &= _column_flags(questions, term) ^ term.negated
        scores = _chosen_models(self.terms, scores_by_model or {})
        for term in self.terms:
            if term.field in ("model", *SCORE_FIELDS):
                keep &= _score_flags(questions, term, scores, scores_by_model or {}) ^ term.negated
        for term in self.terms:
            if not term.field:
                _search(questions, term, keep)
        return np.flatnonzero(keep)


class _Words:
    """Texts to be searched for words: one by one, or in one sweep over all of them joined."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = np.empty(len(texts), np.object_)
        self.texts[:] = texts
        joined = _BETWEEN.join(texts)
        self._joined = joined.encode("utf-8", "surrogatepass")
        if not joined.isascii():
            sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
        else:
            sizes = list(map(len, texts))
        self._starts = np.zeros(len(texts) + 1, np.intp)
        np.cumsum(np.asarray(sizes, np.intp) + 1, out=self._starts[1:])

    def found(self, places: npt.NDArray[np.intp], word: str) -> _Flags:
        """Return which of the texts at ``places`` hold the word, by whichever way costs least.

        A rare word is found in one sweep, which would cost more than looking at each text when it
        stopped often. The same few texts at very many places are looked at once.
        """
        sample = self.texts[places[:: max(1, len(places) // _SAMPLE)]]
        rare = sum(word in text for text in sample) * 20 < len(sample)
        if rare and _BETWEEN not in word and len(self._joined) < _SWEPT_PER_LOOK * len(places):
            return self._swept(word)[places]
        if len(self.texts) < len(places):
            return self._each(np.arange(len(self.texts)), word)[places]
        return self._each(places, word)

    def _each(self, places: npt.NDArray[np.intp], word: str) -> _Flags:
        texts = self.texts[places].tolist()
        return np.fromiter(map(contains, texts, repeat(word)), np.bool_, len(texts))

    def _swept(self, word: str) -> _Flags:
        flags = np.zeros(len(self.texts), np.bool_)
        wanted = word.encode("utf-8", "surrogatepass")
        at = self._joined.find(wanted)
        while at >= 0:
            place = int(np.searchsorted(self._starts, at, side="right")) - 1
            flags[place] = True
            at = self._joined.find(wanted, int(self._starts[place + 1]))
        return flags


@dataclass
class _Index:
    """What is worked out once for a set: codes and labels a column, and the words to search.

    Questions are made from templates: many rows share few texts, so each text is searched once.
    """

    codes: dict[str, npt.NDArray[np.intp]]
    labels: dict[str, list[list[str]]]
    ids: _Words
    texts: _Words
    text_codes: npt.NDArray[np.intp]


_index_of: weakref.WeakKeyDictionary[QuestionSet, _Index] = weakref.WeakKeyDictionary()


def prepare(questions: QuestionSet) -> None:
    """Work out what filtering needs, so that the first filter is as quick as the next."""
    _index(questions)


def _index(questions: QuestionSet) -> _Index:
    index = _index_of.get(questions)
    if index is None:
        index = _index_of[questions] = _build_index(questions)
    return index


def _build_index(questions: QuestionSet) -> _Index:
    frame = questions.frame
    codes: dict[str, npt.NDArray[np.intp]] = {}
    labels: dict[str, list[list[str]]] = {}
    for name in ("stage", "subtype", "case"):
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes[name] = np.asarray(column.cat.codes, dtype=np.intp)
            values = column.cat.categories.tolist()
        else:
            numbers, unique = pd.factorize(column)
            codes[name], values = np.asarray(numbers, dtype=np.intp), list(unique)
        labels[name] = [[_fold(part) for part in str(value).split("; ")] for value in values]
    text_codes, texts = pd.factorize(frame["text"])
    return _Index(
        codes,
        labels,
        _Words([str(id_).lower() for id_ in frame["id"].tolist()]),
        _Words([str(text).lower() for text in texts]),
        np.asarray(text_codes, dtype=np.intp),
    )


def _column_flags(questions: QuestionSet, term: Term) -> _Flags:
    index = _index(questions)
    labels = index.labels[term.field]
    wanted = _fold(term.value)
    hits = np.fromiter((wanted in parts for parts in labels), np.bool_, len(labels))
    if not hits.any():
        contained = (any(wanted in part for part in parts) for parts in labels)
        hits = np.fromiter(contained, np.bool_, len(labels))
    if not len(labels):
        return np.zeros(len(questions), np.bool_)
    return hits[index.codes[term.field]]


def _search(questions: QuestionSet, term: Term, keep: _Flags) -> None:
    """Clear the flags of rows that fail a word, looking at no more than the rows still kept."""
    rows = np.flatnonzero(keep)
    index, word = _index(questions), term.value
    found = index.texts.found(index.text_codes[rows], word)
    rest = np.flatnonzero(~found)
    found[rest] = index.ids.found(rows[rest], word)
    keep[rows] = found ^ term.negated


def _models(value: str, scores: Scores) -> list[str]:
    wanted = _fold(value)
    exact = [name for name in scores if _fold(name) == wanted]
    return exact or [name for name in scores if wanted in _fold(name)]


def _chosen_models(terms: tuple[Term, ...], scores: Scores) -> Scores:
    named = [t for t in terms if t.field == "model" and not t.negated]
    if not named:
        return scores
    chosen = {name for term in named for name in _models(term.value, scores)}
    return {name: scores[name] for name in scores if name in chosen}


def _test_of(term: Term) -> Callable[[Score], bool]:
    """Return what a score must be for a term."""
    if term.field == "unread":
        kind = Unread(term.value)
        return lambda score: unread_of(score) is kind
    if term.value == DISAGREES:
        return lambda score: score.disagrees
    wanted = Outcome(term.value)
    if term.field == "official":
        return lambda score: score.official is wanted
    if term.field == "read":
        return lambda score: score.ours is wanted
    return lambda score: score.shown is wanted


def _score_flags(questions: QuestionSet, term: Term, chosen: Scores, every: Scores) -> _Flags:
    if term.field == "model":
        ids = [key for name in _models(term.value, every) for key in every[name]]
    else:
        fits = _test_of(term)
        ids = [key for by_id in chosen.values() for key, score in by_id.items() if fits(score)]
    rows = np.fromiter(map(questions.row_of.get, ids, repeat(-1)), np.intp, len(ids))
    flags = np.zeros(len(questions), np.bool_)
    flags[rows[rows >= 0]] = True
    return flags
