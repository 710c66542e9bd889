"""Failed answers: no scorer reads an answer from them, and none is shown as right."""

from dataclasses import replace

import pytest
from evidence_cases import SHAPE, block, case, question

from napari_ctvqa.benchmarks import _deeptumorvqa_official as official
from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core.failures import failed_text
from napari_ctvqa.core.ordering import OUTCOME_ORDER, _outcome_ranks
from napari_ctvqa.core.records import AnswerFormat, Outcome, Prediction, Score
from napari_ctvqa.core.rules import supported
from napari_ctvqa.core.scoring import failures
from napari_ctvqa.core.where import _score_flags, parse_where
from napari_ctvqa.models.rules import MODEL

PROBLEMS = (
    "no mask for pancreatic_pdac",
    "no mask for liver_segment_4: its file was not read",
    "no option means 'Normal'",
    "no option holds a number",
    "/data/BDMAP_00000012/ct.nii.gz: is cut off: it ends at byte 300",
    "these words are not understood: 'no', 'not', '5', '<', 'a', 'b'",
    "it asks for yes or no, 'lesion counting' answers with one number",
    "B and C both fit; it isn't A, nor D.",
    "vitamin-d, d'accord, A",
    "yes",
    "a",
    "",
)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_official_scorer_reads_nothing_from_a_failed_answer(problem):
    text = failed_text(problem)
    assert text.startswith("[ERROR] ")
    assert official.letter(text) == ""
    # the one phrase that stays as it is; such a row is marked as failed wherever it is shown
    assert official.yes_no(text) == ("no" if "no mask for" in problem else "")
    assert official.number(text) is None
    assert failed_text(text.removeprefix("[ERROR] ")) == text, "saying it again changes nothing"


@pytest.mark.parametrize("subtype", supported())
@pytest.mark.parametrize("text", ["Is there no mask?", "Without 5 of a b c d, yes?", "", "Which?"])
@pytest.mark.parametrize("options", ["", "Yes|No", "1|2|3|4", "a|b|c|d"])
def test_no_error_of_the_rule_agent_counts_as_an_answer(subtype, text, options):
    asked = question(subtype, text, options=options)
    for answer_format in AnswerFormat:
        *_, last = MODEL.answer(asked, case({}), answer_format)
        assert last.failed
        assert official.letter(last.raw_text) == ""
        assert official.yes_no(last.raw_text) == ("no" if "no mask for" in last.raw_text else "")
        assert official.number(last.raw_text) is None


def test_a_negation_is_not_turned_into_its_opposite():
    text = failed_text("the geometry is not to be trusted: no orientation is stored")
    assert text == "[ERROR] the geometry is not to be trusted: not any orientation is stored"


def test_the_whole_sentence_stands_in_the_trace():
    given = case({"spleen": block(SHAPE, slice(2, 6), slice(3, 5), slice(4, 8))})
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver")
    *_, last = MODEL.answer(asked, given, AnswerFormat.FREEFORM)
    assert last.raw_text == "[ERROR] no mask for liver"
    assert last.trace.turns[-1].error == "no mask for liver"


def scored(text, answer, options="No|Yes", letter="A", answer_format=AnswerFormat.FREEFORM):
    asked = question("liver lesion existence", options=options, answer=answer, letter=letter)
    return BENCHMARK.score(asked, Prediction("q1", "m", text), answer_format)


@pytest.mark.parametrize(
    ("text", "answer_format"),
    [
        ("[ERROR] no mask for liver_lesion", AnswerFormat.FREEFORM),
        ("[ERROR] a timeout", AnswerFormat.MC),
    ],
)
def test_a_foreign_failure_that_the_scorer_counts_as_right_is_marked(text, answer_format):
    score = scored(text, "No", answer_format=answer_format)
    assert (score.official, score.ours) == (Outcome.RIGHT, Outcome.UNREAD)
    assert score.failed and score.counted_though_failed and score.disagrees
    assert score.shown is Outcome.UNREAD
    assert failures({"q1": score, "q2": replace(score, official=Outcome.WRONG)}) == {
        "failed": 2, "officially_credited": 1,
    }  # fmt: skip


def test_a_number_in_an_error_that_earns_credit_is_marked_too():
    asked = question("organ volume measurement", answer="14")
    score = BENCHMARK.score(
        asked, Prediction("q1", "m", "[ERROR] BDMAP_00000012 timed out"), AnswerFormat.FREEFORM
    )
    assert score.value and score.counted_though_failed and score.ours is Outcome.UNREAD


def test_an_answer_is_no_failure():
    score = scored("No", "No")
    assert not score.failed and score.shown is Outcome.RIGHT
    assert failures({"q": score}) == {"failed": 0, "officially_credited": 0}


def test_failures_are_found_and_sorted_as_unread():
    class Questions:
        def __init__(self):
            self.row_of = {"q1": 0}

        def __len__(self):
            return 1

    failed = Score(Outcome.RIGHT, "no", Outcome.UNREAD, "", failed=True)
    ranks = _outcome_ranks(Questions(), {"q1": failed})
    assert ranks[0] == OUTCOME_ORDER.index(Outcome.UNREAD)
    for value, found in (("right", 0), ("unread", 1)):
        term = parse_where(f"outcome:{value}").terms[0]
        flags = _score_flags(Questions(), term, {"m": {"q1": failed}}, {})
        assert flags.sum() == found
