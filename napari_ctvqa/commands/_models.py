"""Options that choose a model and say where it runs, and the Answerer they make."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line
from napari_ctvqa.commands._progress import count_of
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.servers import MOST_AT_ONCE

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.opening import Opened

_MODES = ("direct", "agent")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--model`` and what belongs to it, in groups."""
    _add_who(parser.add_argument_group("who answers"))
    _add_where(parser.add_argument_group("where the model is (a server or a folder)"))
    _add_how(parser.add_argument_group("how it is asked"))
    _add_agent(parser.add_argument_group("an agent"))


def _add_who(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model", default="rules", metavar="NAME",
        help="rules (default: by the rule table, no model), toy (the shipped model), or a name "
        "that `napari-ctvqa models` lists",
    )  # fmt: skip
    group.add_argument(
        "--mode", choices=_MODES, default="direct",
        help="direct (default): one answer to pictures or a volume; agent: with tools",
    )  # fmt: skip


def _add_where(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--server", action="append", default=[], metavar="URL",
        help="address of an OpenAI-like server, e.g. http://gpu7:8000/v1; given several times, the "
        "servers share the questions",
    )  # fmt: skip
    group.add_argument(
        "--server-model", default="", metavar="ID",
        help="the model's name on the server (default: the one that fits --model, or the only one)",
    )  # fmt: skip
    group.add_argument(
        "--at-once", type=_at_once, default=0, metavar="N",
        help="how many questions each server is asked at the same time, 1 to 64 (default: 1; 4 "
        "with several servers)",
    )  # fmt: skip
    group.add_argument(
        "--confirm-host", action="store_true",
        help="allow pictures of CTs to be sent to the hosts of --server; remembered",
    )  # fmt: skip
    group.add_argument(
        "--folder", default="", metavar="PATH",
        help="folder with the model's weights; it is run on this machine, in its own process",
    )  # fmt: skip
    group.add_argument(
        "--python", default="", metavar="FILE",
        help="the Python that has the model's libraries, e.g. env/bin/python (default: this one)",
    )  # fmt: skip
    group.add_argument(
        "--device", default="", metavar="NAME",
        help="of a model that runs here: auto (default), cpu, cuda, cuda:1 ...",
    )  # fmt: skip
    group.add_argument(
        "--repository", default="", metavar="PATH",
        help="folder with the model's own code, for those that need it (`napari-ctvqa models`)",
    )  # fmt: skip
    group.add_argument(
        "--base", default="", metavar="PATH",
        help="folder of the model that its weights were trained upon, for those that need it",
    )  # fmt: skip
    group.add_argument(
        "--trust-code", action="store_true",
        help="allow that code to run, as it is now; remembered, and asked for again if it changes",
    )  # fmt: skip


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--slices", type=_slices, metavar="N",
        help="send at most N slices (default: as the model's recipe says; none to an agent)",
    )  # fmt: skip
    group.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", dest="changed",
        help="change a setting of the model's recipe, e.g. recipe=m3d-seg (repeatable)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=int, metavar="N", help="seed of a model that chooses its words by chance"
    )
    group.add_argument(
        "--confidence", default="", metavar="HOW",
        help="store how sure the model is: logits (probability of each option) or samples:N[@T] "
        "(how many of N answers at temperature T agree); direct answers only",
    )  # fmt: skip
    group.add_argument(
        "--decoding", default="", metavar="WAY",
        help="semsam or semsam:K=8,M=10,p=0.9: choose words by MIS-SemSam; models that run here",
    )  # fmt: skip


def _add_agent(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kit", default="", metavar="NAME",
        help="its tools work on: oracle (the reference's masks), predicted (a model's masks), "
        "vision (pictures of organs), live (all tools that compute now); default: oracle, of "
        "rules live",
    )  # fmt: skip
    group.add_argument(
        "--max-steps", type=count_of, default=5, metavar="N", help="at most N turns (default 5)"
    )
    group.add_argument(
        "--predicted", type=Path, action="append", default=[], metavar="ROOT",
        help="folder with predicted masks, for the kit predicted (repeatable)",
    )  # fmt: skip
    group.add_argument(
        "--kit-files", action="store_true",
        help="its tools answer from files that the benchmark ships, where there are some, instead "
        "of computing",
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
