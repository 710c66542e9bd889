from dataclasses import replace

import pytest
from evidence_cases import block, case, grid

from napari_ctvqa.core.chains import (
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    OtherRule,
    StepKind,
    StepMatch,
)
from napari_ctvqa.evidence.compare import compare_chains, judged, relative_error

S, M, K, C = StepKind.SEGMENT, StepKind.MEASURE, StepKind.LOOKUP, StepKind.CONCLUDE


def segment(target, voxels=100.0, error=""):
    return EvidenceStep(S, target, "voxels", voxels if not error else None, "voxels", error=error)


def measure(target, value, unit="cm³", kind="volume_cm3", error=""):
    return EvidenceStep(M, target, kind, value, unit, error=error)


def lookup(topic):
    return EvidenceStep(K, topic, value="text")


def answer(value, says="", error="", options=()):
    raw = {"numbers_say": says, "options": options}
    return EvidenceStep(C, "spleen", value=value, error=error, raw=raw)


def compared(reference, model):
    result = compare_chains(
        EvidenceChain("q", "reference", tuple(reference)), EvidenceChain("q", "m", tuple(model))
    )
    return [row.match.value for row in result.rows], result


REFERENCE = [segment("spleen"), measure("spleen", 400.0), lookup("grade"), answer("mild")]


def test_equal_chains_have_no_difference():
    matches, result = compared(REFERENCE, REFERENCE)
    assert matches == ["same"] * 4 and result.first_difference is None


def test_a_missing_step_is_named():
    matches, result = compared(REFERENCE, [REFERENCE[0], REFERENCE[2], answer("mild")])
    assert matches == ["same", "missing", "same", "same"]
    assert result.first_difference == 1


def test_an_extra_step_stands_where_it_happened():
    extra = [REFERENCE[0], segment("liver"), *REFERENCE[1:]]
    matches, result = compared(REFERENCE, extra)
    assert matches == ["same", "extra", "same", "same", "same"]
    assert result.rows[1].model.target == "liver"
    assert result.first_difference is None, "the answer is right all the same"
    wrong = [REFERENCE[0], segment("liver"), *REFERENCE[1:3], answer("severe")]
    assert compared(REFERENCE, wrong)[1].first_difference == 1
    first = [segment("liver"), *REFERENCE]
    assert compared(REFERENCE, first)[0][0] == "extra"


def test_the_other_side_is_a_wrong_target():
    reference = [segment("kidney_left"), measure("kidney_left", 150.0), answer(150.0)]
    model = [segment("kidney_right"), measure("kidney_right", 170.0), answer(170.0, says=170.0)]
    matches, result = compared(reference, model)
    assert matches == ["wrong target", "wrong target", "wrong value"]
    assert result.rows[0].note == "right kidney for left kidney"
    assert result.rows[2].relative_error == pytest.approx(20 / 150)


def test_one_of_two_targets_done_twice_misses_the_other():
    reference = [segment("kidney_left"), segment("kidney_right"), answer("left")]
    model = [segment("kidney_left"), segment("kidney_left"), answer("left")]
    assert compared(reference, model)[0] == ["same", "wrong target", "same"]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (400.0, "same"),
        (403.9, "same"),
        (404.1, "wrong value"),
        (396.1, "same"),
        (395.0, "wrong value"),
    ],
)
def test_a_value_within_one_percent_is_the_same(value, match):
    matches, result = compared(REFERENCE[:2], [segment("spleen"), measure("spleen", value)])
    assert matches[1] == match
    assert result.rows[1].relative_error == pytest.approx(abs(value - 400) / 400)


def test_counts_must_be_equal():
    def count(number):
        return [measure("liver_lesion", number, "lesions", "lesion_count")]

    assert compared(count(200.0), count(201.0))[0][0] == "wrong value"
    assert compared(count(3.0), count(3.0))[0][0] == "same"


def test_another_unit_is_not_compared_but_said():
    _, result = compared([measure("spleen", 400.0)], [measure("spleen", 400000.0, "mm³")])
    assert result.rows[0].match is StepMatch.UNKNOWN
    assert result.rows[0].note == "in mm³, the reference is in cm³"


