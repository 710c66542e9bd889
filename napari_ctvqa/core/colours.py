"""Overlay colours: fixed per structure, distinct within a case, and one kept for the focus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_ctvqa._resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from napari_ctvqa.core.cases import Case, Mask, Source


class RGB(NamedTuple):
    """A colour, each part 0 to 255."""

    red: int
    green: int
    blue: int

    @classmethod
    def from_hex(cls, text: str) -> RGB:
        """Read ``"#E69F00"``. Raises ValueError."""
        digits = text.removeprefix("#")
        if len(digits) != 6:
            raise ValueError(f"not a colour: {text!r}")
        return cls(*(int(digits[i : i + 2], 16) for i in (0, 2, 4)))

    @property
    def hex(self) -> str:
        """Return ``"#e69f00"``."""
        return f"#{self.red:02x}{self.green:02x}{self.blue:02x}"

    def rgba(self, alpha: float) -> tuple[float, float, float, float]:
        """Return the four parts as 0 to 1."""
        return (self.red / 255, self.green / 255, self.blue / 255, alpha)


@dataclass(frozen=True, slots=True)
class Look:
    """How a source is drawn, so that it is told apart without hue.

    ``outline`` is ``"solid"``, ``"dashed"``, ``"dotted"``, ``"long dashes"``, ``"none"``; ``fill``
    is ``"plain"``, ``"hatch"``, ``"cross"`` or ``"none"``; the alphas are 0 to 1.
    """

    outline: str
    outline_alpha: float
    fill: str
    fill_alpha: float


def highlight_colour() -> RGB:
    """Return the colour of the focused mask, which nothing else uses."""
    return RGB.from_hex(_table()["highlight"]["colour"])


def highlight_look() -> Look:
    """Return how the focused mask is drawn."""
    return _look(_table()["highlight"]["look"])


def plane_colour(plane: str) -> RGB:
    """Return the colour of a plane's frame, and of its line in the other planes' cross-hairs."""
    return RGB.from_hex(_table()["planes"][plane])


def look_of(source: Source) -> Look:
    """Return how masks of this source are drawn."""
    return _look(_table()["looks"][source.value])


def lesion_look() -> Look:
    """Return how reference lesions are drawn: stronger than the organs around them."""
    return _look(_table()["looks"]["lesion"])


def case_colours(organs: Iterable[str], lesions: Iterable[str]) -> dict[str, RGB]:
    """Return a colour for every structure; no two of one case share one.

    A structure of the table always has the same colour, in every case. The others take the free
    colours of the palette in the order of their names, and once those are used up, shades of them.
    """
    table = _table()
    colours: dict[str, RGB] = {}
    _assign(colours, organs, table["structures"], table["palette"])
    _assign(colours, lesions, table["lesions"], table["lesion_palette"])
    return colours


def colours_of(case: Case) -> dict[str, RGB]:
    """Return the colour of every structure that is drawn of a case."""
    names = {group: m.structures.values() for group, m in case.label_maps.items()}
    return case_colours(names.get("organs", ()), names.get("lesions", ()))


def beside_colours(masks: Iterable[Mask], taken: Mapping[str, RGB]) -> dict[str, RGB]:
    """Return the colours of masks beside the case's: its own where it has the structure."""
    structures = [mask.structure for mask in masks]
    own = case_colours(structures, ())
    return {name: taken.get(name, own[name]) for name in structures}


def highlight_pixels(rgb: npt.NDArray[np.uint8], tolerance: int = 4) -> npt.NDArray[np.bool_]:
    """Return which pixels of a picture (…, 3 or 4) carry the highlight colour over grey.

    A colour C of opacity a over a grey g gives a·C + (1 - a)·g, so the differences between the
    channels are those of C times a, whatever the grey: fill and outline are both recognised, and
    no other overlay colour has these differences.
    """
    picture = np.asarray(rgb)[..., :3].astype(np.int16)
    differences = np.diff(picture, axis=-1)
    look = highlight_look()
    target = np.diff(np.array(highlight_colour(), np.int16))
    found = np.zeros(picture.shape[:-1], bool)
    for alpha in (look.fill_alpha, look.outline_alpha):
        found |= (np.abs(differences - alpha * target) <= tolerance).all(axis=-1)
    return found


def _assign(
    colours: dict[str, RGB],
    names: Iterable[str],
    fixed: Mapping[str, str],
    palette: Iterable[str],
) -> None:
    names = sorted(set(names) - set(colours))
    taken = set(colours.values())
    for name in names:
        colour = RGB.from_hex(fixed[name]) if name in fixed else None
        if colour is not None and colour not in taken:
            colours[name] = colour
            taken.add(colour)
    reserved = taken | {RGB.from_hex(text) for text in fixed.values()}
    spare = _spare([RGB.from_hex(text) for text in palette], reserved | {highlight_colour()})
    for name in names:
        if name not in colours:
            colours[name] = next(spare)


def _spare(palette: list[RGB], taken: set[RGB]) -> Iterator[RGB]:
    """Yield colours that are not taken: the palette, then darker and darker shades of it."""
    seen = set(taken)
    for percent in range(100, 30, -2):
        for colour in palette:
            shade = RGB(*(part * percent // 100 for part in colour))
            if shade not in seen:
                seen.add(shade)
                yield shade
    raise ValueError("more structures in one case than there are colours")


def _look(row: Mapping[str, Any]) -> Look:
    return Look(row["outline"], row["outline_alpha"], row["fill"], row["fill_alpha"])


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(resource_path("colours.json").read_text(encoding="utf-8"))
    return table
