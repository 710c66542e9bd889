"""Models that their own library or repository loads: what they need, and whether it may run.

The loaders themselves run in the worker (``worker_volumes``); nothing here imports a model's code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.io.code_consents import CodeConsent, is_allowed, revision_of
from napari_ctvqa.io.json_files import is_file, is_folder
from napari_ctvqa.runners.worker_volumes import code_folders, code_mark

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset


class UnconfirmedCodeError(CtvqaError):
    """Code that lies with a model would run, and nobody has allowed it in its present state."""

    code = "trust"

    def __init__(self, consent: CodeConsent) -> None:
        at = f" (revision {consent.revision})" if consent.revision else ""
        super().__init__(
            f"{consent.model} runs the Python code in {consent.folder}{at}, state {consent.mark}, "
            "which has not been allowed.",
            hint="Read it, then allow it once: --trust-code on the command line.",
        )
        self.consent = consent


def loader_of(preset: Preset) -> str:
    """Return the loader that a preset's models need; empty for what transformers loads itself."""
    return str(preset.facts.get("loader", ""))


def draws_as_it_likes(preset: Preset) -> bool:
    """Return whether a model's own code chooses its tokens, whatever is asked of it."""
    return bool(preset.facts.get("fixed_drawing"))


def needs_of(preset: Preset) -> str:
    """Return in words what must be given to run a preset's model."""
    facts = preset.facts
    parts = [f"its folder (--folder; {facts['needs']})"]
    if facts.get("repository"):
        parts.append(f"a clone of {facts['repository']['of']} (--repository)")
    if facts.get("base"):
        parts.append(f"the folder of {facts['base']} (--base)")
    return ", ".join((*parts, "leave to run its code (--trust-code), a Python for it (--python)"))


def consent_for(preset: Preset, folder: Path, repository: str) -> CodeConsent | None:
    """Return what has to be allowed before the model may run; None where it has no code.

    Raises
    ------
    InputFileError
        When the code cannot be read.
    """
    folders = code_folders(loader_of(preset), folder, repository)
    try:
        mark = code_mark(folders)
    except (OSError, ValueError) as error:
        raise InputFileError(folder, f"holds code that cannot be read ({error}).") from None
    if not mark:
        return None
    named = " and ".join(str(one) for one in folders)
    return CodeConsent(preset.name, named, mark, revision_of(folder))


def check_consent(consent: CodeConsent | None) -> None:
    """Raise UnconfirmedCodeError unless a person has allowed this code."""
    if consent is not None and not is_allowed(consent):
        raise UnconfirmedCodeError(consent)


def check_files(preset: Preset, folder: Path, repository: str, base: str) -> None:
    """Raise where what the loader needs is not there; says what is expected."""
    if not is_folder(folder):
        raise InputFileError(folder, "is no folder.", hint="Give a model's folder.")
    for pattern, what in preset.facts.get("files", {}).items():
        if not any(folder.glob(pattern)):
            raise InputFileError(
                folder, f"holds no {pattern} ({what}).", hint="Give the folder of the whole model."
            )
    inside = preset.facts.get("repository", {})
    if inside and not repository:
        raise NotFoundError(
            f"{preset.title} is loaded by its own repository ({inside['of']}), and none is named.",
            hint="Clone it and give its folder: --repository PATH.",
        )
    if inside and not any(is_file(Path(repository) / name) for name in inside["holds"]):
        raise InputFileError(
            Path(repository),
            f"holds no {inside['holds'][0]}, so it is not {inside['of']}.",
            hint="Give the folder that the repository was cloned to.",
        )
    if preset.facts.get("base") and not is_file(Path(base) / "config.json"):
        raise NotFoundError(
            f"{preset.title} is trained upon {preset.facts['base']}, whose folder is not named.",
            hint="Give it: --base PATH.",
        )
