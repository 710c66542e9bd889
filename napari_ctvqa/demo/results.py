"""Answers of two invented models, with mistakes of every kind, in DeepTumorVQA's result layout.

``demo-agent`` calls tools, ``demo-direct`` answers from the picture. Neither exists: what they say
is made here from the parameters, so that a reader can practise on known failures.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo import tools

if TYPE_CHECKING:
    from napari_ctvqa.demo.parameters import CaseParameters
    from napari_ctvqa.demo.questions import Asked

Boxes = Mapping[str, Mapping[str, tools.BoxIJK]]

_FIRST, _SECOND = "DEMO_0001", "DEMO_0002"
_DIRECT_RIGHT = 0.58


@dataclass
class Script:
    """One agent run while it is written: tool steps, then the last text."""

    asked: Asked
    boxes: Mapping[str, tools.BoxIJK]
    entries: list[dict[str, Any]] = field(default_factory=list)
    step: int = 0

    @property
    def case(self) -> CaseParameters:
        """Return the case the question is about."""
        return self.asked.ask.case

    def _call(self, tool: str, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        self.step += 1
        self.entries.append(
            {
                "step": self.step,
                "tool": tool,
                "arguments": {**arguments, "image_id": self.case.case_id},
                "result": dict(result),
            }
        )

    def segment(self, target: str) -> Script:
        """Call ``segment_organ``."""
        self._call(
            "segment_organ", {"target": target}, tools.segment(self.case, target, self.boxes)
        )
        return self

    def measure(self, target: str, kind: str) -> Script:
        """Call ``measure``."""
        arguments = {"target": target, "measurement_type": kind}
        self._call("measure", arguments, tools.measure(self.case, target, kind))
        return self

    def both(self, target: str, kind: str) -> Script:
        """Segment a target, then measure it."""
        return self.segment(target).measure(target, kind)

    def lookup(self, topic: str) -> Script:
        """Call ``lookup_medical_knowledge``."""
        self._call("lookup_medical_knowledge", {"query": topic}, tools.lookup(topic))
        return self

    def says(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """End with a final answer."""
        entries = [*self.entries, {"step": self.step + 1, "final_answer": text}]
        return text, entries

    def fails(self, message: str) -> tuple[str, list[dict[str, Any]]]:
        """End with a failure."""
        entries = [*self.entries, {"step": self.step + 1, "error": message}]
        return f"[ERROR] {message}", entries

    def runs_out(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """End at the step limit, without a final answer."""
        return text, list(self.entries)

    def letter(self, text: str) -> str:
        """Return the letter of an option. Raises KeyError for a text that is none."""
        return {option: key for key, option in self.asked.options.items()}[text]

    @property
    def right(self) -> str:
        """Return the letter that the parameters give."""
        return self.asked.truth

    @property
    def wrong(self) -> str:
        """Return a letter that is neither right nor stated as the reference."""
        stated = self.asked.record["correct_option"]
        return next(key for key in self.asked.options if key not in {self.right, stated})


Answer = tuple[str, list[dict[str, Any]]]


def _steps(script: Script) -> Script:
    """Take the steps that lead to the right answer."""
    ask = script.asked.ask
    kind, _, target = ask.key.partition(":")
    simple: dict[str, Callable[[], object]] = {
        "exists": lambda: script.segment(target),
        "volume": lambda: script.both(target, "volume_cm3"),
        "hu": lambda: script.both(target, "mean_hu"),
        "lesion-volume": lambda: script.both(target, "volume_cm3"),
        "count": lambda: script.both(target, "lesion_count"),
        "splenomegaly": lambda: script.both("spleen", "volume_cm3").lookup("splenomegaly"),
        "spleen-grade": lambda: script.lookup("splenomegaly").both("spleen", "volume_cm3"),
        "kidney-comparison": lambda: _pair(script, "kidney_left", "kidney_right", "volume_cm3"),
        "ratio": lambda: _pair(script, target, "spleen", "mean_hu"),
        "burden": lambda: script.both(target, "volume_cm3"),
        "diameter": lambda: script.both(target, "largest_lesion_diameter_cm"),
        "enlarged": lambda: script.both(target, "volume_cm3"),
        "attenuation": lambda: script.both(target, "mean_hu"),
        "sum": lambda: _pair(script, *_SUMS.get(target, ("liver", "spleen")), "volume_cm3"),
        "hu-gap": lambda: _pair(script, "pancreatic_lesion", "pancreas", "mean_hu"),
        "steatosis": lambda: _pair(
            script.lookup("pancreatic steatosis"), "pancreas", "spleen", "mean_hu"
        ),
        "fatty-liver": lambda: _pair(script.lookup("fatty liver"), "liver", "spleen", "mean_hu"),
        "steatosis-grade": lambda: _pair(
            script.lookup("steatosis grade"), "liver", "spleen", "mean_hu"
        ),
        "lesion-type": lambda: script.lookup("kidney lesion type").both("kidney_lesion", "mean_hu"),
        "renal-mass": lambda: script.lookup("renal mass").both("kidney_lesion", "mean_hu"),
        "staging": lambda: script.lookup("pancreatic tumor staging").both(
            "pancreatic_lesion", "largest_lesion_diameter_cm"
        ),
        "pdac-pnet": lambda: script.lookup("pdac or pnet").both("pancreatic_lesion", "mean_hu"),
        "outlier": lambda: script.both("liver_lesion", "largest_lesion_volume_cm3"),
        "clustering": lambda: script.both("liver_lesion", "lesion_count"),
        "burden-comparison": lambda: _pair(
            script, "liver_lesion", "pancreatic_lesion", "volume_cm3"
        ),
        "asymmetry": lambda: script.both("kidney_lesion", "volume_cm3"),
        "location": lambda: script.segment(target),
        "slice": lambda: script.segment(target),
        "segments": lambda: script.both("liver_lesion", "lesion_count"),
        "count-in": lambda: script.both(f"{_ROOTS[ask.organ]}_lesion", "lesion_count"),
    }
    simple[kind]()
    return script


_SUMS = {"kidney": ("kidney_left", "kidney_right"), "liver": ("liver", "spleen")}
_ROOTS = {"liver": "liver", "kidney": "kidney", "pancreas": "pancreatic"}


def _pair(script: Script, first: str, second: str, kind: str) -> Script:
    return script.both(first, kind).both(second, kind)


def _value(script: Script) -> str:
    """Return the last tool's value as text."""
    result = script.entries[-1]["result"]
    return f"{result['value']} {result['unit']}"


