"""What answers to probes mean: kinds of questions, verdicts, intervals, sentences."""

import json

import pytest
from evidence_cases import question
from scipy.stats import binomtest

from napari_ctvqa.core import probes
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.probe_results import (
    ProbeAnswer,
    Share,
    Verdict,
    answer_of,
    answer_row,
    behaviour,
    is_right,
    said_in,
    summaries,
    verdict_of,
)
from napari_ctvqa.core.probes import Effect, chance_of, effect_of, kind_of, probes_named, table
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option, Question, Reference
from napari_ctvqa.core.rules import supported

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM


def plain(text, answer="", options="", kind=AnswerType.OPEN):
    listed = tuple(
        Option("ABCD"[n], said) for n, said in enumerate(filter(None, options.split("|")))
    )
    letter = next((o.letter for o in listed if o.text == answer), "")
    return Question("q", "c", text, Reference(answer, letter), listed, answer_type=kind)


# ------------------------------------------------------------------------------------- the table


def test_the_table_knows_every_subtype_of_the_rules():
    assert {name.casefold() for name in supported()} <= set(table().subtypes)


def test_every_probe_says_what_it_does_what_it_needs_and_what_it_means():
    for probe in table().probes.values():
        assert probe.title and probe.does.endswith(".") and probe.needs
        assert probe.steady and probe.unsteady
        changing = set(probe.expected.values()) & probes.CHANGING
        assert not changing or (probe.follows and probe.ignores)


def test_probes_are_named_one_by_one_or_all():
    assert probes_named("blank, mirrored,blank") == ("blank", "mirrored")
    assert probes_named("all") == tuple(table().probes)
    for wrong in ("mirored", "", "blank,all"):
        with pytest.raises(NotFoundError, match="there are mirrored"):
            probes_named(wrong)


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (question("kidney cyst existence", "Any?"), "presence"),
        (question("bilateral kidney asymmetry", "Which?"), "lesion_side"),
        (question("largest lesion location", "Where?", options="left kidney|right kidney"),
         "lesion_side"),
        (question("largest lesion location", "Where?", options="head|tail", organ="pancreas"),
         "part"),
        (question("largest lesion location", "Where?", options="Segment 2|Segment 7",
                  organ="liver"), "liver_part"),
        (question("largest lesion location", "Where?", options="right lobe|left lobe",
                  organ="liver"), "liver_part"),
        (plain("Is there a lesion?", "Yes", kind=AnswerType.BINARY), "presence"),
        (plain("On which side is the lesion?", "Left"), "lesion_side"),
        (plain("Which kidney is larger?", "left", "left|right"), "organ_side"),
        (plain("On which slice is the lesion?", "12"), "slice"),
        (plain("Which organ has the lesion?", "Left kidney"), "organ"),
        (plain("How many liver lesions are there?", "2"), "count"),
        (plain("What is the mean HU of the spleen?", "50"), "organ_hu"),
        (plain("What is the volume of the liver lesion?", "5"), "lesion_volume"),
        (plain("Describe the scan.", "A long text"), "other"),
    ],
)  # fmt: skip
def test_kinds_of_questions(asked, kind):
    assert kind_of(asked) == kind


@pytest.mark.parametrize(
    ("probe", "asked", "answer_format", "effect"),
    [
        ("mirrored", plain("On which side is the lesion?", "Left"), FREE, Effect.FLIPS),
        ("mirrored", question("lesion counting", "How many?"), FREE, Effect.SAME),
        ("mirrored", question("organ volume measurement", "Volume of the left kidney?"), FREE,
         Effect.UNKNOWN),
        ("mirrored", question("largest lesion location", "?", options="Segment 2|Segment 7",
                              organ="liver"), MC, Effect.UNKNOWN),
        ("lesion_removed", question("liver lesion existence", "Any?"), FREE, Effect.NO),
        ("lesion_removed", question("lesion counting", "How many?"), FREE, Effect.ZERO),
        ("lesion_removed", question("lesion counting", "How many?", options="0|1|2"), MC,
         Effect.ZERO),
        ("lesion_removed", question("lesion counting", "How many?", options="1|2"), MC,
         Effect.VOID),
        ("lesion_removed", question("bilateral kidney asymmetry", "?",
                                    options="left kidney|right kidney|the same"), MC,
         Effect.UNKNOWN),
        ("lesion_removed", plain("Is the liver free of any lesion?", "No"), FREE, Effect.UNKNOWN),
        ("lesion_copied", question("lesion counting", "How many?"), FREE, Effect.MORE),
        ("lesion_copied", question("lesion counting", "How many?", options="1|2"), MC,
         Effect.UNKNOWN),
        ("lesion_copied", plain("Is there a lesion in the left kidney?", "No"), FREE,
         Effect.UNKNOWN),
        ("blank", plain("Describe the scan."), FREE, Effect.VOID),
        ("shuffled", plain("Describe the scan."), MC, Effect.SAME),
        ("slices", plain("On which slice is the lesion?", "12"), FREE, Effect.UNKNOWN),
    ],
)  # fmt: skip
def test_what_a_probe_must_do(probe, asked, answer_format, effect):
    assert effect_of(probe, asked, answer_format) is effect


