"""``figure``: one step of a question's evidence as a picture for a paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import DONE, write_out
from napari_ctvqa.commands import _films
from napari_ctvqa.core.errors import UsageError
from napari_ctvqa.core.view_text import PLANES

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.core.film_steps import FilmStep

_PARTS = ("markers", "slice_text", "window", "scale_bar", "legend", "caption")


class FigureCommand:
    """Draw the mask of one step, without anything that names the patient or the file."""

    name = "figure"
    help = "save one step of a question's evidence as a figure (PNG, SVG)"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _films.add_arguments(parser)
        parser.add_argument(
            "--step", type=int, metavar="N",
            help="which step, from 1 (default: the first difference, else the first with a mask)",
        )  # fmt: skip
        parser.add_argument(
            "--plane", choices=PLANES, default=PLANES[0], help=f"default: {PLANES[0]}"
        )
        parser.add_argument(
            "--slice", type=int, metavar="N",
            help="slice as shown, from 1 (default: where the step's mask is largest)",
        )  # fmt: skip
        parser.add_argument(
            "--size", metavar="WxH", default="900x800", help="e.g. 900x800 (pixels) or 85x75mm"
        )
        parser.add_argument("--dpi", type=float, default=300.0, help="pixels per inch (300)")
        parser.add_argument(
            "--without", metavar="PART", action="append", default=[], choices=_PARTS,
            help=f"leave out: {', '.join(_PARTS)} (repeatable)",
        )  # fmt: skip
        parser.add_argument(
            "--out", type=Path, metavar="FILE", required=True, help="ends in .png or .svg"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Read, draw, write."""
        from napari_ctvqa.core.regions import largest_slice_of
        from napari_ctvqa.exports._views import Parts, view_of
        from napari_ctvqa.exports.figure import EXPORT, FigureSize
        from napari_ctvqa.exports.film import film_views

        _films.check_folder_of(args.out)
        size, windows = FigureSize.from_text(args.size, args.dpi), _films.windows_of(args)
        found = _films.film_of(args)
        if not found.steps:
            raise UsageError("this question has no evidence to draw.", hint="See: evidence ID.")
        place = _place(found.steps, args.step)
        step, view = found.steps[place], film_views(found.case, found.steps, *windows)[place]
        axis, mask = PLANES.index(args.plane), step.mask if step.own else None
        count = view.scene.grid.shape_zyx[axis]
        index = view.index if axis == 0 else count // 2
        if axis and mask is not None:
            index = largest_slice_of(mask.region, axis)
        if args.slice is not None:
            if not 1 <= args.slice <= count:
                raise UsageError(
                    f"there is no {args.plane} slice {args.slice}.", hint=f"Give 1 to {count}."
                )
            index = args.slice - 1
        view = view_of(
            found.case, view.scene, axis, index,
            legend=view.legend, caption=view.caption, marked=step.first,
        )  # fmt: skip
        parts = replace(Parts(), **dict.fromkeys(args.without, False))
        EXPORT.write(view, args.out, size, parts)
        write_out(f"{args.out}: {size.wide_px} × {size.high_px} pixels\n")
        return DONE


def _place(steps: tuple[FilmStep, ...], number: int | None) -> int:
    if number is not None:
        if not 1 <= number <= len(steps):
            raise UsageError(f"there is no step {number}.", hint=f"Give 1 to {len(steps)}.")
        return number - 1
    first = next((n for n, step in enumerate(steps) if step.first and step.own), None)
    shown = next((n for n, step in enumerate(steps) if step.own), 0)
    return shown if first is None else first


COMMAND = FigureCommand()
