"""Flaws of a question itself: asked twice, options that repeat, no right option."""

from pathlib import Path

import pandas as pd
import pytest
from evidence_cases import SHAPE, block, case, question

from napari_ctvqa.core.errors import RecordError
from napari_ctvqa.core.question_checks import asked_twice, duplicate_flag, record_flags
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Option, Question, Reference
from napari_ctvqa.evidence.chains import reference_chain


def many(*rows, broken=()):
    """A QuestionSet of (case, subtype, text, reference)."""
    frame = pd.DataFrame(
        {
            "id": [f"q{n}" for n in range(len(rows))],
            "case": pd.Categorical([row[0] for row in rows]),
            "stage": "",
            "subtype": [row[1] for row in rows],
            "text": [row[2] for row in rows],
        }
    )

    def build(row):
        if row in broken:
            raise RecordError("no answer")
        case_id, subtype, text, answer = rows[row]
        return Question(f"q{row}", case_id, text, Reference(answer), subtype=subtype)

    return QuestionSet("b", Path("q.json"), frame, build)


def flag(questions, row):
    return duplicate_flag(questions, row, asked_twice(questions, row).get(row, ()))


def test_the_same_words_in_the_same_case_are_a_duplicate():
    questions = many(
        ("a", "s", "How large is the liver?", "5"),
        ("b", "s", "How large is the liver?", "5"),
        ("a", "s", "how large  is the LIVER", "5"),
        ("a", "other", "How large is the liver?", "5"),
        ("a", "s", "How large is the spleen?", "5"),
    )
    assert asked_twice(questions, 0) == {0: (2,), 2: (0,)}
    assert flag(questions, 0) == "asked more than once in this case: also q2"
    assert flag(questions, 2) == "asked more than once in this case: also q0"
    assert flag(questions, 1) == flag(questions, 3) == flag(questions, 4) == ""


def test_numbers_count_as_words():
    questions = many(("a", "s", "segment 2 or 3?", "x"), ("a", "s", "segment 2 or 4?", "x"))
    assert asked_twice(questions, 0) == {}


def test_another_reference_is_said():
    questions = many(*[("a", "s", "Any lesion?", answer) for answer in ("Yes", "yes.", "No")])
    assert flag(questions, 0) == ("asked more than once in this case, with another reference: q2")
    assert flag(questions, 2).endswith("with another reference: q0, q1")


def test_many_duplicates_are_counted_and_a_broken_record_stops_nothing():
    rows = [("a", "s", "Any?", "Yes")] * 9
    assert flag(many(*rows), 0).endswith("also q1, q2, q3, q4, q5 and 3 more")
    assert "with another reference: q1" in flag(many(*rows, broken={1}), 0)


@pytest.mark.parametrize(
    ("options", "letter", "answer", "said"),
    [
        ("Yes|No", "A", "Yes", ()),
        ("62.8|31.4", "B", "31.40", ()),
        ("Normal (no splenomegaly)|Mild", "A", "Normal", ()),
        ("1|1|2", "A", "1", ("options A and B say the same",)),
        ("Mild|mild.|Severe", "C", "Severe", ("options A and B say the same",)),
        ("Yes|No", "C", "Yes", ("the right option is 'C', which is none of the options",)),
        ("Yes|No", "B", "Yes", ("the right option B says 'No', the answer 'Yes'",)),
        ("62.8|31.4", "A", "31.4", ("the right option A says '62.8', the answer '31.4'",)),
        ("62.8|31.4", "A", "A", ()),
        ("62.8|31.4", "A", "", ()),
        ("", "", "Yes", ()),
    ],
)
def test_options_and_reference_are_held_against_each_other(options, letter, answer, said):
    listed = tuple(Option("ABC"[n], text) for n, text in enumerate(options.split("|")) if text)
    asked = Question("q", "a", "?", Reference(answer, letter), listed)
    assert record_flags(asked) == said


LIVER = block(SHAPE, slice(5, 15), slice(10, 20), slice(10, 20))  # 2.0 cm³
HALF = block(SHAPE, slice(5, 10), slice(10, 20), slice(10, 20))
TWO = {"liver": LIVER, "liver_lesion": block(SHAPE, 5, 10, 10, into=HALF & False)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("2.0|3.0|4.0", ()),
        ("1.0|3.0|4.0", ("no option holds the recomputed value 2.0 cm³",)),
        ("2.0|2.00|4.0", ("options A and B both hold the recomputed value 2.0 cm³",)),
        ("large|small", ()),
    ],
)
def test_the_recomputed_number_is_among_the_options_once(options, said):
    asked = question(
        "organ volume measurement", "Volume of the liver?", organ="liver", options=options,
        answer="2.0", letter="A",
    )  # fmt: skip
    assert reference_chain(asked, case({"liver": LIVER})).flags == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("Yes|No", ()),
        ("No|Not present", ("no option holds the recomputed value Yes",)),
        ("Yes|Present|No", ("options A and B both hold the recomputed value Yes",)),
        ("perhaps|maybe", ()),
    ],
)
def test_the_recomputed_label_is_among_the_options_once(options, said):
    asked = question(
        "liver lesion existence", "Any lesion of the liver?", organ="liver", options=options,
        answer="Yes", letter="A",
    )  # fmt: skip
    assert reference_chain(asked, case(TWO)).flags == said
