"""``hu_at_point``: the HU of one voxel, and which structures hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.arguments import failure
from napari_ctvqa.core.distances import holds
from napari_ctvqa.core.measure import hu_doubt
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.tools._steps import schema

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

_INDEX = {"type": "integer", "minimum": 0, "description": "The file's own voxel index, from 0"}


class HuAtPoint:
    """One voxel of the CT, by the file's own indices."""

    name = "hu_at_point"
    primitive = "measure"
    description = (
        "HU of the voxel with the file's indices i, j, k, and the structures whose masks hold it. "
        "Returns value, unit, ras_mm and structures."
    )
    parameters: Mapping[str, Any] = schema({"i": _INDEX, "j": _INDEX, "k": _INDEX})

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Read one voxel; what is no index of the volume comes back as ``{error}``."""
        if not isinstance(arguments, Mapping):
            return failure(f"arguments must be an object, got {type(arguments).__name__}")
        index = [arguments.get(name) for name in "ijk"]
        whole = [n for n in index if isinstance(n, int) and not isinstance(n, bool)]
        if len(whole) != 3:
            return failure("i, j and k must be whole numbers")
        grid = case.volume.grid
        shape = np.zeros(3, int)
        shape[list(grid.file_axis_of)] = grid.shape_zyx
        if any(not 0 <= n < size for n, size in zip(whole, shape, strict=True)):
            return failure(f"no such voxel: the volume has {' × '.join(map(str, shape))} voxels")
        z, y, x = (int(n) for n in np.rint(grid.display_index_zyx(whole)))
        ras_mm = grid.ras_mm((z, y, x))
        holes = case.volume.no_number
        if holes is not None and holds(holes, ras_mm[None])[0]:
            return failure("this voxel holds no number in the file")
        doubt = hu_doubt(case.volume)
        if doubt:
            return failure(doubt)
        content = {
            "value": float(case.volume.array_zyx[z, y, x]),
            "unit": "HU",
            "measurement_type": "hu_at_point",
            "ijk": whole,
            "ras_mm": [round(float(value), 3) for value in ras_mm],
            "structures": sorted(
                n for n, m in case.masks.items() if holds(m.own_region, ras_mm[None])[0]
            ),
        }
        return ToolResult(content)


TOOL = HuAtPoint()
