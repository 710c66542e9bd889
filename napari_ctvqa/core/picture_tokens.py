"""What a picture costs a model, and to what size its processor brings it.

The rule stands in the preset's facts as ``tokens``: ``area`` (a token per square of ``side_px``
after the processor's resize), ``each`` (a fixed number, the picture becomes a square of
``model_px``) or nothing (unknown).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Picture

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Message, Preset

_CHARACTERS_A_TOKEN = 4
"""Of English text, roughly; a prompt's pictures weigh far more."""


def resized_px(rule: Mapping[str, Any], height: int, width: int) -> tuple[int, int]:
    """Return (height, width) to which a model's processor brings a picture.

    By the ``area`` rule both sides become the nearest multiples of ``side_px``; where the area then
    leaves the limits, the picture is scaled to them first, rounding down for the upper and up for
    the lower limit.
    That is how the Qwen-VL processors do it. Without a rule the picture stays as it is.
    """
    if rule.get("rule") != "area":
        side = int(rule.get("model_px", 0))
        return (side, side) if side else (height, width)
    side, least, most = rule["side_px"], rule["least_px"], rule["most_px"]
    rows, columns = (max(side, round(size / side) * side) for size in (height, width))
    if rows * columns > most:
        scale = math.sqrt(height * width / most)
        rows, columns = (max(side, math.floor(s / scale / side) * side) for s in (height, width))
    elif rows * columns < least:
        scale = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(s * scale / side) * side for s in (height, width))
    return rows, columns


def picture_tokens(preset: Preset, picture: Picture, pictures: int = 2) -> int | None:
    """Return the tokens of one picture among so many; None where that is not known."""
    rule = preset.facts.get("tokens", {})
    if rule.get("rule") == "area":
        rows, columns = resized_px(rule, *picture.pixels.shape[:2])
        return int(rows * columns // rule["side_px"] ** 2)
    if rule.get("rule") == "each" and (pictures > 1 or not rule.get("several_only")):
        return int(rule["tokens"])
    return None


def prompt_tokens(preset: Preset, messages: Iterable[Message]) -> int:
    """Return our estimate of the prompt's tokens, 0 where a picture's cost is not known."""
    parts = [part for message in messages for part in message.parts]
    shown = [part for part in parts if isinstance(part, Picture)]
    costs = [picture_tokens(preset, picture, len(shown)) for picture in shown]
    if None in costs:
        return 0
    characters = sum(len(part) for part in parts if isinstance(part, str))
    return sum(cost or 0 for cost in costs) + characters // _CHARACTERS_A_TOKEN
