"""Answers of two invented models, with mistakes of every kind, in DeepTumorVQA's result layout.

``demo-agent`` calls tools, ``demo-direct`` answers from the picture. Neither exists: what they say
is made here from the parameters, so that a reader can practise on known failures.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo.agent import LESION_TYPE, SPLENOMEGALY, Answer, Script
from napari_ctvqa.demo.metrics import mc_metrics
from napari_ctvqa.demo.parameters import FIRST_CASE, SECOND_CASE

if TYPE_CHECKING:
    from napari_ctvqa.demo.questions import Asked
    from napari_ctvqa.demo.tools import Masks

Play = Callable[[Script], Answer]
"""Plays one run, from a fresh script to its end."""

_FIRST, _SECOND = FIRST_CASE.case_id, SECOND_CASE.case_id
_DIRECT_RIGHT = 0.58
"""How often the model that only looks is right on purpose; its guesses come on top."""


def _number(value: float) -> str:
    return f"{value:.1f}"


def _wrong_side(s: Script) -> Answer:
    """Measure the right kidney where the left one is asked for."""
    s.both("kidney_right", "volume_cm3")
    letter = s.letter(_number(s.value))
    return s.says(f"The kidney measures {_number(s.value)} cm³, which is option {letter}.")


def _two_sides(s: Script) -> Answer:
    """Segment the right kidney, measure the left one."""
    s.segment("kidney_right").measure("kidney_left", "volume_cm3")
    return s.says(s.letter(_number(s.value)))


def _wrong_target(s: Script) -> Answer:
    """Segment the pancreas, measure the spleen."""
    s.segment("pancreas").measure("spleen", "mean_hu")
    return s.says(s.letter(_number(s.value)))


def _vein_for_artery(s: Script) -> Answer:
    s.both("postcava", "mean_hu")
    number = _number(s.value)
    return s.says(f"The vessel has {number} HU, so {s.letter(number)}")


def _output_ignored(s: Script) -> Answer:
    return s.properly().says(s.wrong)


def _output_ignored_in_words(s: Script) -> Answer:
    s.properly()
    return s.says(f"{s.wrong}. By the overall impression: {s.asked.options[s.wrong]}.")


def _not_measured(s: Script) -> Answer:
    return s.segment(s.target).says(s.wrong)


def _no_tool(s: Script) -> Answer:
    """Right, with no evidence at all."""
    return s.says(s.right)


def _millimetres_as_centimetres(s: Script) -> Answer:
    s.both(s.target, "max_diameter_mm")
    return s.says(f"The longest diameter is {s.value:.0f} cm.")


def _cubic_millimetres(s: Script) -> Answer:
    s.properly()
    return s.says(f"The volume is {s.value * 1000:.0f} cm³, none of the options fits.")


def _unparsable(s: Script) -> Answer:
    return s.properly().says("I would go with the second one from the top.")


def _answer_colon(s: Script) -> Answer:
    """Right, but the official parser takes the A of "Answer"."""
    return s.properly().says(f"Answer: {s.right}")


def _article(s: Script) -> Answer:
    """Right, but the official parser takes the article for option A."""
    s.properly()
    return s.says(f"There is a clear result of {_number(s.value)}, so {s.right}")


def _based_on(s: Script) -> Answer:
    """Right, but the official parser takes the B of "Based"."""
    return s.properly().says(f"Based on the measurements, {s.right}")


def _think(s: Script) -> Answer:
    thought = "Option A is tempting, but the measurement decides."
    return s.properly().says(f"<think>{thought}</think>{s.right}")


def _cut_off(s: Script) -> Answer:
    return s.properly().says("<think>Comparing the options one by one, first A, then")


def _server_down(s: Script) -> Answer:
    return s.fails("ConnectError: the model server closed the connection")


def _too_long(s: Script) -> Answer:
    s.segment("pancreas")
    return s.fails("ContextLengthError: 41233 tokens, at most 32768")


def _refusal(s: Script) -> Answer:
    """A refusal, in which the official parser finds the article, option A."""
    return s.says("I cannot give a medical opinion. Please consult your radiologist.")


def _cannot_determine(s: Script) -> Answer:
    """No answer, in which the official parser finds the C of "Cannot"."""
    return s.segment(s.target).says("Cannot determine")


def _one_of_two(s: Script) -> Answer:
    """Right by luck: one kidney measured, the other one guessed."""
    return s.both("kidney_right", "volume_cm3").says(s.right)


def _wrong_lesion(s: Script) -> Answer:
    """Right against its own evidence: a cyst's attenuation, from which it concludes a tumour."""
    return s.lookup(LESION_TYPE).both("kidney_cyst", "mean_hu").says(s.right)


def _missing_mask_as_no(s: Script) -> Answer:
    """The tool says that it has no mask; the model concludes that there is no lesion."""
    return s.segment(s.target).says(s.letter("No"))


