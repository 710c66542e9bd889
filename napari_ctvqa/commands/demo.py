"""``demo``: the demo case, its questions and a failure to look at."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from napari_ctvqa.commands import _window
from napari_ctvqa.commands._progress import tell

if TYPE_CHECKING:
    import argparse


class DemoCommand:
    """Open the generated case; without ``--question`` on the failure it was made for."""

    name = "demo"
    help = "open the demo case: a generated CT, its questions, answers with mistakes"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--question", metavar="ID", help="begin with this question")
        parser.add_argument(
            "--autoplay", action="store_true", help="walk through the evidence steps by itself"
        )
        parser.add_argument(
            "--out",
            type=_window.png_path,
            metavar="FILE.png",
            help="save a picture of the first screen and close; needs no display",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Open the demo; where it is not there yet, it is made while the window is."""
        from napari_ctvqa import demo

        if args.out is not None:
            _window.check_folder_of(args.out)
            if not _window.has_display():
                return _window.on_virtual_display(args)
        _window.check_window()
        if not demo.is_made():
            tell("making the demo case, once; some seconds")
        made_by = demo.begin_demo()
        folder = demo.demo_root()
        sys.stdout.write(f"demo: {folder}\n")
        sys.stdout.flush()
        tell("opening it; other commands take that folder as PATH")
        return _window.open_window(
            folder,
            made_by=made_by,
            question_id=args.question or demo.FIRST_QUESTION,
            first_model=demo.FIRST_MODEL,
            screenshot=args.out,
            autoplay=args.autoplay,
        )


COMMAND = DemoCommand()
