"""The text of an answer that failed: a sentence in which scorers hardly find an answer.

Official scorers read ``[ERROR]`` rows like any other: a stand-alone "a" is option A to them, "no"
is no, the digits of a case's name are a number. The whole sentence stands in the trace.
"""

from __future__ import annotations

import re

MARK = "[ERROR]"
_REWORDED = (
    (re.compile(r"\bno option (\w+)\b", re.IGNORECASE), r"none of the options \1"),
    (re.compile(r"\bno\b(?! mask for)", re.IGNORECASE), "not any"),
    (re.compile(r"\byes\b", re.IGNORECASE), "affirmative"),
    (re.compile(r"\ba (?=\w)"), ""),
    (re.compile(r"(?<=[^\W\d_])(['’])(?=[abcd]\b)", re.IGNORECASE), ""),
    (re.compile(r"\b[A-D]\b", re.IGNORECASE), "#"),
    (re.compile(r"\d"), "#"),
)


def failed_text(problem: str) -> str:
    """Return the raw text of a failed answer: ``"[ERROR] no mask for colon_lesion"``.

    "no mask for" is the one fixed phrase: tools look for it, and where a scorer reads it as "no"
    the row is marked as failed all the same. Digits are ``#``; the words yes and no and single
    letters are put otherwise. The trace and the row's own case id say what they were.
    """
    text = " ".join(problem.split())
    for pattern, instead in _REWORDED:
        text = pattern.sub(instead, text)
    return f"{MARK} {text}"
