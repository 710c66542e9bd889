"""OverlayState: which masks are drawn, and how, by a reader's choice; kept from case to case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import Look

_BOUNDS = {
    Source.REFERENCE: "solid",
    Source.PREDICTED: "dashed",
    Source.TOOL: "dotted",
    Source.READER: "long dashes",
}
"""The outline of each source where only outlines are drawn: they differ without hue."""
_OUTLINE_ALPHA = 1.0


class Drawing(StrEnum):
    """How the masks of one source are drawn."""

    FILL = "fill"
    OUTLINE = "outline"
    OFF = "off"

    @property
    def after(self) -> Drawing:
        """Return what one key goes on to: fill, outline, off, fill."""
        return {
            Drawing.FILL: Drawing.OUTLINE,
            Drawing.OUTLINE: Drawing.OFF,
            Drawing.OFF: Drawing.FILL,
        }[self]


@dataclass(frozen=True)
class OverlayState:
    """What a reader chose to see.

    ``hidden`` holds canonical structure names, and applies to every case and source; ``solo`` is
    the one structure that is shown alone, empty for none. A source that ``drawings`` does not
    name is filled.
    """

    hidden: frozenset[str] = frozenset()
    solo: str = ""
    drawings: Mapping[Source, Drawing] = field(default_factory=lambda: MappingProxyType({}))

    def shows(self, structure: str) -> bool:
        """Return whether masks of a structure are drawn."""
        return structure == self.solo if self.solo else structure not in self.hidden

    def drawing(self, source: Source) -> Drawing:
        """Return how masks of a source are drawn."""
        return self.drawings.get(source, Drawing.FILL)

    def with_shown(self, structures: Collection[str], shown: bool) -> OverlayState:
        """Return this with structures shown or hidden; nothing is shown alone any more."""
        names = frozenset(structures)
        hidden = self.hidden - names if shown else self.hidden | names
        return replace(self, hidden=hidden, solo="")

    def with_solo(self, structure: str) -> OverlayState:
        """Return this with one structure shown alone; with it alone already, all as before."""
        return replace(self, solo="" if structure == self.solo else structure)

    def with_drawing(self, source: Source, drawing: Drawing) -> OverlayState:
        """Return this with the masks of one source drawn otherwise."""
        return replace(self, drawings=MappingProxyType({**self.drawings, source: drawing}))


def drawn_look(look: Look, source: Source, drawing: Drawing) -> Look:
    """Return how a look is drawn: as it is, or by its source's outline alone."""
    if drawing is not Drawing.OUTLINE:
        return look
    return Look(_BOUNDS.get(source, "solid"), _OUTLINE_ALPHA, "none", 0.0)
