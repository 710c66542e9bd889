"""``film``: a question's evidence, step by step, as a GIF, an MP4 or pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import DONE, write_out
from napari_ctvqa.commands import _films
from napari_ctvqa.core.errors import UsageError

if TYPE_CHECKING:
    import argparse


class FilmCommand:
    """Film the evidence chain, without anything that names the patient or the file."""

    name = "film"
    help = "save a question's evidence as a film (GIF, MP4, PNG pictures)"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _films.add_arguments(parser)
        parser.add_argument("--seconds", type=float, default=2.0, help="for each step (2)")
        parser.add_argument("--size", metavar="WxH", default="800x760", help="in pixels")
        parser.add_argument(
            "--out", type=Path, metavar="FILE", required=True,
            help="ends in .gif or .mp4; without an ending, a folder for pictures",
        )  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        """Read, draw, write."""
        from napari_ctvqa.exports.figure import FigureSize
        from napari_ctvqa.exports.film import EXPORT, film_views

        _films.check_folder_of(args.out)
        size, windows = FigureSize.from_text(args.size, 96.0), _films.windows_of(args)
        found = _films.film_of(args)
        if not found.steps:
            raise UsageError("this question has no evidence to film.", hint="See: evidence ID.")
        views = film_views(found.case, found.steps, *windows)
        steps = EXPORT.steps(
            views, args.out, (size.wide_px, size.high_px), seconds_each=args.seconds
        )
        for done, total in steps:
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{done} of {total} steps")
        write_out(f"{args.out}: {len(views)} steps\n")
        return DONE


COMMAND = FilmCommand()
