"""A model's text before it is read: thoughts and markup taken out; what it states or refuses."""

from __future__ import annotations

import re

_OPEN, _CLOSE = "<think>", "</think>"
_READ_AT_MOST = 40_000


def strip_think(text: str) -> str:
    """Return text without ``<think>…</think>`` and without what follows an unclosed ``<think>``."""
    kept: list[str] = []
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(_CLOSE)
    return ("".join(kept) + text[position:]).partition(_OPEN)[0].strip()


def normalise(text: str) -> str:
    """Return text lower-cased, punctuation other than hyphens removed, white space collapsed."""
    return " ".join(re.sub(r"[^\w\s-]", "", text.lower()).split())


_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_FINAL_TAG = re.compile(r"\[FINAL\]|####", re.IGNORECASE)
_MARKUP = re.compile(r"\*\*|__|`|\$|\\[()\[\]]|</?[bi]>|</s>|<\|[^|>]*\|>")


def plain(text: str) -> str:
    """Return text without thoughts and markup; boxed and tagged answers become ``Answer: …``."""
    text = strip_think(text)
    if len(text) > _READ_AT_MOST:  # an answer stands at the beginning or at the end
        half = _READ_AT_MOST // 2
        text = f"{text[:half]}\n{text[-half:]}"
    text = _LATEX_TEXT.sub(r"\1", text)
    text = _BOXED.sub(r"\nAnswer: \1\n", text)
    text = _TAGGED.sub(r"\nAnswer: \1\n", text)
    text = _FINAL_TAG.sub("\nAnswer: ", text)
    return _MARKUP.sub("", text).strip()


_REFUSAL = re.compile(
    r"\b(?:can(?:no|')?t|cannot|could not|unable to|not possible to|impossible to|insufficient"
    r"|not enough information|(?:do not|don't) know|not sure|unsure|unclear|uncertain"
    r"|undetermined|not (?:be )?determin\w+|no (?:answer|idea|clue|comment|opinion)"
    r"|no (?:way|means|possibility) (?:to|of) (?:tell\w*|say\w*|know\w*|answer\w*|judg\w+)"
    r"|no (?:\w+ )?information)\b",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Return whether the text says that it cannot answer."""
    return bool(_REFUSAL.search(text))


ANSWER_IS = re.compile(
    r"\banswer\b(?:\s+(?:is|would be|should be|must be|was))?\s*[:=\-–—→]*\s*([^\n]*)",
    re.IGNORECASE,
)


def last_statement(body: str) -> str:
    """Return what follows the last ``answer is`` / ``answer:`` on its line; else empty."""
    found = [match[1].strip() for match in ANSWER_IS.finditer(body)]
    return next((said for said in reversed(found) if said), "")
