"""``parts_of_lesion``: in which parts of its organ a lesion lies."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "parts_of_lesion",
    "segment",
    (
        "Parts of the organ (liver segments, head, body and tail of the pancreas, left and right "
        "kidney) that hold more than a tenth of a lesion. Returns value (joined by +), shares, "
        "main, target and region_id."
    ),
    ("parts",),
)