# Each mistake takes a fresh Script and plays one run to its end.


def _wrong_side(s: Script) -> Answer:
    s.both("kidney_right", "volume_cm3")
    value = s.entries[-1]["result"]["value"]
    letter = s.letter(str(value))
    return s.says(f"The kidney measures {value} cm³, which matches option {letter}.")


def _wrong_side_lookalike(s: Script) -> Answer:
    """Measure the left kidney and report it as the right one."""
    s.segment("kidney_right").measure("kidney_left", "volume_cm3")
    return s.says(s.letter(str(s.entries[-1]["result"]["value"])))


def _wrong_target(s: Script) -> Answer:
    s.segment("pancreas").measure("spleen", "mean_hu")
    return s.says(s.letter(str(s.entries[-1]["result"]["value"])))


def _vein_for_artery(s: Script) -> Answer:
    s.both("postcava", "mean_hu")
    return s.says(
        f"The vessel has {_value(s)}, so {s.letter(str(s.entries[-1]['result']['value']))}"
    )


def _output_ignored(s: Script) -> Answer:
    return _steps(s).says(s.wrong)


def _output_ignored_in_words(s: Script) -> Answer:
    _steps(s)
    return s.says(f"{s.wrong}. Judging from the overall appearance, {s.asked.options[s.wrong]}.")


def _no_measurement(s: Script) -> Answer:
    target = s.asked.ask.key.partition(":")[2] or "spleen"
    return s.segment(target).says(s.wrong)


def _no_tool(s: Script) -> Answer:
    return s.says(f"{s.right}")


def _wrong_unit(s: Script) -> Answer:
    s.both("pancreatic_lesion", "max_diameter_mm")
    value = s.entries[-1]["result"]["value"]
    return s.says(f"The longest diameter is {value} cm.")


def _milli_for_centi(s: Script) -> Answer:
    _steps(s)
    value = s.entries[-1]["result"]["value"]
    return s.says(f"The volume is {value * 1000:.0f} cm³, none of the options fits.")


def _unparsable(s: Script) -> Answer:
    return _steps(s).says("I would go with the second one from the top.")


def _answer_colon(s: Script) -> Answer:
    """Right, but the official parser takes the A of "Answer"."""
    return _steps(s).says(f"Answer: {s.right}")


def _article(s: Script) -> Answer:
    """Right, but the official parser takes the article for option A."""
    return _steps(s).says(f"There is a clear result of {_value(s)}, so {s.right}")


def _based_on(s: Script) -> Answer:
    """The official parser takes the B of "Based"."""
    return _steps(s).says(f"Based on the measurements, {s.right}")


def _think(s: Script) -> Answer:
    thought = "Option A is tempting, but the measurement decides."
    return _steps(s).says(f"<think>{thought}</think>{s.right}")


def _cut_off(s: Script) -> Answer:
    return _steps(s).says("<think>Comparing the options one by one, first A, then")


def _server_down(s: Script) -> Answer:
    return s.fails("ConnectError: the model server closed the connection")


def _too_long(s: Script) -> Answer:
    s.segment("liver")
    return s.fails("ContextLengthError: 41233 tokens, at most 32768")


def _refusal(s: Script) -> Answer:
    return s.says("I cannot provide medical advice. Please consult a radiologist.")


def _cannot_determine(s: Script) -> Answer:
    s.segment("pancreas")
    return s.says("Cannot determine")


