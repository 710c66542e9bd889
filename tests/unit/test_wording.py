"""Words of a question that flip, limit or redirect it: understood exactly, or refused."""

import numpy as np
import pytest
from evidence_cases import SHAPE, block, case, question

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.rules import rule_for, supported
from napari_ctvqa.core.understanding import understand
from napari_ctvqa.evidence.chains import reference_chain
from napari_ctvqa.models.rules import MODEL

EXISTS, DETECT, COMPARE = (
    "liver lesion existence", "splenomegaly detection", "kidney volume comparison"
)  # fmt: skip
VOLUME, COUNT, BURDEN = "organ volume measurement", "lesion counting", "lesion volume measurement"
CASE = case(
    {
        "liver": block(SHAPE, slice(2, 12), slice(2, 12), slice(2, 12)),
        "liver_lesion": block(SHAPE, slice(3, 5), slice(3, 5), slice(3, 5)),
        "spleen": block(SHAPE, slice(2, 6), slice(30, 34), slice(40, 44)),
        "gall_bladder": block(SHAPE, slice(14, 16), slice(2, 6), slice(2, 6)),
        "kidney_left": block(SHAPE, slice(20, 26), slice(20, 26), slice(40, 46)),
        "kidney_right": block(SHAPE, slice(20, 26), slice(20, 26), slice(5, 14)),
        "kidney_lesion": block(SHAPE, slice(21, 23), slice(21, 23), slice(6, 8)),
        "kidney_cyst": np.zeros(SHAPE, bool),
    }
)


def read(subtype, text, organ="", options=""):
    return understand(question(subtype, text, organ=organ, options=options), rule_for(subtype))


def asked(subtype, text, organ="", options="", answer_format=AnswerFormat.FREEFORM):
    *_, last = MODEL.answer(
        question(subtype, text, organ=organ, options=options), CASE, answer_format
    )
    return last.raw_text


@pytest.mark.parametrize(
    ("subtype", "text", "organ", "answer"),
    [
        (EXISTS, "Is there a liver lesion? Answer yes or no without explanation.", "liver", "Yes"),
        (EXISTS, "Is there any liver lesion in this scan without contrast?", "liver", "Yes"),
        (EXISTS, "Is the liver free of lesions?", "liver", "No"),
        (EXISTS, "Is the liver without any lesions on this non-contrast CT?", "liver", "No"),
        (EXISTS, "Is a liver lesion absent?", "liver", "No"),
        ("kidney lesion existence", "In the absence of contrast, is there a kidney lesion?",
         "kidney", "Yes"),
        (DETECT, "Does the spleen volume exceed the normal limit?", "spleen", "No"),
        (DETECT, "Is the spleen size above the normal range?", "spleen", "No"),
        (DETECT, "Is the spleen larger than the upper limit of normal?", "spleen", "No"),
        (DETECT, "Is the spleen within normal limits?", "spleen", "Yes"),
        (DETECT, "Is the spleen of normal size?", "spleen", "Yes"),
        (COMPARE, "Which kidney is larger?", "kidney", "right kidney"),
        (COMPARE, "Which kidney has less volume?", "kidney", "left kidney"),
        (COMPARE, "Is the left kidney or the right kidney larger?", "kidney", "right kidney"),
        (VOLUME, "What is the combined volume of the left and right kidney?", "kidney", "1.1"),
        (VOLUME, "Volume of the left kidney?", "", "0.4"),
        (BURDEN, "What is the total lesion volume in the liver?", "liver", "0.0"),
    ],
)  # fmt: skip
def test_what_is_understood_is_answered(subtype, text, organ, answer):
    assert asked(subtype, text, organ) == answer


