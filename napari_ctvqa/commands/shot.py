"""``shot``: the whole window as a picture, also where there is no display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.commands import _window
from napari_ctvqa.commands._progress import tell

if TYPE_CHECKING:
    import argparse


class ShotCommand:
    """Picture the window on one question, or on a case that has none."""

    name = "shot"
    help = "save the whole window on one question as a picture; needs no display"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _window.add_arguments(parser)
        parser.add_argument(
            "--question", metavar="ID", help="the question to show (default: the first, or none)"
        )
        parser.add_argument(
            "--out",
            type=_window.png_path,
            metavar="FILE.png",
            required=True,
            help="where the picture goes",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Open, wait until everything is drawn, save, close."""
        _window.check_folder_of(args.out)
        if not _window.has_display():
            return _window.on_virtual_display(args)
        if args.path.exists():
            tell(f"opening {args.path} for the picture")
        return _window.open_window(
            args.path,
            benchmark=args.benchmark,
            roots=tuple(args.cases),
            results=tuple(args.results),
            question_id=args.question,
            screenshot=args.out,
        )


COMMAND = ShotCommand()
