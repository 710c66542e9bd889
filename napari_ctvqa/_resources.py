"""Find a shipped resource in every kind of install."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_path(name: str) -> Path:
    """Return the path of one shipped resource, e.g. ``"window_presets.json"``.

    Raises
    ------
    FileNotFoundError
        Naming the resource, when the install lacks it.
    """
    shipped = _PACKAGE / "resources"
    root = shipped if shipped.is_dir() else _PACKAGE.parent / "resources"
    path = root / name
    if not path.exists():
        raise FileNotFoundError(f"resource {name!r} is missing from {root}: reinstall napari-ctvqa")
    return path
