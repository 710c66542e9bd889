"""The trigger words by which VILA-M3 asks for an expert: ``<VISTA3D(hepatic tumor)>`` in its text.

Read as its demonstration reads them: the text holds exactly one pair of angle brackets, and the
expert's name is in it; an argument left away means everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXPERT = "VISTA3D"
EVERYTHING = "everything"
_SEARCHED = 20_000
_BRACKETS = re.compile(r"<([^<>]{0,500})>")
_ARGUMENT = re.compile(r"\(([^()]{0,200})\)")
_END_MARKS = re.compile(r"</s>|<\|[A-Za-z_]{1,40}\|>")


@dataclass(frozen=True, slots=True)
class ExpertCall:
    """What a text asks for. ``problem`` says why it cannot be had, empty where it can.

    ``answered`` marks a text that speaks of a segmentation as done: its author is not asked again.
    """

    group: str = EVERYTHING
    problem: str = ""
    answered: bool = False


def expert_called(text: str) -> ExpertCall | None:
    """Return the expert that a text asks for; None where it asks for none."""
    found = _BRACKETS.findall(_END_MARKS.sub("", text[:_SEARCHED]))
    if len(found) != 1 or EXPERT not in found[0]:
        return None
    arguments = [argument.strip() for argument in _ARGUMENT.findall(found[0])]
    if len(arguments) > 1:
        return ExpertCall(problem=f"it gives {len(arguments)} arguments; one was expected")
    return ExpertCall(arguments[0] if arguments and arguments[0] else EVERYTHING,
                      answered="segmented" in text)  # fmt: skip
