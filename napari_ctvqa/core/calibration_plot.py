"""A calibration laid out as a picture: lines, boxes and words in pixels, for whoever draws them.

Share of right answers against stated confidence, a whisker for the 95 % interval, the dashed line
on which both are equal; below, how many answers each bin has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_ctvqa.core.calibration import Calibration
    from napari_ctvqa.core.intervals import Interval

GRID, EQUAL, MARK, COUNT, TEXT = "grid", "equal", "mark", "count", "text"
"""Roles: how a shape looks is for the one who draws it."""
X_TITLE, Y_TITLE, COUNT_TITLE = "confidence in %", "right in %", "answers"
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEFT, _RIGHT, _TOP, _BELOW, _GAP, _COUNTS = 3.6, 1.2, 1.8, 2.8, 1.6, 4.0
"""Margins and the height of the counts, in heights of a line of text."""


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line from (x0, y0) to (x1, y1); ``dashed`` or not."""

    x0: float
    y0: float
    x1: float
    y1: float
    role: str
    width_px: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class PlotBox:
    """A filled rectangle."""

    x: float
    y: float
    wide: float
    high: float
    role: str


@dataclass(frozen=True, slots=True)
class PlotText:
    """Words whose middle, or an end of which, is at (x, y): ``anchor`` start, middle or end."""

    text: str
    x: float
    y: float
    anchor: str = "middle"


PlotShape = PlotLine | PlotBox | PlotText


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the shares lie in the picture: left, top, width and height."""

    left: float
    top: float
    wide: float
    high: float

    def x(self, share: float) -> float:
        return self.left + share * self.wide

    def y(self, share: float) -> float:
        return self.top + (1.0 - share) * self.high


def plotted(found: Calibration, wide: float, high: float, text_px: float) -> list[PlotShape]:
    """Return the shapes of a picture of that size, y downwards; ``text_px`` is a line's height."""
    counts_px = _COUNTS * text_px
    frame = _Frame(
        _LEFT * text_px,
        _TOP * text_px,
        wide - (_LEFT + _RIGHT) * text_px,
        high - (_TOP + _BELOW + _GAP) * text_px - counts_px,
    )
    base = frame.top + frame.high + _GAP * text_px + counts_px
    shapes: list[PlotShape] = [*_axes(frame, base, text_px)]
    shapes.append(PlotLine(frame.x(0), frame.y(0), frame.x(1), frame.y(1), EQUAL, 1.5, dashed=True))
    most = max((b.total.n for b in found.bins), default=1)
    for one in found.bins:
        shapes += _bin_shapes(frame, one.confidence, one.share, one.total.interval, text_px)
        left, right = frame.x(one.low) + 1, frame.x(one.high) - 1
        tall = max((counts_px - 1.2 * text_px) * one.total.n / most, 1.0)
        shapes.append(PlotBox(left, base - tall, right - left, tall, COUNT))
        middle = (left + right) / 2
        shapes.append(PlotText(_short(one.total.n), middle, base - tall - 0.3 * text_px))
    return shapes


def _axes(frame: _Frame, base: float, text_px: float) -> list[PlotShape]:
    shapes: list[PlotShape] = [
        PlotText(Y_TITLE, frame.left - 3.2 * text_px, frame.top - 0.7 * text_px, "start"),
        PlotText(X_TITLE, frame.x(0.5), base + 2.3 * text_px),
        PlotText(COUNT_TITLE, frame.left, frame.y(0) + 1.2 * text_px, "start"),
        PlotLine(frame.x(0), base, frame.x(1), base, GRID),
    ]
    for tick in _TICKS:
        shown = f"{tick * 100:.0f}"
        shapes += [
            PlotLine(frame.x(0), frame.y(tick), frame.x(1), frame.y(tick), GRID),
            PlotLine(frame.x(tick), frame.y(0), frame.x(tick), frame.y(1), GRID),
            PlotText(shown, frame.left - 0.5 * text_px, frame.y(tick) + 0.35 * text_px, "end"),
            PlotText(shown, frame.x(tick), base + 1.1 * text_px),
        ]
    return shapes


def _bin_shapes(
    frame: _Frame, confidence: float, share: float, ends: Interval | None, text_px: float
) -> list[PlotShape]:
    x, y, half = frame.x(confidence), frame.y(share), max(3.0, text_px / 4)
    shapes: list[PlotShape] = [PlotBox(x - half, y - half, 2 * half, 2 * half, MARK)]
    if ends is not None:
        shapes.insert(0, PlotLine(x, frame.y(ends.low), x, frame.y(ends.high), MARK, 2.0))
    return shapes


def _short(count: int) -> str:
    """Return a count in at most four letters."""
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k"
