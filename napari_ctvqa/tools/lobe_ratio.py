"""``lobe_ratio``: the caudate-to-right-lobe ratio."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "lobe_ratio",
    "measure",
    (
        "Width from right to left of the caudate (target, liver_segment_1) over that of the right "
        "lobe (other, liver_right_lobe), on the slice with most caudate. Returns value, target "
        "and region_id."
    ),
    ("caudate_right_lobe_ratio",),
    with_other=True,
)