@pytest.mark.parametrize(
    ("asked", "chance"),
    [
        (plain("?", "a", "a|b|c|d"), 0.25),
        (plain("Is there a lesion?", "Yes", kind=AnswerType.BINARY), 0.5),
        (plain("On which side is the lesion?", "Left"), 0.5),
        (plain("How large is it?", "12"), None),
    ],
)
def test_what_guessing_gives(asked, chance):
    assert chance_of(asked) == chance


# --------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("effect", "kind", "original", "said", "verdict"),
    [
        (Effect.FLIPS, "lesion_side", "left", "right", Verdict.AS_MUST),
        (Effect.FLIPS, "lesion_side", "left", "left", Verdict.UNCHANGED),
        (Effect.FLIPS, "lesion_side", "left", "there is no lesion", Verdict.OTHER),
        (Effect.FLIPS, "organ", "left kidney", "right kidney", Verdict.AS_MUST),
        (Effect.FLIPS, "organ", "liver", "liver", Verdict.NO_BASE),
        (Effect.NO, "presence", "yes", "no", Verdict.AS_MUST),
        (Effect.NO, "presence", "yes", "yes", Verdict.UNCHANGED),
        (Effect.NO, "presence", "no", "no", Verdict.NO_BASE),
        (Effect.ZERO, "count", "2", "0", Verdict.AS_MUST),
        (Effect.ZERO, "count", "2", "1", Verdict.OTHER),
        (Effect.ZERO, "count", "0", "0", Verdict.NO_BASE),
        (Effect.MORE, "count", "1", "2", Verdict.AS_MUST),
        (Effect.MORE, "count", "1", "1", Verdict.UNCHANGED),
        (Effect.MORE, "count", "2", "1", Verdict.OTHER),
        (Effect.SAME, "count", "10", "11", Verdict.OTHER),
        (Effect.SAME, "organ_volume", "10.0", "10.9", Verdict.AS_MUST),
        (Effect.SAME, "organ_volume", "35.3", "353", Verdict.OTHER),
        (Effect.SAME, "organ_hu", "-29.2", "29.2", Verdict.OTHER),
        (Effect.VOID, "lesion_side", "left", "left", Verdict.UNCHANGED),
        (Effect.VOID, "lesion_side", "left", "right", Verdict.CHANGED),
        (Effect.UNKNOWN, "other", "a", "b", Verdict.CHANGED),
        (Effect.SAME, "other", "", "a", Verdict.NO_BASE),
        (Effect.SAME, "other", "a", "", Verdict.NO_ANSWER),
    ],
)
def test_verdicts(effect, kind, original, said, verdict):
    assert verdict_of(effect, kind, original, said) is verdict


def test_a_side_that_is_no_option_cannot_be_asked_for():
    options = ("left kidney", "liver")
    said = verdict_of(Effect.FLIPS, "organ", "left kidney", "liver", options)
    assert said is Verdict.NO_BASE


@pytest.mark.parametrize(
    ("original", "said"),
    [("100 voxels", "101 voxels"), ("12.3", "12.31"), ("2 cm, left kidney", "2 cm, right kidney")],
)
def test_two_options_are_two_answers_however_near(original, said):
    options = (original, said)
    for effect, verdict in ((Effect.SAME, Verdict.OTHER), (Effect.UNKNOWN, Verdict.CHANGED)):
        assert verdict_of(effect, "organ_volume", original, said, options) is verdict
        assert verdict_of(effect, "organ_volume", said, said, options) is not verdict


def test_a_number_beside_a_side_does_not_stand_for_the_side():
    left, right = "2 lesions in the left lung", "2 lesions in the right lung"
    assert verdict_of(Effect.FLIPS, "side", left, left) is Verdict.UNCHANGED
    assert verdict_of(Effect.FLIPS, "side", left, right) is Verdict.AS_MUST
    assert verdict_of(Effect.SAME, "side", left, right) is Verdict.OTHER
    assert verdict_of(Effect.SAME, "volume", "about 100 ml", "105 ml") is Verdict.AS_MUST


def test_only_all_is_a_hundred_per_cent():
    assert str(Share(999, 1000)).startswith("999 of 1000 (>99 %,")
    assert str(Share(1, 1000)).startswith("1 of 1000 (<1 %,")
    assert str(Share(1000, 1000)).startswith("1000 of 1000 (100 %,")


@pytest.mark.parametrize("chance", [float("nan"), 10**400, float("inf"), 7, -1, True, "0.5"])
def test_a_chance_that_is_none_is_not_believed(chance):
    good = ProbeAnswer("q", "blank", "side", Effect.VOID, Verdict.CHANGED, chance=0.5)
    read = answer_of({**answer_row(good), "chance": chance})
    assert read is not None and read.chance is None
    assert answer_of(answer_row(good)) == good


def test_a_number_keeps_its_dot_and_sign_when_it_is_read():
    numeric = plain("What is the mean HU?", "-29.2", kind=AnswerType.NUMERIC)
    assert said_in(numeric, "The value is -29.2 HU.", FREE) == "-29.2"
    asked = plain("What is the volume?", "35.3", "35.3|353")
    assert said_in(asked, "A", MC) == "35.3" and said_in(asked, "B", MC) == "353"


