"""Which way the patient lies on screen, from the live camera, dims and layer.

Nothing is remembered: every letter comes from where one step to the right or up on the canvas
leads in the CT's voxels, as they are drawn at this moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.plane_pictures import NO_LETTERS, EdgeLetters

if TYPE_CHECKING:
    import napari
    import numpy.typing as npt

    from napari_ctvqa.core.geometry import Grid

Vector = "npt.NDArray[np.float64]"


def edge_letters(viewer: napari.Viewer, layer: Any, grid: Grid) -> EdgeLetters:
    """Return the patient directions at the edges of the canvas, for ``layer`` as it is drawn.

    None while the viewer has fewer dimensions than the layer: it is losing its layers then.
    """
    if viewer.dims.ndim < layer.ndim:
        return NO_LETTERS
    right_zyx, up_zyx = view_vectors(viewer, layer)
    return EdgeLetters(
        left=grid.direction_letters(-right_zyx),
        right=grid.direction_letters(right_zyx),
        top=grid.direction_letters(up_zyx),
        bottom=grid.direction_letters(-up_zyx),
    )


def view_vectors(
    viewer: napari.Viewer, layer: Any
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return where screen right and screen up lead, as (z, y, x) directions in voxel indices."""
    right_mm, up_mm = _world_vectors(viewer)
    origin = np.asarray(layer.world_to_data(np.zeros(viewer.dims.ndim)))
    return (
        np.asarray(layer.world_to_data(right_mm)) - origin,
        np.asarray(layer.world_to_data(up_mm)) - origin,
    )


def _world_vectors(
    viewer: napari.Viewer,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    camera, displayed = viewer.scene.camera, list(viewer.dims.displayed)
    right, up = np.zeros(viewer.dims.ndim), np.zeros(viewer.dims.ndim)
    if viewer.dims.ndisplay == 2:
        vertical, horizontal = camera.orientation2d
        right[displayed[-1]] = 1.0 if str(horizontal) == "right" else -1.0
        up[displayed[-2]] = 1.0 if str(vertical) == "up" else -1.0
        return right, up
    # In the order of the displayed axes, view × up points right in a right-handed scene.
    turn = 1.0 if str(camera.handedness) == "right" else -1.0
    up[displayed] = camera.up_direction
    right[displayed] = turn * np.cross(camera.view_direction, camera.up_direction)
    return right, up


def canvas_to_world(
    viewer: napari.Viewer, position_px: tuple[float, float]
) -> npt.NDArray[np.float64] | None:
    """Return the world point under a canvas position (x, y) from the top left; None in 3-D."""
    dims, camera = viewer.dims, viewer.scene.camera
    if dims.ndisplay != 2 or dims.ndim < 2:
        return None
    height, width = viewer.canvas.size
    vertical, horizontal = camera.orientation2d
    right = 1.0 if str(horizontal) == "right" else -1.0
    down = 1.0 if str(vertical) == "down" else -1.0
    point = np.array(dims.point, dtype=np.float64)
    row, column = dims.displayed
    point[row] = camera.center[-2] + down * (position_px[1] - height / 2) / camera.zoom
    point[column] = camera.center[-1] + right * (position_px[0] - width / 2) / camera.zoom
    return point
