"""What a run changes of a preset: checked here, so that a wrong key or value is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset, Sampling

CHOICES = ("linspace", "medgemma", "centre", "all", "structures")
PLANES = ("axial", "coronal", "sagittal")
FITS = ("pad", "stretch", "field")
ORDERS = ("forward", "backward")
PROMPTS = ("auto", "deeptumorvqa", "plain", "toy")
MOST_PICTURES = 512
MOST_PX = 2048
DEFAULT_FIELD_MM = (300.0, 300.0)
_FARTHEST_HU = 100_000.0


@dataclass(frozen=True, slots=True)
class Feeding:
    """How one case is fed: the preset with what the run changed.

    Parameters
    ----------
    plane
        ``axial``, ``coronal`` or ``sagittal``.
    choice
        How slices are chosen; ``structures`` takes those that masks touch.
    slices
        Display indices along the plane's axis, which replace the choice; None for none.
    structures
        Canonical names for the choice ``structures``; empty for those of the question.
    order
        ``forward`` runs to Inferior, Posterior or Left, ``backward`` the other way.
    size_px
        Side of the square that a picture is brought to; None keeps the voxels.
    fit
        ``pad`` keeps the proportions and fills up with the lowest grey, ``stretch`` does not;
        ``field`` stretches the middle of the slice.
    field_mm
        Height and width of that middle.
    with_tools
        Whether an agent asks: tools are offered beside the question.
    """

    plane: str
    choice: str
    max_slices: int
    slices: tuple[int, ...] | None
    structures: tuple[str, ...]
    order: str
    size_px: int | None
    fit: str
    field_mm: tuple[float, float]
    windows_hu: tuple[tuple[float, float], ...]
    prompt: str
    system: str
    with_tools: bool
    sampling: Sampling


def feeding(preset: Preset, settings: Mapping[str, Any]) -> Feeding:
    """Return the preset as the settings change it.

    Raises
    ------
    CtvqaError
        Naming the setting that is unknown or has an unusable value, and what was expected.
    """
    unknown = sorted(set(settings) - set(_READERS) - set(_SAMPLING_READERS))
    if unknown:
        known = ", ".join((*_READERS, *_SAMPLING_READERS))
        raise CtvqaError(f"No setting is called {unknown[0]!r}.", hint=f"There are: {known}.")
    given = {name: _read(name, read, settings) for name, read in _READERS.items()}
    drawn = drawing(settings)
    return Feeding(
        plane=given["plane"] or "axial",
        choice=given["sampling_of_slices"] or preset.sampling_of_slices,
        max_slices=_or(given["max_slices"], preset.max_slices),
        slices=given["slices"],
        structures=given["structures"] or (),
        order=given["order"] or "forward",
        size_px=given["size_px"] if "size_px" in settings else preset.size_px,
        fit=given["fit"] or str(preset.facts.get("fit", "pad")),
        field_mm=given["field_mm"] or _field(preset.facts.get("field_mm", DEFAULT_FIELD_MM)),
        windows_hu=given["windows_hu"] or preset.windows_hu,
        prompt=given["prompt"] or str(preset.facts.get("prompt", "auto")),
        system=_or(given["system"], preset.system),
        with_tools=bool(given["with_tools"]),
        sampling=replace(preset.sampling, **drawn),
    )


def drawing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``Sampling`` among the settings. Raises CtvqaError for a wrong one."""
    return {
        name: _read(name, read, settings)
        for name, read in _SAMPLING_READERS.items()
        if name in settings
    }


def chosen(settings: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return settings that are one of a few values each, the first where none is given.

    Raises
    ------
    CtvqaError
        For a setting that is neither among these nor of ``Sampling``, or has another value.
    """
    unknown = sorted(set(settings) - set(allowed) - set(_SAMPLING_READERS))
    if unknown:
        known = ", ".join((*allowed, *_SAMPLING_READERS))
        raise CtvqaError(f"No setting is called {unknown[0]!r}.", hint=f"There are: {known}.")
    found = {}
    for name, values in allowed.items():
        value = settings.get(name)
        if value is not None and (value not in values or type(value) is not type(values[0])):
            listed = ", ".join(str(one) for one in values)
            raise CtvqaError(
                f"The setting {name} is {str(value)[:80]!r}; expected one of {listed}.",
                hint="Correct it.",
            )
        found[name] = values[0] if value is None else value
    return found


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _read(name: str, read: Callable[[Any], Any], settings: Mapping[str, Any]) -> Any:
    value = settings.get(name)
    if value is None:
        return None
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise CtvqaError(
            f"The setting {name} is {str(value)[:80]!r}; expected {error}.", hint="Correct it."
        ) from None


def _one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return str(value)

    return read


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        wrong = isinstance(value, bool) or not isinstance(value, (int, float))
        if wrong or value != int(value) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return read


def _number(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        wrong = isinstance(value, bool) or not isinstance(value, (int, float))
        if wrong or not low <= value <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return float(value)

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 20_000:
        raise ValueError("a text of at most 20,000 characters")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of names")
    return tuple(value)


def _indices(value: Any) -> tuple[int, ...]:
    read = _whole(0, 100_000)
    if isinstance(value, str) or not 1 <= len(value) <= MOST_PICTURES:
        raise ValueError(f"a list of 1 to {MOST_PICTURES} slice numbers, counted from 0")
    return tuple(read(item) for item in value)


def _windows(value: Any) -> tuple[tuple[float, float], ...]:
    expected = "one or three pairs [low, high] in HU, low below high"
    pairs = [tuple(pair) for pair in value]
    if len(pairs) not in (1, 3) or any(len(pair) != 2 for pair in pairs):
        raise ValueError(expected)
    read = _number(-_FARTHEST_HU, _FARTHEST_HU)
    windows = tuple((read(low), read(high)) for low, high in pairs)
    if any(not low < high for low, high in windows):
        raise ValueError(expected)
    return windows


def _field(value: Any) -> tuple[float, float]:
    read = _number(1.0, 10_000.0)
    if isinstance(value, str) or len(value) != 2:
        raise ValueError("height and width in mm")
    return read(value[0]), read(value[1])


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "plane": _one_of(PLANES),
    "sampling_of_slices": _one_of(CHOICES),
    "max_slices": _whole(0, MOST_PICTURES),
    "slices": _indices,
    "structures": _texts,
    "order": _one_of(ORDERS),
    "size_px": _whole(16, MOST_PX),
    "fit": _one_of(FITS),
    "field_mm": _field,
    "windows_hu": _windows,
    "prompt": _one_of(PROMPTS),
    "system": _text,
    "with_tools": _truth,
}
_SAMPLING_READERS: Mapping[str, Callable[[Any], Any]] = {
    "max_new_tokens": _whole(1, 100_000),
    "temperature": _number(0.0, 2.0),
    "top_p": _number(0.0, 1.0),
    "top_k": _whole(1, 100_000),
    "seed": _whole(0, 2**31 - 1),
}
