"""``distance``: how far two structures lie apart."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "distance",
    "measure",
    (
        "Distance between two structures in mm: between their surfaces (0 where they overlap) or "
        "between their centres. Returns value, unit, measurement_type, target and region_id."
    ),
    (
        "surface_distance_mm",
        "centre_distance_mm",
    ),
    with_other=True,
)
