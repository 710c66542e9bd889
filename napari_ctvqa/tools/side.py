"""``side``: on which side of the patient a structure lies."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "side",
    "segment",
    (
        "Whether a structure lies on the patient's left or right, or across the middle. Returns "
        "value, offset_mm, target and region_id."
    ),
    ("side",),
)
