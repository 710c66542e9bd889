"""``adjacent_organs``: which of several structures lies beside a lesion."""

from napari_ctvqa.tools._steps import StepTool

TOOL = StepTool(
    "adjacent_organs",
    "segment",
    (
        "Which of several structures (other, joined by +) lies beside the target: within 4 mm, "
        "touching, or nearest. Returns value (the structure), scores, target and region_id."
    ),
    (
        "adjacent",
        "touching",
        "nearest",
    ),
    with_other=True,
)
