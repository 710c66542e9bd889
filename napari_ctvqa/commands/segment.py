"""``segment CASE``: let TotalSegmentator segment structures that a case has no masks of."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import one_line
from napari_ctvqa.commands._progress import duration
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.segmenting import USUAL, Segmented, SegmentProgress
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.segmentations import SETTINGS, kept
from napari_ctvqa.io.user_config import store_object
from napari_ctvqa.runners.segmenter import SegmenterSettings, find_executable, segment

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator


class SegmentCommand:
    """Segment with TotalSegmentator, in a process of its own."""

    name = "segment"
    help = "segment organs of a case with TotalSegmentator; its masks are kept in the cache"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("case", type=Path, help="case folder or CT file (.nii.gz, .nii)")
        parser.add_argument(
            "--structures", nargs="+", default=list(USUAL), metavar="NAME",
            help="what to segment (default: the organs that questions ask about)",
        )  # fmt: skip
        parser.add_argument(
            "--executable", default="", metavar="FILE",
            help="the TotalSegmentator of another environment; it is remembered",
        )  # fmt: skip
        parser.add_argument(
            "--device", default="gpu", metavar="NAME", help="gpu (default), gpu:1, cpu or mps"
        )
        parser.add_argument("--fast", action="store_true", help="its coarse model of 3 mm")
        parser.add_argument("--again", action="store_true", help="also what the cache has already")
        parser.add_argument("--json", action="store_true", help="print what was made as JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Segment; return 0, or 1 where a structure that was asked for has no mask."""
        files = find_case(args.case)
        if files.ct is None:
            raise NotFoundError(f"{args.case} has no CT.", hint="Give a case folder or a CT file.")
        settings = SegmenterSettings(args.executable, args.device, args.fast)
        program = find_executable(settings)
        if args.executable:
            store_object(SETTINGS, {"executable": str(Path(program).absolute())})
        made = _follow(segment(files.ct, args.structures, settings, again=args.again))
        place = kept(files.ct)
        assert place is not None
        if args.json:
            told = {
                "program": made.program, "version": made.version, "folder": str(place.folder),
                "structures": list(made.structures), "missing": list(made.missing),
                "seconds": round(made.seconds, 1),
            }  # fmt: skip
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(
                f"{len(made.structures)} masks by {made.program} {made.version} in {place.folder}\n"
            )
            if made.missing:
                sys.stdout.write(f"not segmented: {', '.join(made.missing)}\n")
        return 1 if made.missing else 0


def _follow(running: Generator[SegmentProgress, None, Segmented]) -> Segmented:
    """Run it to its end, showing how far it is where somebody can see it."""
    seen = sys.stderr.isatty()
    with closing(running):
        while True:
            try:
                now = next(running)
            except StopIteration as ended:
                if seen:
                    sys.stderr.write("\r\x1b[K")
                made: Segmented = ended.value
                return made
            if seen:
                share = "" if now.share is None else f" {100 * now.share:.0f} %"
                line = f"{duration(now.seconds)}{share}: {one_line(now.words)[:80]}"
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()


COMMAND = SegmentCommand()
