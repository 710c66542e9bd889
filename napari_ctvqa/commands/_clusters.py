"""``--scheduler``: do the work on a dask.distributed cluster."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from napari_ctvqa.commands._progress import tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from napari_ctvqa.commands._questions import Arguments
    from napari_ctvqa.runners.cluster import Cluster

_LOCAL = "local"


def add_scheduler_argument(parser: Arguments, *, processes: str) -> None:
    """Declare ``--scheduler``; ``processes`` says how many ``local`` starts."""
    parser.add_argument(
        "--scheduler", nargs="?", const=_LOCAL, metavar="ADDRESS",
        help="share the work among the processes of a dask.distributed cluster: local (the "
        f"default ADDRESS) or local:N starts one on this machine with {processes}, or N, "
        "processes; tcp://head:8786 is one of your own, whose workers find PATH, CTs and masks "
        "where they are here. Name only one that you trust: what it sends back can run any code",
    )  # fmt: skip


@contextmanager
def cluster_of(
    args: argparse.Namespace, *, loads_a_model: bool = False
) -> Iterator[Cluster | None]:
    """Give the cluster that was asked for, None for none.

    Raises
    ------
    CtvqaError
        When it cannot be had.
    """
    if args.scheduler is None:
        yield None
        return
    from napari_ctvqa.runners.cluster import Cluster

    processes = 1 if loads_a_model else os.cpu_count() or 1
    cluster = Cluster(args.scheduler, processes=processes)
    if cluster.local:
        tell(f"starting {cluster.processes} workers on this machine")
    with cluster:
        yield cluster
