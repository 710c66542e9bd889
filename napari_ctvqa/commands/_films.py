"""What ``figure`` and ``film`` share: the question, the model's results, the window, the size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.commands._questions import add_path_arguments, open_questions
from napari_ctvqa.core.errors import NotFoundError, UsageError
from napari_ctvqa.core.windows import preset_table
from napari_ctvqa.io.user_config import config_folder

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.core.windows import PresetTable
    from napari_ctvqa.runners.filming import Filmed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare PATH, ``--question``, ``--results``, ``--window`` and the parts burnt in."""
    add_path_arguments(parser)
    parser.add_argument("--question", metavar="ID", required=True, help="id of the question")
    parser.add_argument(
        "--results", type=Path, metavar="FILE",
        help="a model's result file: its steps stand beside the reference's",
    )  # fmt: skip
    parser.add_argument(
        "--window", metavar="NAME",
        help="window preset for every step (default: abdomen; lungs, bones and brain in theirs)",
    )  # fmt: skip


def film_of(args: argparse.Namespace) -> Filmed:
    """Return the case and the steps that the arguments name. Raises CtvqaError."""
    from napari_ctvqa.runners.filming import filmed

    opened, questions = open_questions(args)
    return filmed(opened, questions, args.question, args.results)


def windows_of(args: argparse.Namespace) -> tuple[tuple[float, float], PresetTable | None]:
    """Return black and white in HU of the preset named; unnamed the usual one, and all presets.

    Raises
    ------
    NotFoundError
        For a name that no preset has.
    """
    table = preset_table(config_folder() / "window_presets.json")
    preset = table.named(args.window) if args.window else table.default
    if preset is None:
        raise NotFoundError(
            f"no window is called {args.window!r}.",
            hint=f"There are: {', '.join(p.name for p in table.presets)}.",
        )
    return (preset.lo, preset.hi), None if args.window else table


def check_folder_of(path: Path) -> None:
    """Raise UsageError where the folder of a file to be written is not there."""
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder.", hint="Make it first.")
