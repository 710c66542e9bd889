"""``open``: a case, a benchmark or a question file in the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.commands import _window

if TYPE_CHECKING:
    import argparse


class OpenCommand:
    """Open what PATH holds, decided by content."""

    name = "open"
    help = "open a case folder, a CT, a benchmark folder or a question file"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        _window.add_arguments(parser)
        parser.add_argument(
            "--question", metavar="ID", help="begin with this question (<case>::<index> in places)"
        )
        parser.add_argument(
            "--where", default="", metavar="FILTER", help="list these questions, e.g. 'stage:x -y'"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Open the window; return when it is closed."""
        return _window.open_window(
            args.path,
            benchmark=args.benchmark,
            roots=tuple(args.cases),
            results=tuple(args.results),
            question_id=args.question,
            where=args.where,
        )


COMMAND = OpenCommand()