@pytest.mark.parametrize(
    ("subtype", "text", "organ", "named"),
    [
        (EXISTS, "Is the liver spared of lesions?", "liver", "spared"),
        (EXISTS, "Is there no liver lesion?", "liver", "'no'"),
        (EXISTS, "Is there not a liver lesion?", "liver", "'not'"),
        (EXISTS, "Isn't there a liver lesion?", "liver", "isn"),
        (EXISTS, "Is the absence of liver lesions absent?", "liver", "negations"),
        (EXISTS, "Is there a liver lesion larger than 1 cm?", "liver", "larger"),
        (EXISTS, "Is there a liver lesion in segment 4 only?", "liver", "only"),
        (EXISTS, "Unless there is a cyst, is there a liver lesion?", "liver", ""),
        (EXISTS, "How many liver lesions are there?", "liver", "amount"),
        (EXISTS, "Is the liver normal?", "liver", "normal"),
        (DETECT, "Is the spleen not enlarged?", "spleen", "'not'"),
        (DETECT, "Is the spleen larger than 400 cm³?", "spleen", "400"),
        (DETECT, "Is the spleen smaller than normal?", "spleen", "smaller"),
        (COMPARE, "Which kidney is larger? If they differ by less than 5 %, answer the same.",
         "kidney", "less"),
        (COMPARE, "Which kidney has the larger volume, or is neither smaller?", "kidney", "both"),
        (COMPARE, "Is the left kidney larger than the right kidney?", "kidney", "yes or no"),
        (VOLUME, "What is the volume of the left kidney (not the right kidney)?", "kidney", "not"),
        (VOLUME, "What is the volume of the left kidney (not the right kidney)?", "", "not"),
        (VOLUME, "What is the volume of the left kidney, opposite to the right kidney?", "",
         "opposite"),
        (VOLUME, "What is the volume of the liver, not counting the gallbladder?", "", "not"),
        (VOLUME, "What is the volume of the liver except segment 4?", "liver", "except"),
        (VOLUME, "What is the average volume of the left and right kidney?", "kidney", "average"),
        (VOLUME, "What is half of the liver's volume?", "liver", "half"),
        (VOLUME, "What is the liver volume in litres?", "liver", "litres"),
        (VOLUME, "What is the liver volume in mm³?", "liver", "mm3"),
        (VOLUME, "Is the volume of the liver large?", "liver", "yes or no"),
        (VOLUME, "What is the mean HU of the liver?", "liver", "hu"),
        (COUNT, "How many kidney lesions (other than cysts) are there?", "kidney", "other"),
        (COUNT, "How many liver lesions are there, not counting cysts?", "liver", "not"),
        (COUNT, "How many liver lesions are 1 to 2 cm?", "liver", "'1'"),
        (COUNT, "How many kidney lesions are there (tumors, cysts and others)?", "kidney",
         "others"),
        (BURDEN, "Volume of all liver lesions, the largest included?", "liver", "largest"),
        (BURDEN, "Total lesion volume in the liver, the largest abdominal organ?", "liver",
         "largest"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_a_sentence_that_names_it(
    subtype, text, organ, named
):
    assert named in read(subtype, text, organ).problem
    for answer_format in AnswerFormat:
        given = asked(subtype, text, organ, "Yes|No", answer_format)
        assert given.startswith("[ERROR] "), given


@pytest.mark.parametrize("subtype", supported())
@pytest.mark.parametrize(
    "words",
    ["not", "no", "without", "except", "unless", "neither", "5", "half", "other", "<", "if"],
)
def test_no_subtype_takes_a_word_that_could_turn_it_round(subtype, words):
    for text in (f"{words} {subtype}?", f"{subtype}, {words} that?"):
        assert read(subtype, text).problem, (subtype, text)


@pytest.mark.parametrize(
    ("subtype", "text"),
    [
        (EXISTS, "Is a liver lesion present or absent?"),
        (EXISTS, "What is the presence or absence of liver lesions?"),
        (DETECT, "Is the spleen normal or enlarged?"),
        (DETECT, "What is the condition of the spleen?"),
        (COMPARE, "Compare the kidney volumes"),
    ],
)
def test_a_question_that_asks_for_a_state_by_name_takes_no_bare_answer(subtype, text):
    found = read(subtype, text)
    assert found.by_name and not found.negated and not found.problem
    assert "by name" in found.sentence


def test_the_words_that_stand_for_nothing_are_words_only():
    for text in ("?", "", "   "):
        assert read("splenomegaly detection", text).problem == ""
        assert not read("splenomegaly detection", text).by_name


# ------------------------------------------------------------------ words that can only fill


@pytest.mark.parametrize(
    ("subtype", "text", "organ"),
    [
        ("lesion volume measurement", "What is the total liver lesion volume?", "liver"),
        ("colon lesion existence", "Does the colon have any lesion?", "colon"),
        ("kidney cyst existence", "Is there at least one cysts in the kidney?", "kidney"),
        (COMPARE, "Pick the kidney that is bigger in size:", "kidney"),
        ("adjacent organ", "Which anatomical structure borders the largest lesion in the kidney?",
         "kidney"),
        ("inter-segment comparison", "Evaluate lesion distribution between segments 2 and 5.",
         "liver"),
        ("fatty liver", "Based on the liver-to-spleen HU ratio, is there fatty metamorphosis of "
         "the liver?", "liver"),
        ("pancreatic tumor staging", "How is the pancreatic tumor staged (T1-T4)?", "pancreas"),
        ("pancreatic cyst resectability",
         "Should we proceed with surgical resection for the largest pancreatic cyst?", "pancreas"),
    ],
)  # fmt: skip
def test_wordings_of_published_questions_are_understood_to_the_last_word(subtype, text, organ):
    options = "spleen|stomach" if subtype == "adjacent organ" else ""
    found = read(subtype, text, organ, options)
    assert not found.problem and not found.left_out


@pytest.mark.parametrize(
    ("subtype", "text", "organ", "left_out"),
    [
        (VOLUME, "Could you jot the volume of the left kidney?", "", ("jot",)),
        (VOLUME, "What volume does the routine workflow derive of the liver?", "liver",
         ("routine", "workflow", "derive")),
        (COUNT, "On careful reading, how many liver lesions are there?", "liver",
         ("careful", "reading")),
    ],
)  # fmt: skip
def test_a_word_that_can_only_fill_is_left_out_and_told(subtype, text, organ, left_out):
    found = read(subtype, text, organ)
    assert found.problem == "" and found.left_out == left_out
    assert f"words that were not understood: '{left_out[0]}'" in found.sentence
    *_, last = MODEL.answer(question(subtype, text, organ=organ), CASE, AnswerFormat.FREEFORM)
    assert not last.failed and f"'{left_out[0]}'" in last.record["note"]
    chain = reference_chain(question(subtype, text, organ=organ, answer="1"), CASE)
    assert f"'{left_out[0]}'" in chain.steps[-1].caveats[0]


@pytest.mark.parametrize(
    ("subtype", "text", "organ"),
    [
        (COUNT, "How many spiculated liver lesions are there?", "liver"),
        (VOLUME, "What is the functional volume of the liver?", "liver"),
        (VOLUME, "What is the volume of the donor liver?", "liver"),
        (VOLUME, "What is the volume of the liver in ounces3?", "liver"),
        (VOLUME, "Bitte schätzen Sie das Volumen der Leber ab", "liver"),
        (EXISTS, "Is the liver graciously showing a lesion?", "liver"),
        (COMPARE, "Which kidney is graciously larger?", "kidney"),
    ],
)
def test_a_word_that_may_narrow_down_or_turn_round_is_never_left_out(subtype, text, organ):
    assert "not understood" in read(subtype, text, organ).problem


@pytest.mark.parametrize(
    "text",
    [
        "Compare segments 7 and 8.",
        "Compare segments VII and VIII.",
        "Compare lesions in segments 7 vs 8",
        "Evaluate lesion distribution between segments 7 and 8.",
        "Compare segment 7 with segment 8.",
    ],
)
def test_numbered_segments_are_the_livers_where_no_organ_is_named(text):
    found = read("inter-segment comparison", text)
    assert found.problem == ""
    assert found.structure == "liver_lesion"
    assert found.listed == ("liver_segment_7", "liver_segment_8")


@pytest.mark.parametrize("text", ["Compare the spleen's segments 7 and 8.", "Compare 7 and 8."])
def test_segments_of_another_organ_and_bare_numbers_stay_a_problem(text):
    assert read("inter-segment comparison", text).problem


def test_the_rule_agent_compares_segments_without_an_organs_name():
    masks = {
        f"liver_segment_{n}": block(SHAPE, slice(2, 12), slice(2, 12), slice(4 * n, 4 * n + 4))
        for n in range(1, 9)
    }
    masks["liver_lesion"] = block(SHAPE, slice(4, 6), slice(4, 6), slice(29, 31))
    options = "Segment 7 has more lesions|Segment 8 has more lesions|Both have the same number"
    made = question("inter-segment comparison", "Compare segments 7 and 8.", options=options)
    *_, last = MODEL.answer(made, case(masks), AnswerFormat.MC)
    assert last.raw_text == "A"
