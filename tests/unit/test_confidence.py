"""How sure a model was: shares of options, agreement of samples, and what is kept of both."""

import json
from types import MappingProxyType

import pytest
from evidence_cases import question

from napari_ctvqa.core.confidence import (
    Confidence,
    OptionShare,
    Source,
    as_record,
    confidence_line,
    confidence_of,
    content,
    of_masses,
    of_samples,
)
from napari_ctvqa.core.records import AnswerFormat, Option, Prediction

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM
TEXTS = ("None", "Mild", "Moderate", "Severe")
FOUR = tuple(map(Option, "ABCD", TEXTS))
MASSES = {"A": 0.6, "B": 0.2, "D": 0.05}


def logits(answer="A", masses=MASSES, options=FOUR, unfollowed=0.0):
    return of_masses(Source.LOGITS, options, masses, answer, unfollowed)


def shares(confidence):
    return {one.letter: one.share for one in confidence.options}


def test_shares_are_of_the_options_alone_and_the_rest_is_told():
    made = logits()
    assert shares(made) == pytest.approx(
        {"A": 0.6 / 0.85, "B": 0.2 / 0.85, "C": 0, "D": 0.05 / 0.85}
    )
    assert sum(shares(made).values()) == pytest.approx(1)
    assert made.outside == pytest.approx(0.15)
    assert made.value == pytest.approx(0.6 / 0.85)
    assert [one.mass for one in made.options] == [0.6, 0.2, 0.0, 0.05]


def test_the_value_is_that_of_the_answer_that_was_read_not_of_the_likeliest():
    assert logits("B").value == pytest.approx(0.2 / 0.85)
    unread = logits("")
    assert unread.value is None and "no answer was read" in unread.problem
    assert shares(unread) == pytest.approx(shares(logits()))


def test_a_shuffled_question_has_the_shares_with_the_texts():
    """Options are told by what they say: letters move, texts keep their share."""
    shuffled = tuple(map(Option, "ABCD", (TEXTS[k] for k in (2, 0, 3, 1))))
    moved = {"B": 0.6, "D": 0.2, "C": 0.05}
    by_text = {one.text: one.share for one in logits("B", moved, shuffled).options}
    assert by_text == pytest.approx({one.text: one.share for one in logits().options})
    assert logits("B", moved, shuffled).value == pytest.approx(logits("A").value)


@pytest.mark.parametrize("hidden", [("C", 0.1), ("A", 0.1), ("D", 0.06)])
def test_no_option_has_more_than_its_bound_wherever_the_unseen_mass_lies(hidden):
    made = logits(unfollowed=0.1)
    letter, mass = hidden
    true = {key: MASSES.get(key, 0) + (mass if key == letter else 0) for key in "ABCD"}
    total = sum(true.values())
    for one in made.options:
        assert true[one.letter] / total <= one.at_most + 1e-12
        assert true[one.letter] / total >= one.mass / (sum(MASSES.values()) + 0.1) - 1e-12


def test_an_option_without_any_mass_is_below_something_never_zero():
    line = confidence_line(logits(unfollowed=0.05))
    assert "C < 0.06" in line and "0.00" not in line
    assert "C < 0.01" in confidence_line(logits())
    assert "C < 0.04" in confidence_line(logits(unfollowed=0.029))  # 0.033
    assert confidence_line(logits()) == (
        "Confidence: A 0.71 · B 0.24 · D 0.06 · C < 0.01; 0.15 outside the options; from logits"
    )
    assert "A 0.67–0.72" in confidence_line(logits(unfollowed=0.05))


def test_probabilities_that_add_up_to_a_little_more_than_one_are_kept():
    made = logits(masses={"A": 1.0000003, "B": 2e-7}, unfollowed=-1e-9)
    assert made.outside == 0.0 and made.unfollowed == 0.0
    back = confidence_of(kept(json.loads(json.dumps(as_record(made)))))
    assert back is not None and back.value == pytest.approx(1.0)


def test_nothing_seen_is_no_confidence():
    made = logits(masses={})
    assert made.value is None and not made.options
    assert confidence_line(made).startswith("No confidence from logits: the model gave none")
    failed = of_masses(Source.LOGPROBS, FOUR, MASSES, "A", problem="the server tells none")
    assert failed.value is None and failed.problem == "the server tells none"


def samples(answer, texts, asked=None, answer_format=MC, temperature=0.7):
    asked = asked or question("liver lesion existence", "Any?", options="Yes|No", letter="A")
    return of_samples(asked, answer_format, answer, texts, temperature)


