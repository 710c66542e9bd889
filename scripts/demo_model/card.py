"""The card beside the model: what it is, what it was trained on, how often it is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo_model.bodies import ASKED, ORGANS, SEMI_MM, SHORTEST
from demo_model.evaluation import FIRST_SEED, Scores, Tally
from demo_model.pictures import SIZE
from demo_model.pool import MIDLINE_MM, SEEN_MM2
from demo_model.tool_turns import ASKED_OF_TOOLS
from demo_model.wordings import NO_LESION, ORGAN_WORDS, TASK_SUBJECTS, wordings
from napari_ctvqa.models._toy_prompt import FIELD_MM, MOST_SLICES, WINDOW_HU

TEXT = """\
# The toy model

**Not for any real CT.** A vision-language model of {parameters} parameters (Gemma3 architecture,
float32), trained from nothing on generated phantoms. It is here so that everything around a model
can be tried and tested offline: what is sent, the answer, a tool call, a wrong answer. On a real CT
its answers mean nothing.

Made by `scripts/train_demo_model.py` of this project; no weights, pictures or texts of anybody
else went in. Licence: that of the project.

## What it is shown

1 to {slices} axial slices of one body, patient's right on the picture's left, anterior up; of each
the middle {field} mm (height by width), {window} HU as black to white, resized to {size} × {size}
pixels; after each picture the text `SLICE i`, i from 1; then one question. Its chat template leaves
system turns out and gives of the tools their names only.

## What it can do

{questions}

Without a lesion it says `{none}` where one is presumed. With tools given it calls `segment_organ`
or `measure` and repeats the value that the tool returns, not always to the last digit: {tools}.
It cannot do anything else, does not calculate, and knows no kinds of lesions. It answers in words,
never with an option's letter. Asked for the slice of one organ's lesion, it often names another
organ's where more than one organ has a lesion.

Bodies in training and check are in the venous phase, as the demo's first case; the demo's second
case, without contrast medium, is outside what it knows. Lesions lie in {organs}, {inset} of their
largest half axis below the surface or deeper where the organ is thick enough; half axes {semi} mm;
darker than their organ by {darker} HU or more (kidneys {kidneys}), down to water. Cuts of less than
{seen} mm² are left out; a lesion within {midline} mm of the midline has no side. Half of the
training pictures are mirrored, so left and right are read from the picture, not guessed from the
anatomy.

## How often it is right

{bodies} bodies with seeds from {seed} on, none used in training; every answer equally often.

{scores}

{others}

## Training

{training}
"""


def write_card(folder: Path, scores: Scores, training: Mapping[str, Any]) -> None:
    """Write ``README.md`` and, with the same figures for programs, ``card.json``."""
    data = {
        "toy": True,
        "valid_on": "generated phantoms of this project only",
        "scores": {name: _row(counted) for name, counted in scores.tasks.items()},
        "blank": {name: _row(counted) for name, counted in scores.blank.items()},
        "chance": {name: round(share, 4) for name, share in scores.chance.items()},
        "mirrored": _row(scores.turned),
        "tools": {name: _row(counted) for name, counted in scores.tools.items()},
        "training": dict(training),
    }
    text = json.dumps(data, ensure_ascii=False, indent=1)
    (folder / "card.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "README.md").write_text(_text(scores, training), encoding="utf-8")


def _row(counted: Tally) -> dict[str, int]:
    return {"right": counted.right, "total": counted.total}


def _text(scores: Scores, training: Mapping[str, Any]) -> str:
    low = SHORTEST * min(semi[0] for semi in SEMI_MM.values())
    high = max(semi[1] for semi in SEMI_MM.values())
    return TEXT.format(
        slices=MOST_SLICES,
        size=SIZE,
        parameters=f"{training['parameters']:,}",
        field=" × ".join(f"{mm:g}" for mm in FIELD_MM),
        window=" to ".join(f"{hu:g}" for hu in WINDOW_HU),
        questions=_questions(),
        none=NO_LESION,
        tools="; ".join(ASKED_OF_TOOLS),
        organs=", ".join(ORGAN_WORDS[name].rstrip(".").lower() for name in ORGANS),
        semi=f"{low:g} to {high:g}",
        darker=f"{ASKED.darker_hu[0]:g}",
        kidneys=f"{ASKED.kidney_darker_hu[0]:g}",
        inset=f"{ASKED.inset:g}",
        seen=f"{SEEN_MM2:g}",
        midline=f"{MIDLINE_MM:g}",
        bodies=scores.bodies,
        seed=f"{FIRST_SEED:,}",
        scores=_table(scores),
        others=_others(scores),
        training=_training(training),
    )


def _questions() -> str:
    rows = ["| task | asked as | answers |", "| --- | --- | --- |"]
    answers = {
        "presence": "`Yes.` `No.`",
        "side": "`Left.` `Right.` (of the patient)",
        "slice": "`SLICE i`",
        "organ": " ".join(f"`{word}`" for word in ORGAN_WORDS.values()),
    }
    for task, subjects in TASK_SUBJECTS.items():
        texts = dict.fromkeys(wordings(task, subject)[0] for subject in subjects)
        rows.append(f"| {task} | {'; '.join(texts)} | {answers[task]} |")
    return "\n".join(rows)


def _table(scores: Scores) -> str:
    rows = ["| task | right | on blank pictures | chance |", "| --- | --- | --- | --- |"]
    for name, counted in scores.tasks.items():
        empty = scores.blank[name]
        rows.append(
            f"| {name} | {counted.right} of {counted.total} ({counted.share:.1%}) | "
            f"{empty.right} of {empty.total} ({empty.share:.1%}) | {scores.chance[name]:.1%} |"
        )
    return "\n".join(rows)


def _others(scores: Scores) -> str:
    rows = {
        "sides on mirrored pictures, which must flip": scores.turned,
        **scores.tools,
    }
    said = [f"* {name}: {c.right} of {c.total} ({c.share:.1%})" for name, c in rows.items()]
    return "\n".join(said)


def _training(training: Mapping[str, Any]) -> str:
    plan = training["plan"]
    taken = "; ".join(f"{name} {seconds} s" for name, seconds in training["seconds"].items())
    return (
        f"{training['bodies']} generated bodies: slices as they are, and with lesions painted in. "
        "First the vision tower alone, on which patch shows a lesion of which organ "
        f"({plan['eye_steps']} steps); then the language part on what the tower sees "
        f"({plan['word_steps']} steps); then both ({plan['joint_steps']} steps); then the language "
        f"part again ({plan['last_steps']} steps). One thread: {taken}."
    )
