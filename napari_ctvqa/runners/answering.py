"""A model answers: one request (direct), or with tools (agent, ``runners.agent``).

Nothing here knows a server or a library: a Family makes the input and reads the text, a Way
executes requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import (
    Done,
    Event,
    Failed,
    FailureKind,
    Outlined,
    Segmented,
    Sent,
    Status,
)
from napari_ctvqa.core.failures import failed_text
from napari_ctvqa.core.model_volumes import region_of_mask
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.core.records import EMPTY, Prediction, RunConfig, Trace, Turn
from napari_ctvqa.runners.agent import PROMPT, Agent
from napari_ctvqa.runners.confidence import asked, told
from napari_ctvqa.runners.requests import Facts, Heard, Speaker

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Ask, Prepared, Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Family, Way
    from napari_ctvqa.core.records import AnswerFormat, Question
    from napari_ctvqa.core.servers import ServerCount
    from napari_ctvqa.evidence.kits import Kit
    from napari_ctvqa.runners.confidence import Wish

logger = logging.getLogger(__name__)

DIRECT, AGENT = "direct", "agent"
MODES = (DIRECT, AGENT)
NO_TOOL_CALLS = "the model knows no tool calls: they are described, and read as JSON"
TOOLS_REFUSED = "the server takes no tools: they are described in the prompt, and read as JSON"
DECODED = "decoded by meaning ({}, values assumed)"
MAX_STEPS = 5
"""DeepTumorVQA's: an agent's turns, the last without tools."""
_VERSIONS = ("torch", "transformers", "dtype", "device")
_TOLD = ("hf_ids", "model_types", "title", "licence", "weights_gb", "gated", "facts")

KitOf = Callable[["Case"], "Kit"]


class ModelAnswerer:
    """An Answerer out of a family, one of its presets and a way to run.

    Parameters
    ----------
    name, title
        Of the run: in result files, and for people.
    family, preset
        How the case becomes input and the text an answer.
    way
        What executes requests; ``close`` frees it.
    mode
        ``direct`` or ``agent``.
    kit, kit_of, kit_from
        An agent's tool kit: its name, what makes it for a case, and ``files`` where the
        benchmark's own are preferred.
    settings
        What a person changed of the preset, by the preset's own names.
    max_steps
        An agent's turns at most, the last without tools.
    seed
        For sampling; greedy decoding needs none.
    way_kind, model_id
        Where the model runs, for the RunConfig.
    decoding
        How tokens are chosen where not as usual (``worker_decoding``).
    confidence
        How to tell how sure the model is; None for not at all. Of direct answers only.
    """

    def __init__(
        self,
        name: str,
        title: str,
        family: Family,
        preset: Preset,
        way: Way,
        *,
        mode: str = DIRECT,
        kit: str = "",
        kit_of: KitOf | None = None,
        kit_from: str = "",
        settings: Mapping[str, Any] = EMPTY,
        max_steps: int = MAX_STEPS,
        seed: int | None = None,
        way_kind: str = "",
        model_id: str = "",
        decoding: str = "",
        confidence: Wish | None = None,
    ) -> None:
        if mode == AGENT and kit_of is None:
            raise ValueError("an agent needs a kit")
        self.name, self.title = name, title
        self.family, self.way = family, way
        borrowed = mode == AGENT and preset.dialect == "none"
        self.preset = replace(preset, dialect="json") if borrowed else preset
        self.described = NO_TOOL_CALLS if borrowed else ""
        """Why tools are described in the prompt and calls read as JSON, where that is not how the
        model was trained; a note of every answer."""
        self.mode, self.kit, self.kit_of = mode, kit if mode == AGENT else "", kit_of
        self.kit_from = kit_from
        self.settings, self.max_steps, self.seed = settings, max_steps, seed
        self.way_kind, self.model_id = way_kind, model_id
        self.decoding, self.confidence = decoding, confidence
        self.cancelled = Flag()
        """Set from any thread to stop within a token; whoever starts a run clears it."""

    @property
    def kits(self) -> tuple[str, ...]:
        """Return the one kit that it was made with; none for direct answers."""
        return (self.kit,) if self.kit else ()

    @property
    def all_masks(self) -> bool:
        """Return whether every mask of the case has to be read: an agent may name any."""
        wants = getattr(self.family, "wants_masks", None)
        return self.mode == AGENT or (wants is not None and bool(wants(self.settings)))

    @property
    def software(self) -> Mapping[str, str]:
        """Return versions of what ran the model, as far as the way to run has said them."""
        said = getattr(self.way, "loaded", EMPTY)
        versions = {key: str(said[key])[:80] for key in _VERSIONS if said.get(key)}
        server = getattr(getattr(self.way, "profile", None), "server_title", "")
        return {**versions, "server": str(server)} if server else versions

    @property
    def config(self) -> RunConfig:
        """Return everything that decides an answer."""
        prompts = {"family": str(getattr(self.family, "prompt_version", ""))}
        if self.mode == AGENT:
            prompts["agent"] = PROMPT
        return RunConfig(
            self.name,
            self.mode,
            self.kit,
            self.kit_from,
            max_steps=self.max_steps if self.mode == AGENT else 1,
            way=self.way_kind,
            model_id=self.model_id,
            host=self.way.host,
            seed=self.seed,
            preset=_deciding(self.preset),
            settings={**self.settings, **self._wishes()},
            prompts=prompts,
        )

    def _wishes(self) -> dict[str, str]:
        """Return what else decides an answer and its record, by the command line's names."""
        how = "" if self.confidence is None else self.confidence.text
        wishes = {"decoding": self.decoding, "confidence": how}
        return {name: wish for name, wish in wishes.items() if wish}

    def wanted_masks(self, question: Question) -> tuple[str, ...]:
        """Return no structure: the model looks at the CT; for an agent see ``all_masks``."""
        del question
        return ()

    @property
    def host(self) -> str:
        """Return the machine that pixels go to; empty for this one."""
        return self.way.host

    def cancel(self) -> None:
        """Stop within a token; from any thread."""
        self.cancelled.set()

    def force_stop(self) -> None:
        """End the process or connection that does not stop by itself; from any thread.

        The next question starts it anew.
        """
        self.cancelled.set()
        self.way.close()

    @property
    def width(self) -> int:
        """Return how many questions can be asked of it at once, each in a thread of its own."""
        return int(getattr(self.way, "width", 1))

    @property
    def servers(self) -> tuple[ServerCount, ...]:
        """Return what each of several servers has done so far; none for one, or for none."""
        return tuple(getattr(self.way, "counts", ()))

    @property
    def holding(self) -> bool:
        """Return whether memory is held for the next question; a server's is none of ours."""
        return bool(getattr(self.way, "holding", False))

    def close(self) -> None:
        """Free what the way to run holds."""
        self.way.close()

    def answer(
        self, question: Question, case: Case, answer_format: AnswerFormat
    ) -> Iterator[Event | Turn | Prediction]:
        """Yield what happens, then the Prediction.

        A request that fails is an ``[ERROR]`` Prediction with what had come until then. Stopped
        by ``cancelled`` it ends with ``Failed`` of kind ``cancelled`` and no Prediction: half an
        answer is none.
        """
        began = time.perf_counter()
        facts = Facts()
        turns: list[Turn] = []
        try:
            text = yield from self._answer(question, case, answer_format, facts, turns)
        except CtvqaError as error:
            text = ""
            facts.failed = Failed(FailureKind.CASE, error.message, error.hint)
            yield facts.failed
        failed = facts.failed
        if failed is not None and failed.kind is FailureKind.CANCELLED:
            return
        if failed is not None:
            turns.append(Turn(turns[-1].step + 1 if turns else 1, error=failed.message))
            yield turns[-1]
            text = failed_text(f"{failed.message} {failed.hint}")
        seconds = time.perf_counter() - began
        record = facts.record(text)
        yield Prediction(question.id, self.name, text, Trace(tuple(turns)), seconds, record)

    def _answer(
        self,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        facts: Facts,
        turns: list[Turn],
    ) -> Generator[Event | Turn, None, str]:
        """Yield what happens; return the text to score, with ``facts.failed`` where there is none.

        Raises
        ------
        CtvqaError
            When the case cannot be shown to the model, or its kit has nothing to stand on.
        """
        settings = dict(self.settings)
        if self.mode == AGENT:
            settings["with_tools"] = True
        facts.note(self.described)
        prepared = self.family.prepare(self.preset, question, case, answer_format, settings)
        ask = asked(self._drawn(prepared.ask), self.confidence, question, answer_format)
        prepared = replace(prepared, ask=ask)
        for note in prepared.notes:
            facts.note(note)
        if self.decoding:
            facts.note(DECODED.format(self.decoding))
        if self.mode != AGENT:
            direct = _Direct(self._speaker(), question, case, settings, facts)
            text = yield from direct.run(prepared)
            if self.confidence is not None and facts.failed is None:
                last = (direct.ask or ask, question, answer_format, text, facts)
                yield from told(self.confidence, direct.speaker, *last)
            return text
        assert self.kit_of is not None
        kit = self.kit_of(case)
        agent = Agent(self._speaker(), kit, prepared, facts, turns, self.max_steps)
        text = yield from agent.run()
        if agent.tools_refused and facts.failed is not None:
            yield from self._describe_tools(facts)
            agent = Agent(self._speaker(), kit, prepared, facts, turns, self.max_steps)
            text = yield from agent.run()
        return text

    def _speaker(self) -> Speaker:
        return Speaker(self.family, self.preset, self.way, self.cancelled)

    def _describe_tools(self, facts: Facts) -> Iterator[Event]:
        """From now on describe the tools in the prompt: the server takes none."""
        assert facts.failed is not None
        logger.info("%s takes no tools: %s", self.way.title, facts.failed.message)
        yield Status("The server takes no tools: they are described in the prompt instead")
        facts.note(f"{TOOLS_REFUSED} ({facts.failed.message} {facts.failed.hint})")
        facts.failed = None
        self.preset = replace(self.preset, dialect="json")
        self.described = TOOLS_REFUSED

    def _drawn(self, ask: Ask) -> Ask:
        """Return a request with the run's seed and way to decode."""
        seed = ask.sampling.seed if self.seed is None else self.seed
        sampling = replace(ask.sampling, seed=seed, decoding=self.decoding)
        return ask if sampling == ask.sampling else replace(ask, sampling=sampling)