def test_a_failed_call_is_a_wrong_value_with_its_reason():
    _, result = compared(REFERENCE[:1], [segment("spleen", error="no mask")])
    assert result.rows[0].match is StepMatch.WRONG_VALUE and result.rows[0].note == "no mask"


def test_a_call_made_again_after_a_failure_counts_by_the_one_that_worked():
    model = [segment("spleen", error="no mask for milt"), *REFERENCE]
    matches, result = compared(REFERENCE, model)
    assert matches == ["extra", "same", "same", "same", "same"]
    assert result.rows[0].note == "failed: no mask for milt"


def test_a_repeated_call_is_extra():
    _, result = compared(REFERENCE, [REFERENCE[0], REFERENCE[0], *REFERENCE[1:]])
    assert [r.note for r in result.rows if r.match is StepMatch.EXTRA] == ["repeated"]


def test_an_answer_against_its_own_numbers_ignores_them():
    reference = [*REFERENCE[:2], answer(400.0)]
    model = [*REFERENCE[:2], answer(290.0, says=400.0)]
    matches, result = compared(reference, model)
    assert matches == ["same", "same", "output ignored"]
    assert result.first_difference == 2 and "400.0" in result.rows[2].note


@pytest.mark.parametrize(
    ("looked_up", "how"), [(True, "which it looked up"), (False, "which it did not look up")]
)
def test_an_answer_against_number_and_threshold_did_not_use_the_knowledge(looked_up, how):
    steps = REFERENCE[:3] if looked_up else REFERENCE[:2]
    matches, result = compared(REFERENCE, [*steps, answer("severe", says="mild")])
    assert matches[-1] == "knowledge not used"
    assert result.rows[-1].note == f"by the knowledge on grade, {how}, its own numbers say mild"
    assert result.first_difference == (3 if looked_up else 2)
    judged_chain = judged(EvidenceChain("q", "m", tuple(steps)), result)
    assert judged_chain.status is ChainStatus.DIFFERS


def test_knowledge_that_was_used_on_wrong_numbers_is_not_called_unused():
    model = [segment("spleen"), measure("spleen", 600.0), lookup("grade"),
             answer("moderate", says="moderate")]  # fmt: skip
    assert compared(REFERENCE, model)[0][-1] == "wrong value"


def test_an_answer_that_follows_from_wrong_numbers_is_not_called_ignoring():
    model = [
        segment("spleen"),
        measure("spleen", 600.0),
        lookup("grade"),
        answer("moderate", says="moderate"),
    ]
    matches, _ = compared(REFERENCE, model)
    assert matches == ["same", "wrong value", "same", "wrong value"]


def test_an_answer_a_thousand_times_its_own_number_hints_at_the_unit():
    reference = [measure("spleen", 400.0), answer(400.0)]
    _, result = compared(reference, [measure("spleen", 400.0), answer(400000.0, says=400.0)])
    assert "1,000 times" in result.rows[1].note and "unit" in result.rows[1].note
    _, small = compared(reference, [measure("spleen", 400.0), answer(40.0, says=400.0)])
    assert "1/10" in small.rows[1].note
    _, other = compared(reference, [measure("spleen", 400.0), answer(290.0, says=400.0)])
    assert "unit" not in other.rows[1].note


def test_the_option_nearest_to_the_reference_is_the_same_answer():
    reference = [measure("spleen", 400.0), answer(400.0)]
    model = [measure("spleen", 400.0), answer(390.0, says=390.0, options=[390.0, 500.0])]
    assert compared(reference, model)[0] == ["same", "same"]
    other = [measure("spleen", 400.0), answer(500.0, says=390.0, options=[390.0, 500.0])]
    assert compared(reference, other)[0] == ["same", "output ignored"]


def test_a_model_that_shows_no_steps_is_judged_by_its_answer_alone():
    matches, result = compared(REFERENCE, [answer("mild")])
    assert matches == ["not comparable"] * 3 + ["same"] and result.first_difference is None
    matches, result = compared(REFERENCE, [answer("severe")])
    assert matches[-1] == "wrong value" and result.first_difference == 3


