"""What scorers share: options out of a text, closeness, readings by the kind of a question."""

import math

import pytest

from napari_ctvqa.core.records import AnswerType, Option, Outcome, Question, Reference, Score
from napari_ctvqa.core.scoring import close_enough, disagreeing, parse_options, read_answer


@pytest.mark.parametrize(
    ("text", "stem", "options"),
    [
        ("How many? A: 1 B: 2 C: 3", "How many?", ["1", "2", "3"]),
        ("How many?\nA) 1\nB) 2", "How many?", ["1", "2"]),
        ("How many? (A) 1 (B) 2", "How many?", ["1", "2"]),
        ("How many? A. 1 B. 2", "How many?", ["1", "2"]),
        ("How many? A: 1, B: 2;", "How many?", ["1", "2"]),
        ("Compare segment A: and B: there? A: yes B: no", "Compare segment A: and B: there?",
         ["yes", "no"]),
        ("Compare B: and C:", "Compare B: and C:", []),
        ("Is vitamin A: useful?", "Is vitamin A: useful?", []),
        ("", "", []),
    ],
)  # fmt: skip
def test_options_are_split_off(text, stem, options):
    found_stem, found = parse_options(text)
    assert (found_stem, [o.text for o in found]) == (stem, options)
    assert [o.letter for o in found] == list("ABCDE"[: len(options)])


@pytest.mark.parametrize(
    ("value", "reference", "exact", "right"),
    [
        (110, 100, False, True),
        (110.1, 100, False, False),
        (-9, -10, False, True),
        (0, 0, False, True),
        (0.001, 0, False, False),
        (24, 25, True, False),
        (25, 25, True, True),
        (math.nan, 1, False, False),
        (math.inf, math.inf, False, False),
    ],
)
def test_close_enough(value, reference, exact, right):
    assert close_enough(value, reference, exact=exact) is right


def question(kind, reference, letter="", options=()):
    return Question("q", "c", "Is it?", Reference(reference, letter), options, answer_type=kind)


LEFT_RIGHT = (Option("A", "left kidney"), Option("B", "right kidney"))


@pytest.mark.parametrize(
    ("asked", "text", "outcome"),
    [
        (question(AnswerType.BINARY, "Yes"), "Yes, there is.", Outcome.RIGHT),
        (question(AnswerType.BINARY, "Yes"), "Normal", Outcome.UNREAD),
        (question(AnswerType.BINARY, "resectable"), "It is resectable.", Outcome.RIGHT),
        (question(AnswerType.NUMERIC, "12.0"), "about 12.5", Outcome.RIGHT),
        (question(AnswerType.NUMERIC, "12.0"), "between 11 and 13", Outcome.UNREAD),
        (question(AnswerType.NUMERIC, "unknown"), "12", Outcome.UNSCORED),
        (question(AnswerType.CATEGORICAL, "left", "A", LEFT_RIGHT), "the left kidney is larger",
         Outcome.RIGHT),
        (question(AnswerType.CATEGORICAL, "left", "A", LEFT_RIGHT), "the right kidney is larger",
         Outcome.WRONG),
        (question(AnswerType.CATEGORICAL, "T2"), "It is not T2", Outcome.WRONG),
        (question(AnswerType.CATEGORICAL, "T2"), "Stage T2.", Outcome.RIGHT),
        (question(AnswerType.OPEN, "a cyst"), "I cannot tell", Outcome.UNREAD),
        (question(AnswerType.OPEN, "a cyst"), "", Outcome.UNREAD),
        (question(AnswerType.OPEN, ""), "anything", Outcome.UNSCORED),
        (question(AnswerType.OPEN, "a cyst"), "[ERROR] a cyst", Outcome.UNREAD),
    ],
)  # fmt: skip
def test_answers_are_read_by_kind(asked, text, outcome):
    assert read_answer(asked, text, choice=False)[0] is outcome


def test_a_letter_without_a_reference_letter_is_not_scored():
    asked = question(AnswerType.CATEGORICAL, "left", "", LEFT_RIGHT)
    assert read_answer(asked, "A", choice=True)[0] is Outcome.UNSCORED


def test_disagreements_are_listed_in_the_order_given():
    same = Score(Outcome.WRONG, "A", Outcome.WRONG, "A")
    other_letter = Score(Outcome.WRONG, "A", Outcome.WRONG, "C", readings_differ=True)
    other_outcome = Score(Outcome.WRONG, "A", Outcome.RIGHT, "C")
    scores = {"a": other_outcome, "b": same, "c": other_letter}
    assert disagreeing(scores, ["c", "b", "a", "gone"]) == ["c", "a"]
