"""What an extension implements: the Protocols behind the one-file recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import argparse
    from threading import Event as Flag

    from napari_ctvqa.core.asking import Ask, Prepared, Preset
    from napari_ctvqa.core.cases import Case, CaseFiles
    from napari_ctvqa.core.events import Event
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import (
        AnswerFormat,
        Prediction,
        Question,
        Run,
        Score,
        ToolCall,
        ToolResult,
    )


@runtime_checkable
class Benchmark(Protocol):
    """A set of questions with its own files, rules and scoring.

    These attributes may be left out: ``generic`` (true for a benchmark that gives way to any other
    that recognises a file by its own keys), ``score_titles`` (what its official score and ours
    are called, where that is not reading a text), ``score_note`` (what sets the two apart, where
    they differ, in a sentence for people) and ``only_format`` (the AnswerFormat of a benchmark
    that knows one way to ask).
    """

    name: str
    """Short and stable, for ``--benchmark``: ``"deeptumorvqa"``."""
    title: str
    """For people: ``"DeepTumorVQA"``."""

    def recognises(self, path: Path) -> bool:
        """Return whether this file or folder is of this benchmark, by content; never raises."""

    def questions(self, path: Path) -> QuestionSet:
        """Read the questions. Raises CtvqaError naming file, line or key."""

    def recognises_results(self, path: Path) -> bool:
        """Return whether this file holds predictions in this benchmark's layout; never raises."""

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read predictions."""

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return prediction files that lie beside the questions in the benchmark's own layout."""

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find CT and masks of a case under PATH and the extra roots. Raises NotFoundError."""

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Score one answer, official and as read."""

    def scores(
        self,
        questions: QuestionSet,
        run: Run,
        answer_format: AnswerFormat,
        judges: Sequence[Path] = (),
    ) -> Mapping[str, Score]:
        """Score a whole run, by question id; questions without a prediction are left out."""

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return the official metrics in the benchmark's own structure plus ``reading_disagrees``.

        ``options`` holds what the command line adds, e.g. ``judges`` (a list of paths).
        """


@runtime_checkable
class Tool(Protocol):
    """One tool an agent can call."""

    name: str
    primitive: str
    """``"segment"``, ``"measure"`` or ``"lookup"``."""
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments."""

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it. What a caller may get wrong comes back as a failure result, never raises."""


@runtime_checkable
class Command(Protocol):
    """One command of the command line.

    It may also define ``description`` and ``examples``, shown by ``--help`` before and after the
    options, line by line as they are.
    """

    name: str
    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; return the exit code. Raises CtvqaError, shown by the caller."""


class Answerer(Protocol):
    """Anything that answers a question about a case: a rule agent, a VLM, an agent with tools.

    ``answer`` yields what happens as it happens (``Turn`` and ``core.events``) and last the
    ``Prediction``.
    """

    name: str
    title: str

    def wanted_masks(self, question: Question) -> tuple[str, ...]:
        """Return the canonical structures this question needs, so that they are read first."""

    def answer(self, question: Question, case: Case, answer_format: AnswerFormat) -> Iterator[Any]:
        """Yield Turns and events, then one Prediction; none where it was cancelled.

        An answerer that takes long also has ``cancel()`` and ``force_stop()``, callable from any
        thread, ``cancelled`` (a flag that a new run clears), and ``host`` (where pixels go),
        empty for this machine.
        """


@runtime_checkable
class Family(Protocol):
    """A model family: how a case and a question become its input, how its text is read.

    ``reading_notes(preset, text, prompt="")`` may be left out: sentences on how the answer was
    got from the text (a thought that never ends leaves nothing to read). So may
    ``follow_up(preset, prepared, text, question, case, settings)``, which returns what is asked
    next where the text asks for something itself (VILA-M3's experts), else None; and
    ``modes``, the ways to answer where it knows no tools.
    """

    name: str
    title: str
    presets: Mapping[str, Preset]

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return what is sent. ``settings`` override the preset (slices, windows, size, …).

        Raises
        ------
        CtvqaError
            When the case breaks the family's contract (orientation unknown, no CT, …).
        """

    def read(self, preset: Preset, text: str, prompt: str = "") -> str:
        """Return the answer without thinking, echo and end marks; this is what is scored.

        ``text`` is all that the model wrote. Where a server gave its thinking apart, the caller
        puts it before the text as ``<think>…</think>``: a model whose template opens the thought
        is otherwise taken to be thinking still.
        """

    def calls(self, preset: Preset, text: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return the tool calls written in the text, and what had to be repaired (or empty).

        No call beside a sentence means that one was written that could not be read.
        """


class Way(Protocol):
    """A way to run: a server, or a worker process of our own."""

    title: str
    """For people, with the host: ``"http://gpu7:8000/v1, Qwen3-VL-8B"``."""
    host: str
    """The machine that pixels go to; empty for this one."""

    def ask(self, ask: Ask, cancelled: Flag) -> Iterator[Event]:
        """Yield Status, Tokens, Usage, Warned, and last Done or Failed; never raises.

        Runs in a thread that may wait. Set ``cancelled`` from any thread: the answer ends with
        Done, reason ``cancelled``, and the text so far.
        """

    def close(self) -> None:
        """Free what it holds: connections, processes, memory."""