def test_a_failed_run_misses_its_answer_with_the_reason():
    matches, result = compared(REFERENCE, [answer(None, error="server down")])
    assert matches[-1] == "missing" and result.rows[-1].note == "server down"
    assert result.first_difference == 3


def test_an_answer_that_was_not_read_is_not_compared():
    matches, result = compared(REFERENCE, [*REFERENCE[:3], answer(None)])
    assert matches[-1] == "not comparable" and result.rows[-1].note == "no answer was read"


def test_a_reference_that_cannot_be_checked_judges_nobody():
    reference = [segment("spleen", error="no mask"), EvidenceStep(C, "spleen", error="no mask")]
    matches, result = compared(reference, [segment("spleen"), answer("mild")])
    assert matches == ["not comparable", "not comparable"] and result.first_difference is None
    assert result.rows[1].note == "no mask"


def test_without_a_reference_chain_nothing_is_judged():
    matches, result = compared([], REFERENCE)
    assert matches == ["not comparable"] * 4 and result.first_difference is None
    assert compared([], [])[0] == []


def test_small_numbers_are_the_same_to_half_a_digit():
    assert compared([measure("x", 0.10)], [measure("x", 0.14)])[0][0] == "same"
    assert compared([measure("x", 0.10)], [measure("x", 0.16)])[0][0] == "wrong value"


@pytest.mark.parametrize(
    ("value", "reference", "error"),
    [(110, 100, 0.1), (90, 100, 0.1), (-50, -100, 0.5), (0, 0, 0.0), (3, 0, None)],
)
def test_relative_error(value, reference, error):
    assert relative_error(value, reference) == (pytest.approx(error) if error is not None else None)


# ------------------------------------------------------------- another way to the same numbers


def lesions(kind, target, value=None, unit="HU"):
    if kind == "segment":
        return segment(target, value or 100.0)
    return measure(target, value, unit, kind)


def test_lesions_that_hold_the_wanted_one_and_give_its_value_are_the_same():
    reference = [segment("largest liver_lesion"), lesions("mean_hu", "largest liver_lesion", 61.5)]
    model = [segment("liver_lesion", 150.0), lesions("mean_hu", "liver_lesion", 62.2)]
    matches, result = compared([*reference, answer("hypo")], [*model, answer("hypo")])
    assert matches == ["same", "same", "same"]
    assert result.rows[0].note == result.rows[1].note == "on liver lesion"


def test_lesions_that_hold_the_wanted_one_and_give_another_value_are_a_wrong_target():
    reference = [segment("largest liver_lesion"), lesions("mean_hu", "largest liver_lesion", 61.5)]
    model = [segment("liver_lesion", 150.0), lesions("mean_hu", "liver_lesion", 70.0)]
    matches, result = compared([*reference, answer("hypo")], [*model, answer("hypo")])
    assert matches == ["same", "wrong target", "same"] and result.first_difference == 1


def test_an_organ_never_stands_for_its_lesion_nor_one_side_for_the_other():
    reference = [lesions("mean_hu", "liver_lesion", 60.0)]
    assert compared(reference, [lesions("mean_hu", "liver", 60.0)])[0][0] == "wrong target"
    reference = [lesions("mean_hu", "kidney_left", 60.0)]
    assert compared(reference, [lesions("mean_hu", "kidney_right", 60.0)])[0][0] == "wrong target"
    assert compared(reference, [lesions("mean_hu", "kidney", 60.0)])[0][0] == "wrong target"


def test_both_kidneys_one_by_one_are_the_kidneys():
    reference = [segment("kidney", 300.0), measure("kidney", 310.0), answer(2.7)]
    model = [
        segment("kidney_left", 140.0), measure("kidney_left", 148.3),
        segment("kidney_right", 160.0), measure("kidney_right", 161.7), answer(2.7),
    ]  # fmt: skip
    matches, result = compared(reference, model)
    assert set(matches) == {"same"} and result.first_difference is None
    assert result.rows[0].note == "left kidney and right kidney together"
    assert [r.note for r in result.rows if r.reference is None] == ["part of kidneys"] * 2
    model[3] = measure("kidney_right", 261.7)
    assert "wrong value" in compared(reference, model)[0]
    assert compared(reference, [*model[:2], answer(2.7)])[0][:2] == ["wrong target"] * 2


