"""What can go wrong, as a sentence for the reader and a hint for what to do."""

from __future__ import annotations

from pathlib import Path


class CtvqaError(Exception):
    """A problem a person can act on.

    Raised low, where the cause is known; shown once, where a person sees it.

    Parameters
    ----------
    message
        What went wrong: names the file, the key or the server, and what was expected.
    hint
        What to do next, one sentence.
    """

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return message and hint on one line."""
        return f"{self.message} {self.hint}".strip()


class UsageError(CtvqaError):
    """A call that lacks what it needs, found out only when its files were looked at."""

    code = "usage"


class InputFileError(CtvqaError):
    """A file that cannot be used: unreadable, truncated, of the wrong kind."""

    code = "file"

    def __init__(self, path: Path | str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = Path(path)


class RecordError(CtvqaError):
    """A record that lacks a key or holds something unexpected."""

    code = "record"


class GeometryError(CtvqaError):
    """Geometry that must not be trusted."""

    code = "geometry"


class AmbiguousError(CtvqaError):
    """Several things fit; the message lists them."""

    code = "ambiguous"


class NotFoundError(CtvqaError):
    """A case, a question, a model or a benchmark of that name does not exist."""

    code = "not_found"