def _loop(s: Script) -> Answer:
    for _ in range(5):
        s.segment("liver_lesion")
    return s.runs_out("I will segment the lesions again to be sure.")


def _bad_arguments(s: Script) -> Answer:
    s.measure("liver_lesion", "diameter").measure("liver_lesion", "max_diameter")
    return s.says(s.wrong)


def _threshold_ignored(s: Script) -> Answer:
    s.both("spleen", "volume_cm3")
    volume = _number(s.value)
    s.lookup(SPLENOMEGALY)
    return s.says(f"{s.wrong}. {volume} cm³ is within the normal range for an adult.")


def _recovers(s: Script) -> Answer:
    """A failed call, the listed targets read, then the right one."""
    s.segment("gallbladder")
    return s.both("gall_bladder", "volume_cm3").says(s.right)


_MISTAKES: dict[tuple[str, str], Play] = {
    (_FIRST, "volume:kidney_left"): _wrong_side,
    (_FIRST, "volume:kidney_right"): _two_sides,
    (_FIRST, "kidney-comparison"): _one_of_two,
    (_FIRST, "exists:kidney_tumor"): _output_ignored_in_words,
    (_FIRST, "exists:pancreatic_lesion"): _refusal,
    (_FIRST, "exists:liver_lesion"): _answer_colon,
    (_FIRST, "volume:spleen"): _output_ignored,
    (_FIRST, "volume:liver"): _cubic_millimetres,
    (_FIRST, "volume:pancreas"): _article,
    (_FIRST, "volume:gall_bladder"): _recovers,
    (_FIRST, "hu:pancreas"): _wrong_target,
    (_FIRST, "hu:aorta"): _vein_for_artery,
    (_FIRST, "hu:liver"): _answer_colon,
    (_FIRST, "hu:kidney_left"): _server_down,
    (_FIRST, "lesion-volume:liver_lesion"): _not_measured,
    (_FIRST, "lesion-volume:kidney_cyst"): _based_on,
    (_FIRST, "count:kidney_lesion"): _unparsable,
    (_FIRST, "count:pancreatic_lesion"): _think,
    (_FIRST, "ratio:pancreas"): _too_long,
    (_FIRST, "burden:kidney_lesion"): _output_ignored,
    (_FIRST, "diameter:liver_lesion"): _bad_arguments,
    (_FIRST, "diameter:pancreatic_lesion"): _millimetres_as_centimetres,
    (_FIRST, "slice:liver_lesion"): _output_ignored,
    (_FIRST, "segments:4-3"): _output_ignored,
    (_FIRST, "outlier"): _loop,
    (_FIRST, "staging"): _cut_off,
    (_FIRST, "lesion-type"): _wrong_lesion,
    (_SECOND, "exists:colon_lesion"): _missing_mask_as_no,
    (_SECOND, "exists:pancreatic_pdac"): _cannot_determine,
    (_SECOND, "splenomegaly"): _threshold_ignored,
    (_SECOND, "volume:kidney_left"): _wrong_side,
    (_SECOND, "count:kidney_cyst"): _no_tool,
    (_SECOND, "diameter:kidney_lesion"): _article,
    (_SECOND, "fatty-liver"): _output_ignored,
}


def _agent(asked: Asked, masks: Masks) -> Answer:
    script = Script(asked, masks)
    play = _MISTAKES.get((script.case.case_id, asked.ask.key))
    return play(script) if play else script.properly().says(asked.truth)


def _direct(asked: Asked) -> str:
    """Return what a model says that only looks: often wrong, in several ways of saying it."""
    dice = random.Random(f"direct {asked.id}")
    letters = list(asked.options)
    letter = asked.truth if dice.random() < _DIRECT_RIGHT else dice.choice(letters)
    text = asked.options[letter]
    return dice.choice(
        [
            letter,
            letter,
            f"{letter}: {text}",
            f"Answer: {letter}",
            f"The correct option is {letter}.",
            f"Looking at the scan, it appears to be {text}.",
        ]
    )


def _record(asked: Asked, raw: str) -> dict[str, Any]:
    record = asked.record
    return {
        "qid": record["qid"],
        "image_id": record["image_id"],
        "question_subtype": record["question_subtype"],
        "question_type": record["question_type"],
        "raw_output": raw,
        "pred_answer": raw,
        "correct_option": record["correct_option"],
        "answer": record["answer"],
    }


def result_files(asked: Sequence[Asked], painted: Mapping[str, Masks]) -> dict[str, dict[str, Any]]:
    """Return each invented model's result file by the model's name."""
    agent = []
    for item in asked:
        raw, trajectory = _agent(item, painted[item.ask.case.case_id])
        agent.append({**_record(item, raw), "trajectory": trajectory})
    direct = [_record(item, _direct(item)) for item in asked]
    return {
        model: {"metrics": mc_metrics(rows), "n_processed": len(rows), "results": rows}
        for model, rows in (("demo-agent", agent), ("demo-direct", direct))
    }