def test_a_value_right_by_another_rule_is_the_same_and_says_which():
    reference = [measure("liver_lesion", 2.474, "cm", "largest_lesion_diameter_cm"), answer(2.5)]
    cut = OtherRule("whole_mm", "cut to whole mm", "2.4 cm", ChainStatus.AGREES)
    chain = EvidenceChain("q", "reference", tuple(reference), "2.5 cm", other_rules=(cut,))
    model = EvidenceChain("q", "m", (replace(reference[0], value=2.4), answer(2.4)))
    row = compare_chains(chain, model).rows[0]
    assert row.match is StepMatch.SAME and row.note == "right by another rule: cut to whole mm"
    other = EvidenceChain("q", "m", (replace(reference[0], value=2.3), answer(2.3)))
    assert compare_chains(chain, other).rows[0].match is StepMatch.WRONG_VALUE


def test_a_mask_that_only_says_where_is_not_missed():
    target = "liver_lesion in liver_segment_7"
    reference = [segment("liver_lesion"), segment("liver_segment_7"),
                 lesions("lesion_count", target, 1.0, "lesions"), answer(1.0)]  # fmt: skip
    model = [reference[0], reference[2], answer(1.0)]
    matches, result = compared(reference, model)
    assert matches == ["same", "missing", "same", "same"]
    assert result.rows[1].harmless and result.first_difference is None
    wrong = [reference[0], lesions("lesion_count", "liver_lesion", 3.0, "lesions"), answer(1.0)]
    matches, result = compared(reference, wrong)
    assert matches[2] == "wrong target" and result.first_difference == 2


def test_a_mask_that_the_question_asks_for_is_missed():
    reference = [segment("liver_lesion"), answer("yes")]
    matches, result = compared(reference, [segment("spleen"), answer("yes")])
    assert matches == ["wrong target", "same"] and result.first_difference == 0


def test_a_measurement_is_not_missed_where_the_own_numbers_give_the_answer():
    reference = [measure("spleen", 400.0), segment("liver"), measure("liver", 0.5), answer("yes")]
    _, result = compared(reference, [reference[0], answer("yes", says="yes")])
    assert result.first_difference is None
    _, result = compared(reference, [reference[0], answer("yes")])
    assert result.first_difference == 1, "nothing of its own says yes"
    _, result = compared(REFERENCE, [*REFERENCE[:2], answer("mild", says="mild")])
    assert result.first_difference == 2, "knowledge that it did not look up is still missing"


def test_a_measurement_of_something_else_is_no_difference_where_the_own_numbers_give_the_answer():
    reference = [measure("spleen", 400.0), measure("liver", 0.5), answer("yes")]
    besides = [reference[0], measure("aorta", 90.0)]
    _, result = compared(reference, [*besides, answer("yes", says="yes")])
    assert result.rows[1].match is StepMatch.WRONG_TARGET, "it is told what was measured"
    assert result.first_difference is None, "and it does not lead to the answer"
    _, result = compared(reference, [*besides, answer("yes")])
    assert result.first_difference == 1, "nothing of its own says yes"
    _, result = compared(reference, [*besides, answer("no", says="no")])
    assert result.first_difference == 1
    other = [reference[0], measure("liver", 0.9), answer("yes", says="yes")]
    assert compared(reference, other)[1].first_difference == 1, "another value is a difference"


def test_another_mask_is_no_difference_where_all_that_was_measured_is_the_same():
    reference = [segment("spleen"), measure("spleen", 400.0), answer("yes")]
    other = [segment("liver"), measure("spleen", 400.0)]
    matches, result = compared(reference, [*other, answer("yes")])
    assert matches == ["wrong target", "same", "same"] and result.first_difference is None
    assert compared(reference, [*other, answer("no")])[1].first_difference == 0
    wrong = [segment("liver"), measure("spleen", 300.0), answer("yes")]
    assert compared(reference, wrong)[1].first_difference == 0
    more = [segment("spleen", 150.0), measure("spleen", 400.0), answer("yes")]
    assert compared(reference, more)[1].first_difference is None


