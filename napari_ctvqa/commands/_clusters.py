"""``--scheduler``: do the work on a dask.distributed cluster."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from napari_ctvqa.commands._progress import tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from napari_ctvqa.runners.cluster import Cluster

_LOCAL = "local"


def add_scheduler_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--scheduler``."""
    parser.add_argument(
        "--scheduler", nargs="?", const=_LOCAL, metavar="ADDRESS",
        help="work on a dask.distributed cluster: local or local:N starts one here (N processes; "
        "default one a processor, one where each would load a model), tcp://head:8786 is one of "
        "yours, whose workers find the files at the same paths. Only name a scheduler you trust: "
        "dask runs what comes from it",
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