def test_right_is_counted_against_the_reference():
    asked = plain("On which side?", "Left", "Left|Right")
    assert is_right(asked, "A", MC) is True and is_right(asked, "B", MC) is False
    assert is_right(plain("?", ""), "anything", FREE) is None
    assert is_right(asked, "There is no lesion.", MC) is False


# ---------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(("count", "total"), [(0, 5), (3, 10), (57, 60), (60, 60), (1, 1)])
def test_the_interval_is_wilson_s(count, total):
    low, high = binomtest(count, total).proportion_ci(method="wilson")
    assert Share(count, total).interval == pytest.approx((low, high), abs=1e-12)


def test_nothing_counted_says_nothing():
    assert Share(0, 0).interval == (0.0, 1.0) and Share(0, 0).value == 0.0


def answers(probe, effect, counts, **more):
    """So many answers of each verdict."""
    made = [
        ProbeAnswer(f"q{n}", probe, "presence", effect, verdict, "a", "b", **more)
        for n, verdict in enumerate(v for v, count in counts.items() for _ in range(count))
    ]
    assert made
    return made


def sentences(made):
    (summary,) = summaries(made)
    return " ".join(summary.sentences)


def test_answers_that_follow_and_those_that_do_not():
    follows, ignores = table().probes["mirrored"].follows, table().probes["mirrored"].ignores
    must = Effect.FLIPS
    looks = answers("mirrored", must, {Verdict.AS_MUST: 38, Verdict.UNCHANGED: 2})
    blind = answers("mirrored", must, {Verdict.AS_MUST: 2, Verdict.UNCHANGED: 38})
    few = answers("mirrored", must, {Verdict.AS_MUST: 2, Verdict.UNCHANGED: 1})
    assert follows in sentences(looks) and ignores not in sentences(looks)
    assert "38 of 40 (95 %, 95 % interval 83 to 99 %)" in sentences(looks)
    assert ignores in sentences(blind) and follows not in sentences(blind)
    assert "do not decide" in sentences(few)


def test_what_could_not_turn_or_failed_does_not_count():
    made = answers(
        "lesion_removed",
        Effect.NO,
        {Verdict.AS_MUST: 10, Verdict.NO_BASE: 30, Verdict.FAILED: 5, Verdict.NOT_MADE: 7},
        reason="why",
    )
    (summary,) = summaries(made)
    assert (summary.turned.count, summary.turned.total) == (10, 10)
    assert (summary.asked, summary.failed, summary.not_judged) == (45, 5, 30)
    assert summary.not_made == {"why": 7}


def blank_answers(right, before, kept, total=60):
    return [
        ProbeAnswer(
            f"q{n}",
            "blank",
            "presence",
            Effect.VOID,
            Verdict.UNCHANGED if n < kept else Verdict.CHANGED,
            "yes",
            "yes",
            right=n < right,
            original_right=n < before,
            chance=0.5,
        )
        for n in range(total)
    ]


def test_a_blank_volume_at_chance_and_above():
    row = table().probes["blank"]
    looks = blank_answers(30, 58, 30)
    assert row.follows in sentences(looks) and "guessing gives 50 %" in sentences(looks)
    assert row.ignores in sentences(blank_answers(56, 58, 58))
    blind = sentences(blank_answers(30, 30, 60))
    assert "do not depend on the pixels" in blind and row.follows not in blind


def test_the_option_s_place_is_recognised():
    made = answers("shuffled", Effect.SAME, {Verdict.OTHER: 40}, place_kept=True)
    assert "the option's place decides" in sentences(made)
    assert behaviour(summaries(made)) == (
        "It follows the place of an option, not what it says.",
    )  # fmt: skip


def test_behaviour_of_models_that_look_guess_and_confuse():
    def said(turned, right_before, kept):
        made = [
            *answers("mirrored", Effect.FLIPS, turned, original_right=right_before),
            *blank_answers(30, 58, kept),
        ]
        return " ".join(behaviour(summaries(made)))

    flips, stays = {Verdict.AS_MUST: 60}, {Verdict.UNCHANGED: 60}
    assert "looks at the picture" in said(flips, True, 20)
    assert "does not look at the picture" in said(stays, True, 60)
    assert "guesses from priors" in said(stays, True, 20)
    assert "follows are the masks" in said(flips, True, 60)
    assert "confuses the sides" in said(flips, False, 20)
    assert "confuses the sides" not in said(flips, True, 20)


def test_an_answer_survives_its_row():
    made = ProbeAnswer(
        "q", "mirrored", "organ", Effect.FLIPS, Verdict.OTHER, "a", "b", True, False, None, 0.5, "r"
    )
    assert answer_of(json.loads(json.dumps(answer_row(made)))) == made
    assert answer_of({"probe": "original"}) is None and answer_of({"probe": "unheard of"}) is None
    with pytest.raises(ValueError):
        answer_of({**answer_row(made), "verdict": "unheard of"})