def test_knowledge_that_was_not_looked_up_stays_a_difference():
    reference = [*REFERENCE[:2], lookup("grade"), answer("mild")]
    model = [*REFERENCE[:2], lookup("another"), answer("mild", says="mild")]
    assert compared(reference, model)[1].first_difference == 2


def test_hu_are_the_same_within_one_hu_whatever_their_size():
    for reference, value, match in ((0.4, -0.4, "same"), (200.0, 201.5, "wrong value")):
        got, _ = compared([lesions("mean_hu", "liver", reference)],
                          [lesions("mean_hu", "liver", value)])  # fmt: skip
        assert got[0] == match


# -------------------------------------------------------------------------------- slices


def slice_of(number):
    return EvidenceStep(S, "largest liver_lesion", "widest_slice_ras", float(number))


def test_a_slice_is_off_by_slices_never_by_percent():
    matches, result = compared(
        [slice_of(300), answer(300.0)], [slice_of(302), answer(303.0, says=303.0)]
    )
    assert matches == ["wrong value", "wrong value"], "1 % of 300 is no tolerance"
    assert [row.note for row in result.rows] == ["2 slices off", "3 slices off"]
    assert [row.relative_error for row in result.rows] == [None, None]
    matches, result = compared([slice_of(40), answer(40.0)], [slice_of(41), answer(41.0)])
    assert matches == ["same", "same"] and result.rows[1].note == "1 slice off"


# ------------------------------------------------------------------------------ on a case


def test_on_a_case_the_voxels_decide_what_is_the_same_target():
    on = grid()
    left, right = (
        block(on.shape_zyx, s_(5), s_(5), s_(40)),
        block(on.shape_zyx, s_(5), s_(5), s_(5)),
    )
    masks = {
        "kidney_left": block(on.shape_zyx, s_(2, 20), s_(2, 20), s_(35, 20)),
        "kidney_right": block(on.shape_zyx, s_(2, 20), s_(2, 20), s_(2, 20)),
        "kidney_cyst": left,
        "kidney_tumor": right,
    }
    cysts = case(masks, on=on)
    target = "kidney_lesion in kidney_left"
    reference = EvidenceChain("q", "reference", (measure(target, 1.0), answer("left")))
    model = EvidenceChain("q", "m", (measure("kidney_cyst", 1.0), answer("left")))
    row = compare_chains(reference, model, cysts).rows[0]
    assert (row.match, row.note) == (StepMatch.SAME, "on kidney cyst")
    assert compare_chains(reference, model).rows[0].match is StepMatch.WRONG_TARGET
    other = EvidenceChain("q", "m", (measure("kidney_tumor", 1.0), answer("left")))
    assert compare_chains(reference, other, cysts).rows[0].match is StepMatch.WRONG_TARGET
    both = EvidenceChain("q", "reference", (segment("kidney_lesion", 2.0), answer("yes")))
    one_by_one = (segment("kidney_cyst", 1.0), segment("kidney_tumor", 1.0), answer("yes"))
    rows = compare_chains(both, EvidenceChain("q", "m", one_by_one), cysts).rows
    assert [row.match for row in rows] == [StepMatch.SAME] * 3


def s_(start, size=6):
    return slice(start, start + size)


def test_two_empty_masks_are_not_the_same_target():
    on = grid()
    nothing = {n: block(on.shape_zyx, 0, 0, 0, value=False) for n in ("liver_cyst", "liver_tumor")}
    reference = EvidenceChain("q", "reference", (segment("liver_cyst", 0.0), answer("no")))
    model = EvidenceChain("q", "m", (segment("liver_tumor", 0.0), answer("no")))
    rows = compare_chains(reference, model, case(nothing, on=on)).rows
    assert rows[0].match is StepMatch.WRONG_TARGET
