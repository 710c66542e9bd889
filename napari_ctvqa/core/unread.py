"""Why nothing could be read from an answer, by kind: what ``Reading.how`` says, put in order."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from napari_ctvqa.core.records import Outcome

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Score


class Unread(StrEnum):
    """Why no answer was read; the values are words of the filter (``unread:several``)."""

    FAILED = "failed"
    EMPTY = "empty"
    REFUSED = "refused"
    SEVERAL = "several"
    NOTHING = "nothing"
    NO_OPTION = "no-option"
    CONTRADICTS = "contradicts"
    OTHER_UNIT = "other-unit"
    OTHER_NUMBER = "other-number"
    OTHER = "other"


UNREAD_WORDS = {
    Unread.FAILED: "the run failed, there is no answer",
    Unread.EMPTY: "no text, or none but thoughts",
    Unread.REFUSED: "says that it cannot answer",
    Unread.SEVERAL: "names several, or yes and no",
    Unread.NOTHING: "no option, number, yes or no in it",
    Unread.NO_OPTION: "a letter that is no option",
    Unread.CONTRADICTS: "a letter beside another's text",
    Unread.OTHER_UNIT: "a number in another kind of unit",
    Unread.OTHER_NUMBER: "a number that no option has",
    Unread.OTHER: "for another reason",
}

_SAID = (
    (r"the run failed", Unread.FAILED),
    (r"no text", Unread.EMPTY),
    (r"says that it cannot answer", Unread.REFUSED),
    (r"names several .*|says both", Unread.SEVERAL),
    (r"no option found|no number|no clear yes or no", Unread.NOTHING),
    (r".* is not an option", Unread.NO_OPTION),
    (r"letter .* stands beside another option's text", Unread.CONTRADICTS),
    (r"(the number )?is in .* was asked", Unread.OTHER_UNIT),
    (r"gives a number that no option has", Unread.OTHER_NUMBER),
)


def unread_kind(how: str) -> Unread:
    """Return the kind of an unread answer from what its reading says (``Reading.how``)."""
    return next((kind for said, kind in _SAID if re.fullmatch(said, how)), Unread.OTHER)


def unread_of(score: Score) -> Unread | None:
    """Return why a person reads no answer; None where one is read, or cannot be judged."""
    if score.ours is not Outcome.UNREAD:
        return None
    return Unread.FAILED if score.failed else unread_kind(score.how)
