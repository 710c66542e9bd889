"""``relative_position``: where one structure lies as seen from another."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "relative_position",
    "segment",
    (
        "Where the target's centre lies as seen from the other's, in the patient's terms, with mm "
        "in each direction. Returns value, offset_mm, target and region_id."
    ),
    ("relative_position",),
    with_other=True,
)