def _right_for_wrong_reason(s: Script) -> Answer:
    """One kidney measured, the other one guessed, and right by luck."""
    s.both("kidney_right", "volume_cm3")
    return s.says(f"{s.right}")


def _right_from_the_wrong_lesion(s: Script) -> Answer:
    """A cyst's attenuation supports a tumour: the answer is right, the evidence is not."""
    s.lookup("kidney lesion type").both("kidney_cyst", "mean_hu")
    return s.says(s.right)


def _missing_mask_as_no(s: Script) -> Answer:
    """The tool says that there is no mask; the model concludes that there is no lesion."""
    target = s.asked.ask.key.partition(":")[2]
    return s.segment(target).says(f"{s.letter('No')}")


def _loop(s: Script) -> Answer:
    for _ in range(5):
        s.segment("liver_lesion")
    return s.runs_out("I will segment the lesions again to be sure.")


def _bad_arguments(s: Script) -> Answer:
    s.measure("liver_lesion", "diameter")
    return s.measure("liver_lesion", "max_diameter").says(s.wrong)


def _wrong_threshold(s: Script) -> Answer:
    s.both("spleen", "volume_cm3").lookup("splenomegaly")
    return s.says(f"{s.wrong}. {_value_of(s, 1)} is within the normal range for an adult.")


def _value_of(s: Script, index: int) -> str:
    result = s.entries[index]["result"]
    return f"{result['value']} {result['unit']}"


def _recovers(s: Script) -> Answer:
    """A failed call, the listed targets read, then the right one."""
    s.segment("gallbladder")
    return s.both("gall_bladder", "volume_cm3").says(s.right)


_MISTAKES: dict[tuple[str, str], Callable[[Script], Answer]] = {
    (_FIRST, "volume:kidney_left"): _wrong_side,
    (_FIRST, "volume:kidney_right"): _wrong_side_lookalike,
    (_FIRST, "kidney-comparison"): _right_for_wrong_reason,
    (_FIRST, "exists:kidney_tumor"): _output_ignored_in_words,
    (_FIRST, "exists:pancreatic_lesion"): _refusal,
    (_FIRST, "exists:liver_lesion"): _answer_colon,
    (_FIRST, "volume:spleen"): _output_ignored,
    (_FIRST, "volume:liver"): _milli_for_centi,
    (_FIRST, "volume:pancreas"): _article,
    (_FIRST, "volume:gall_bladder"): _recovers,
    (_FIRST, "hu:pancreas"): _wrong_target,
    (_FIRST, "hu:aorta"): _vein_for_artery,
    (_FIRST, "hu:liver"): _answer_colon,
    (_FIRST, "hu:kidney_left"): _server_down,
    (_FIRST, "lesion-volume:liver_lesion"): _no_measurement,
    (_FIRST, "lesion-volume:kidney_cyst"): _based_on,
    (_FIRST, "count:kidney_lesion"): _unparsable,
    (_FIRST, "count:pancreatic_lesion"): _think,
    (_FIRST, "ratio:pancreas"): _too_long,
    (_FIRST, "burden:kidney_lesion"): _output_ignored,
    (_FIRST, "diameter:liver_lesion"): _bad_arguments,
    (_FIRST, "diameter:pancreatic_lesion"): _wrong_unit,
    (_FIRST, "slice:liver_lesion"): _output_ignored,
    (_FIRST, "segments:4-3"): _output_ignored,
    (_FIRST, "outlier"): _loop,
    (_FIRST, "staging"): _cut_off,
    (_FIRST, "lesion-type"): _right_from_the_wrong_lesion,
    (_SECOND, "exists:pancreatic_pnet"): _missing_mask_as_no,
    (_SECOND, "exists:colon_lesion"): _missing_mask_as_no,
    (_SECOND, "exists:pancreatic_pdac"): _cannot_determine,
    (_SECOND, "splenomegaly"): _wrong_threshold,
    (_SECOND, "volume:kidney_left"): _wrong_side,
    (_SECOND, "count:kidney_cyst"): _no_tool,
    (_SECOND, "diameter:kidney_lesion"): _article,
    (_SECOND, "fatty-liver"): _output_ignored,
}


def _agent(asked: Asked, boxes: Boxes) -> Answer:
    case = asked.ask.case
    script = Script(asked, boxes[case.case_id])
    play = _MISTAKES.get((case.case_id, asked.ask.key))
    return play(script) if play else _steps(script).says(asked.truth)


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


def result_files(asked: Sequence[Asked], boxes: Boxes) -> dict[str, dict[str, Any]]:
    """Return each invented model's result file by the model's name."""
    agent = []
    for item in asked:
        raw, trajectory = _agent(item, boxes)
        agent.append({**_record(item, raw), "trajectory": trajectory})
    direct = [_record(item, _direct(item)) for item in asked]
    return {
        "demo-agent": {"n_processed": len(agent), "results": agent},
        "demo-direct": {"n_processed": len(direct), "results": direct},
    }