MOST_FOLLOWED = 3
"""Requests of one question that a model's own text asks for, e.g. an expert's result."""


@dataclass
class _Direct:
    """One question asked without tools of ours; what the model asks for itself is followed up."""

    speaker: Speaker
    question: Question
    case: Case
    settings: Mapping[str, Any]
    facts: Facts
    ask: Ask | None = None
    """The request that was answered last."""

    def run(self, prepared: Prepared) -> Generator[Event, None, str]:
        """Yield what happens and return the text to score."""
        follow_up = getattr(self.speaker.family, "follow_up", None)
        for step in range(1, MOST_FOLLOWED + 1):
            yield Sent(prepared, step)
            self.ask = prepared.ask
            came = yield from self._asked(prepared.ask)
            if came.failed is not None:
                self.facts.failed = came.failed
                yield came.failed
                return ""
            yield Done(came.text, came.calls, came.reason)
            more = None
            if follow_up is not None and step < MOST_FOLLOWED:
                preset, settings = self.speaker.preset, self.settings
                more = follow_up(preset, prepared, came.text, self.question, self.case, settings)
            if more is None:
                break
            for note in more.notes:
                self.facts.note(note)
            prepared = more
        return self.speaker.read(came, prepared.ask, self.facts)

    def _asked(self, ask: Ask) -> Generator[Event, None, Heard]:
        """Yield the events of one request, masks brought to the CT's grid."""
        asking = self.speaker.ask(ask, self.facts)
        try:
            while True:
                try:
                    event = next(asking)
                except StopIteration as over:
                    came: Heard = over.value
                    return came
                yield self._outlined(ask, event) if isinstance(event, Segmented) else event
        finally:
            asking.close()

    def _outlined(self, ask: Ask, event: Segmented) -> Event:
        volume, grid = ask.volume, self.case.volume.display_grid
        if volume is None:
            return Status("A mask came without a volume that it belongs to; it is left out")
        region = region_of_mask(volume, event.mask, grid)
        name = self.question.lesion or self.question.organ or "answer"
        self.facts.note(f"the model outlined {region.voxels:,} voxels of the CT")
        title = f"{self.speaker.preset.title}: {name}"
        return Outlined(Mask(title, name, Source.PREDICTED, region, region))


def _deciding(preset: Preset) -> dict[str, Any]:
    """Return how a preset feeds and reads a model, plain data, without facts for messages."""
    return {key: value for key, value in plain(preset).items() if key not in _TOLD}