def test_samples_agree_by_content_not_by_wording():
    made = samples(
        "A", ["A", "(A)", "The answer is A.", "Yes", "B", "I cannot tell", "A: Yes", "No"]
    )
    assert made.samples == ("A", "A", "A", "A", "B", "", "A", "B")
    assert made.value == pytest.approx(5 / 8)
    assert made.counts == {"A": 5, "B": 2, "": 1}
    assert confidence_line(made) == (
        "Confidence: A 0.62: 5 of 8 samples at temperature 0.7 agree; A 5, B 2, unread 1"
    )


def test_an_answer_that_was_not_read_agrees_with_nothing():
    made = samples("I cannot tell", ["I cannot tell", "A"])
    assert made.value is None
    assert "none of the answer itself" in confidence_line(made)
    assert samples("A", []).value is None


def test_yes_and_no_are_counted_as_such():
    made = samples("Yes.", ["Yes", "There is a lesion.", "No"], answer_format=FREE)
    assert made.answer == "yes" and made.value == pytest.approx(2 / 3)


def test_numbers_agree_within_ten_per_cent_and_tell_their_spread():
    asked = question("organ volume measurement", "Volume of the liver in cm3?", answer="1")
    made = samples("1500", ["1400 cm3", "1.5 L", "1650", "1651", "3000", "hm"], asked, FREE)
    assert made.samples == ("1400", "1500", "1650", "1651", "3000", "")
    assert made.value == pytest.approx(3 / 6)
    assert (made.spread.low, made.spread.median, made.spread.high) == (1400, 1650, 3000)
    assert (made.spread.first_quartile, made.spread.third_quartile) == (1500, 1651)
    line = confidence_line(made)
    assert "3 of 6 samples" in line and "median 1650, middle half 1500 to 1651" in line
    assert "1 unread" in line


def test_counts_agree_where_they_are_equal():
    asked = question("lesion counting", "How many?", answer="1")
    made = samples("10 lesions", ["10", "11", "ten lesions", "9"], asked, FREE)
    assert made.value == pytest.approx(2 / 4)


def test_the_reference_does_not_help_samples_to_agree():
    """Else an answer that is right would agree with itself more often than one that is wrong."""
    texts = ["a simple cyst", "cyst", "It is a cyst."]
    for reference in ("cyst", "tumour"):
        asked = question("liver lesion type", "Kind?", answer=reference)
        assert samples(texts[0], texts, asked, FREE).value == pytest.approx(1 / 3)


def test_a_category_is_found_in_its_sentence():
    asked = question("x", "Where?", options="right lobe|left lobe", answer="right lobe")
    assert content(asked, FREE, "In the right lobe of it.") == "right lobe"
    assert content(asked, FREE, "right lobe or left lobe") == "right lobe or left lobe"
    assert content(asked, FREE, "I cannot tell") == ""
    assert content(asked, FREE, "[ERROR] no server") == ""


MADE = [
    logits(unfollowed=0.02),
    logits("", {}),
    samples("A", ["A", "B", ""]),
    samples("5", ["5", "7"], question("organ hu measurement", "HU?", answer="1"), FREE),
]


def kept(data):
    return Prediction("q", "m", "A", record=MappingProxyType({"confidence": data}))


@pytest.mark.parametrize("made", MADE)
def test_what_is_kept_is_what_was_made(made):
    data = json.loads(json.dumps(as_record(made), allow_nan=False))
    back = confidence_of(kept(data))
    assert confidence_line(back) == confidence_line(made)
    assert as_record(back) == data
    assert back.value == pytest.approx(made.value) and back.samples == made.samples


def test_no_confidence_is_none():
    assert confidence_of(Prediction("q", "m", "A")) is None


GOOD = as_record(logits(unfollowed=0.02))


@pytest.mark.parametrize(
    "damage",
    [
        {"from": "tea leaves"},
        {"value": 1.2},
        {"value": "0.9"},
        {"value": True},
        {"value": float("nan")},
        {"value": 10**400},
        {"answer": 3},
        {"options": [{"letter": "A"}]},
        {"options": [{**GOOD["options"][0], "share": -0.1}]},
        {"options": GOOD["options"] * 50},
        {"options": 7},
        {"samples": ["A"] * 1000},
        {"spread": {}},
        {"temperature": []},
        {"outside": 2},
    ],
)
def test_a_damaged_record_is_none(damage):
    assert confidence_of(kept(GOOD)) is not None
    assert confidence_of(kept({**GOOD, **damage})) is None
    assert confidence_of(kept([])) is None


def test_a_share_is_what_it_says():
    one = OptionShare("A", "x", 0.5, 0.4, 0.5)
    assert as_record(Confidence(Source.LOGITS, "A", 0.5, (one,)))["options"][0]["share"] == 0.5
