"""Questions put otherwise."""

import pytest

from napari_ctvqa.core.changed_questions import (
    anatomical_words,
    plain_words,
    reworded,
    shuffled,
)
from napari_ctvqa.core.probe_results import said_in
from napari_ctvqa.core.probes import CannotProbeError
from napari_ctvqa.core.records import AnswerFormat, Option, Question, Reference

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM


def asked(text="Which kidney?", options=("Left", "Right", "the same"), letter="B"):
    listed = tuple(Option("ABCDEFGH"[n], said) for n, said in enumerate(options))
    reference = dict(zip("ABCDEFGH", options, strict=False)).get(letter, "")
    return Question("q", "c", text, Reference(reference, letter), listed)


def test_every_option_moves_and_the_reference_goes_along():
    put = shuffled(asked(), MC)
    assert [(o.letter, o.text) for o in put.options] == [
        ("A", "the same"),
        ("B", "Left"),
        ("C", "Right"),
    ]
    assert put.reference == Reference("Right", "C")


def test_answers_are_compared_by_what_the_option_says():
    question = asked()
    put = shuffled(question, MC)
    assert said_in(question, "B", MC) == said_in(put, "C", MC) == "right"
    assert said_in(question, "B", MC) != said_in(put, "B", MC)


@pytest.mark.parametrize(
    ("question", "answer_format", "why"),
    [
        (asked(), FREE, "no options are sent"),
        (asked(options=("Left",)), MC, "no two options"),
        (asked(options=("Left", "Right", "none of the above")), MC, "speaks of other options"),
        (asked(options=("Left", "Right", "A and B")), MC, "speaks of other options"),
    ],
)
def test_what_cannot_be_shuffled(question, answer_format, why):
    with pytest.raises(CannotProbeError, match=why):
        shuffled(question, answer_format)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Is there a lesion in the liver?", "Does the liver have a lesion?"),
        ("Are there any lesions in the kidneys?", "Does the kidneys have any lesions?"),
        ("Does the liver contain any lesion?", "Is there any lesion in the liver?"),
        ("Is there a lesion?", "Does this scan show a lesion?"),
        ("On which side is the lesion?", "Which side is the lesion on?"),
        ("How many cysts are there?", "What is the number of cysts on this scan?"),
        ("What is the volume of the spleen?", "Please give the volume of the spleen."),
        ("Pick the kidney that is bigger:", "On this scan: Pick the kidney that is bigger:"),
    ],
)
def test_other_words_of_the_table(text, said):
    assert reworded(asked(text), MC).text == said


def test_options_and_reference_stay_with_other_words():
    put = reworded(asked(), MC)
    assert put.options == asked().options and put.reference == asked().reference


def test_words_of_anatomy_and_plain_ones():
    text = "Is the hepatic lesion superior to the renal cyst?"
    plain = plain_words(asked(text), MC).text
    assert plain == "Is the liver lesion above the kidney cyst?"
    assert (
        anatomical_words(asked("Is it above the cyst?"), MC).text == "Is it superior to the cyst?"
    )
    assert plain_words(asked("Superior pole?"), MC).text == "Upper pole?"
    for change in (plain_words, anatomical_words):
        with pytest.raises(CannotProbeError, match="no word"):
            change(asked("Is the liver large?"), MC)
