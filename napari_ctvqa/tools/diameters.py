"""``diameters``: diameters of the largest component of a structure."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "diameters",
    "measure",
    (
        "Diameter of the largest component: the longest in one axial slice, the one at a right "
        "angle to it in that slice, or the longest in 3-D. Returns value, unit, measurement_type, "
        "target, region_id and slice_ras (counted from 0 upwards from the feet)."
    ),
    (
        "long_axis_cm",
        "short_axis_cm",
        "diameter_3d_cm",
        "radgpt_diameter_cm",
    ),
)
