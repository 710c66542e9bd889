"""The questions that the model is trained on: how each is worded, and what the answer is."""

from __future__ import annotations

from demo_model.bodies import ORGANS

NO_LESION = "There is no lesion."
ORGAN_WORDS = {
    "liver": "Liver.",
    "kidney_left": "Left kidney.",
    "kidney_right": "Right kidney.",
    "spleen": "Spleen.",
}
SUBJECTS = {
    "any": ORGANS,
    "liver": ("liver",),
    "kidneys": ("kidney_left", "kidney_right"),
    "left kidney": ("kidney_left",),
    "right kidney": ("kidney_right",),
    "spleen": ("spleen",),
}
"""What a question may be about, and the organs that count."""
_ADJECTIVES = {
    "liver": "liver",
    "kidneys": "kidney",
    "spleen": "splenic",
}

PRESENCE_ANY = (
    "Is there a lesion?",
    "Is there any lesion on these slices?",
    "Does this scan show a lesion?",
)
PRESENCE_IN = (
    "Is there a lesion in the {organ}?",
    "Are there any lesions in the {organ}?",
    "Is there any lesion in the {organ}?",
)
SIDE_ANY = (
    "On which side is the lesion?",
    "Which side is the lesion on?",
    "Is the lesion on the left or on the right?",
)
SIDE_IN = (
    "On which side is the {adjective} lesion?",
    "Which side is the {adjective} lesion on?",
)
SLICE_ANY = (
    "On which slice is the lesion?",
    "Which slice shows the lesion?",
)
SLICE_IN = (
    "On which slice is the {adjective} lesion?",
    "Which slice shows the {adjective} lesion?",
)
ORGAN = (
    "Which organ has the lesion?",
    "In which organ is the lesion?",
)
_TEMPLATES = {
    ("presence", True): PRESENCE_ANY,
    ("presence", False): PRESENCE_IN,
    ("side", True): SIDE_ANY,
    ("side", False): SIDE_IN,
    ("slice", True): SLICE_ANY,
    ("slice", False): SLICE_IN,
    ("organ", True): ORGAN,
}
TASK_SUBJECTS = {
    "presence": tuple(SUBJECTS),
    "side": ("any", "kidneys"),
    "slice": ("any", "liver", "kidneys", "spleen"),
    "organ": ("any",),
}


def wordings(task: str, subject: str) -> tuple[str, ...]:
    """Return the ways to put a question; the first is the one that the program sends."""
    templates = _TEMPLATES[task, subject == "any"]
    adjective = _ADJECTIVES.get(subject, subject)
    return tuple(text.format(organ=subject, adjective=adjective) for text in templates)
