"""DeepTumorVQA's pictures of organs: ``<case>_<organ>.png`` in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.png import SIGNATURE

MAX_BYTES = 20_000_000


@dataclass(frozen=True)
class CropFiles:
    """The pictures of one case.

    The case's id comes from a question file: it is compared with file names and never leads
    outside the folder.
    """

    folder: Path
    case_id: str

    @cached_property
    def organs(self) -> dict[str, Path]:
        """Map each organ of which there is a picture to its file."""
        begin, end = f"{self.case_id}_", ".png"
        try:
            files = sorted(self.folder.iterdir())
        except OSError:
            return {}
        return {
            file.name[len(begin) : -len(end)]: file
            for file in files
            if file.name.startswith(begin) and file.name.endswith(end)
        }

    def read(self, organ: str) -> bytes:
        """Return a picture's bytes.

        Raises
        ------
        InputFileError
            When the file is no PNG or too large.
        """
        path = self.organs[organ]
        try:
            if path.stat().st_size > MAX_BYTES:
                raise InputFileError(path, f"is larger than {MAX_BYTES / 1e6:.0f} MB.")
            content = path.read_bytes()
        except OSError as error:
            raise InputFileError(path, f"cannot be read ({error.strerror or error}).") from None
        if not content.startswith(SIGNATURE):
            raise InputFileError(path, "is no PNG picture.", hint="Download it again.")
        return content
