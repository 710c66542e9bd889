"""What the manifest names: the docks, the reader, the demo case."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


LayerData = tuple[Any, dict[str, Any], str]


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Return a reader for a case folder or a NIfTI file, None for anything else."""
    from napari_ctvqa.core.errors import CtvqaError
    from napari_ctvqa.io.case_files import find_case

    if not isinstance(path, str):
        if len(path) != 1:
            return None
        path = path[0]
    try:
        find_case(Path(path))
    except CtvqaError:
        return None
    return read_case_layers


def read_case_layers(path: Any) -> list[LayerData]:
    """Return the CT and one labels layer a mask group, hung radiologically, in mm.

    Red geometry and masks that could not be read are told as napari warnings.
    """
    from napari.utils.notifications import show_warning

    from napari_ctvqa.io.case_files import find_case
    from napari_ctvqa.io.reader import read_case
    from napari_ctvqa.widgets.layer_data import cautions, layer_data

    only = path if isinstance(path, str) else path[0]
    case = read_case(find_case(Path(only)), label_maps=True)
    for caution in cautions(case):
        show_warning(caution)
    return layer_data(case)


def sample_demo() -> list[LayerData]:
    """Return the demo case as layers; its questions open with Plugins ▸ CT-VQA ▸ Open the demo."""
    from napari_ctvqa.demo import ensure_demo

    first = sorted((ensure_demo() / "benchmark" / "ct").iterdir())[0]
    return read_case_layers(str(first))
