"""Options that choose a model and say where it runs, and the Answerer they make."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line
from napari_ctvqa.commands._progress import count_of
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.kits import KITS
from napari_ctvqa.core.servers import MOST_AT_ONCE

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.opening import Opened

_MODES = ("direct", "agent")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--model`` and what belongs to it."""
    parser.add_argument(
        "--model", default="rules", metavar="NAME",
        help="rules (default), toy (the shipped model), or a preset; see: napari-ctvqa models",
    )  # fmt: skip
    parser.add_argument(
        "--mode", choices=_MODES, default="direct", help="answer at once, or with tools"
    )
    parser.add_argument("--kit", default="", help=f"an agent's tools: {', '.join(KITS)}")
    parser.add_argument(
        "--server", action="append", default=[], metavar="URL",
        help="e.g. http://gpu7:8000/v1; given several times, the questions are shared among them",
    )  # fmt: skip
    parser.add_argument(
        "--at-once", type=_at_once, default=0, metavar="N",
        help="questions that each server is asked at once, 1 to 64 (default 1; 4 with several "
        "servers)",
    )  # fmt: skip
    parser.add_argument(
        "--server-model", default="", metavar="ID", help="the model's name on the server"
    )
    parser.add_argument(
        "--confirm-host",
        action="store_true",
        help="allow pixels to go to the hosts of --server, for good",
    )
    parser.add_argument(
        "--folder", default="", metavar="PATH", help="a model folder, run in a process of its own"
    )
    parser.add_argument(
        "--repository", default="", metavar="PATH",
        help="the folder of the model's own code, for those that need it; see: napari-ctvqa models",
    )  # fmt: skip
    parser.add_argument(
        "--base", default="", metavar="PATH", help="the folder of the model it was trained upon"
    )
    parser.add_argument(
        "--trust-code", action="store_true",
        help="allow the Python code of that model to run, in its present state, for good",
    )  # fmt: skip
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", dest="changed",
        help="change a setting of the preset, e.g. recipe=m3d-seg (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--python", default="", metavar="FILE", help="the Python that has torch and transformers"
    )
    parser.add_argument(
        "--device", default="", metavar="NAME", help="auto (default), cpu, cuda, cuda:1 ..."
    )
    parser.add_argument(
        "--max-steps", type=count_of, default=5, metavar="N", help="an agent's turns (default 5)"
    )
    parser.add_argument(
        "--slices", type=_slices, metavar="N",
        help="slices that are sent at most (default: the preset's; an agent is sent none)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="for models that draw their words")
    parser.add_argument(
        "--predicted", type=Path, action="append", default=[], metavar="ROOT",
        help="folder with predicted masks, for the kit predicted (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--decoding", default="", metavar="WAY",
        help="semsam[:K=8,M=10,p=0.9]: MIS-SemSam, of a model that runs here",
    )  # fmt: skip
    parser.add_argument(
        "--confidence", default="", metavar="HOW",
        help="logits (option probabilities), or samples:N[@T] (agreement of N samples)",
    )  # fmt: skip
    parser.add_argument(
        "--kit-files", action="store_true",
        help="tools answer from the benchmark's own caches and pictures, not from masks",
    )  # fmt: skip


def _at_once(text: str) -> int:
    """Return a count from 1 to 64. Raises ValueError, which argparse reports."""
    number = count_of(text)
    if number > MOST_AT_ONCE:
        raise ValueError(text)
    return number


def _slices(text: str) -> int:
    """Return a count from 0. Raises ValueError, which argparse reports."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def chosen_answerer(args: argparse.Namespace, opened: Opened) -> tuple[Any, str]:
    """Return the Answerer that the options name, and the name of its kit.

    Raises
    ------
    CtvqaError
        When there is no such model, or it cannot be run.
    """
    from napari_ctvqa.runners.choices import answerer_for

    if args.confirm_host:
        _confirm(" ".join(args.server))
    if args.trust_code:
        _trust(args)
    answerer = answerer_for(wanted_of(args), opened)
    return answerer, _kit(answerer, args.kit)


def remember(args: argparse.Namespace, answerer: Any) -> None:
    """Remember the server or folder that answered, so that its name is enough the next time."""
    from napari_ctvqa.io.model_places import remember_place
    from napari_ctvqa.runners.choices import place_of

    place = place_of(wanted_of(args), answerer)
    if place is not None:
        remember_place(place)


def wanted_of(args: argparse.Namespace) -> Wanted:
    """Return what the options of ``add_model_arguments`` ask for."""
    from napari_ctvqa.runners.choices import Wanted

    return Wanted(
        args.model,
        args.mode,
        args.kit,
        " ".join(args.server),
        args.server_model,
        args.folder,
        args.python,
        args.device,
        args.max_steps,
        args.seed,
        {**({} if args.slices is None else {"max_slices": args.slices}), **dict(args.changed)},
        tuple(args.predicted),
        args.kit_files,
        args.repository,
        args.base,
        at_once=args.at_once,
        decoding=args.decoding,
        confidence=args.confidence,
    )


def _setting(text: str) -> tuple[str, Any]:
    """Return name and value; JSON where it is some, else the text itself. Raises ValueError."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError(text)
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _trust(args: argparse.Namespace) -> None:
    from napari_ctvqa.runners.choices import trust_code

    consent = trust_code(wanted_of(args))
    if consent is not None:
        said = f"{consent.model} may run the code in {consent.folder}, state {consent.mark}"
        sys.stderr.write(f"napari-ctvqa: {one_line(said)}\n")


def _confirm(servers: str) -> None:
    from napari_ctvqa.runners import hosts

    for host in hosts.hosts_of(servers):
        hosts.confirm(host)


def _kit(answerer: Any, wanted: str) -> str:
    kits: tuple[str, ...] = tuple(getattr(answerer, "kits", ()))
    if wanted and wanted not in kits:
        listed = ", ".join(kits) or "none"
        raise NotFoundError(
            f"{answerer.name} has no tool kit {wanted!r}; it has: {listed}.",
            hint="Give one of these to --kit, or leave it away.",
        )
    return wanted
