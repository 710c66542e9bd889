"""The command line: one file a command in ``commands/``; errors become one line here."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from napari_ctvqa import __version__
from napari_ctvqa.core.errors import CtvqaError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, FAILED, USAGE = 0, 1, 2
_LINE = 1000
"""Characters of one logged line."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with one sub-parser a command."""
    from napari_ctvqa.extensions import commands

    parser = argparse.ArgumentParser(
        prog="napari-ctvqa",
        description="See why a CT model got it wrong. Research use only, not for diagnosis.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in sorted(commands().items()):
        sentence = f"{command.help[:1].upper()}{command.help[1:]}."
        sub = subparsers.add_parser(
            name,
            help=command.help,
            description=getattr(command, "description", sentence),
            epilog=getattr(command, "examples", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def one_line(text: str) -> str:
    """Return text without line breaks or control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def speaks_utf8() -> bool:
    """Return whether stdout takes every character."""
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf8")


def write_out(text: str) -> None:
    """Write to stdout; a character that it cannot take is written as its escape.

    Half a surrogate pair, which JSON allows in a text, would otherwise end the output.
    """
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


class _Lines(logging.Handler):
    """Writes what the program logs as the command line speaks: one line each on stderr.

    Tracebacks are for reports: they follow where NAPARI_CTVQA_TRACEBACKS is set.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        error = record.exc_info[1] if record.exc_info else None
        said = f" ({type(error).__name__}: {error})" if error is not None else ""
        sys.stderr.write(f"napari-ctvqa: {one_line(record.getMessage() + said)[:_LINE]}\n")
        if error is not None and os.environ.get("NAPARI_CTVQA_TRACEBACKS"):
            sys.stderr.write("".join(traceback.format_exception(error)))


def _log_in_lines() -> None:
    logger = logging.getLogger("napari_ctvqa")
    if not any(isinstance(handler, _Lines) for handler in logger.handlers):
        logger.addHandler(_Lines(logging.WARNING))


def report(error: CtvqaError, *, as_json: bool) -> None:
    """Write the error: one line on stderr, or JSON on stdout."""
    if as_json:
        body = {"code": error.code, "message": error.message, "hint": error.hint}
        write_out(json.dumps({"error": body}, ensure_ascii=not speaks_utf8()) + "\n")
    else:
        sys.stderr.write(f"napari-ctvqa: {one_line(str(error))}\n")


def _of_the_machine(error: OSError | MemoryError) -> CtvqaError:
    """Return what the operating system refused as one sentence."""
    if isinstance(error, MemoryError):
        return CtvqaError("There is not enough memory for this.", hint="Close other programs.")
    where = f"{error.filename}: " if error.filename else ""
    return CtvqaError(
        f"{where}{error.strerror or error}.", hint="What was finished is kept; run it again."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 done, 1 unusable input or a failed item, 2 usage."""
    _log_in_lines()
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = False
    try:
        args = build_parser().parse_args(arguments, argparse.Namespace(argv=arguments))
        as_json = bool(getattr(args, "json", False))
        return int(args.run(args))
    except CtvqaError as error:
        report(error, as_json=as_json)
        return USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (OSError, MemoryError) as error:  # a full disk, a folder that went away
        report(_of_the_machine(error), as_json=as_json)
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("napari-ctvqa: stopped; what was finished is kept\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
