"""``largest_slice``: the axial slice on which a structure is widest."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "largest_slice",
    "segment",
    (
        "Axial slice of the longest in-plane diameter, or of the largest area, counted from 0 "
        "upwards from the feet; or in percent of the volume, or in the file's order. Returns "
        "value, target and region_id."
    ),
    (
        "widest_slice_ras",
        "widest_slice_percent",
        "widest_slice_ras_from_1",
        "widest_slice_file",
        "largest_area_slice_ras",
    ),
)
