"""The rule agent: no model, no network; it follows the rule table with the agents' tools."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.answers import Answer, answer_for, concluded
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.failures import failed_text
from napari_ctvqa.core.plans import (
    PlanStep,
    blocked_by_geometry,
    chosen_variant,
    counts_for,
    plan,
    undecided,
    wanted_structures,
)
from napari_ctvqa.core.records import Prediction, ToolCall, ToolResult, Trace, Turn
from napari_ctvqa.core.rules import Rule, measure_named, rule_for, supported
from napari_ctvqa.core.targets import resolve
from napari_ctvqa.core.understanding import Understood, understand
from napari_ctvqa.extensions import tools

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.conclusions import Value
    from napari_ctvqa.core.records import AnswerFormat, Question


class Rules:
    """Looks the subtype up, calls tools, answers; always there."""

    name = "rules"
    title = "Rule agent"
    kits: tuple[str, ...] = ("live",)
    """Its tools work on the case's own masks."""

    def wanted_masks(self, question: Question) -> tuple[str, ...]:
        """Return the structures whose masks the answer may need; none where it cannot answer."""
        return wanted_structures(question)

    def answer(
        self, question: Question, case: Case, answer_format: AnswerFormat
    ) -> Iterator[Turn | Prediction]:
        """Yield each tool call as a Turn, then the Prediction.

        What cannot be answered is ``[ERROR]`` and a sentence, never a guess: a missing mask is
        not "no".
        """
        began = time.perf_counter()
        turns: list[Turn] = []
        work = _Work(case)
        rule = rule_for(question.subtype)
        understood = Understood()
        if rule is None:
            work.problem = _unsupported(question.subtype)
        else:
            understood = understand(question, rule)
            work.problem = understood.problem
        if rule is not None and not work.problem:
            for item in plan(rule, understood):
                turn = work.take(len(turns) + 1, rule, item)
                turns.append(turn)
                yield turn
                if work.problem:
                    break
        answer = work.answer(rule, understood, question, answer_format)
        last = _final(len(turns) + 1, answer)
        turns.append(last)
        yield last
        yield Prediction(
            question.id,
            self.name,
            failed_text(answer.problem) if answer.problem else answer.text,
            Trace(tuple(turns)),
            time.perf_counter() - began,
            MappingProxyType({"note": answer.note} if answer.note else {}),
        )


@dataclass
class _Work:
    """The values that the tools returned for one question, and what went wrong first."""

    case: Case
    values: list[Value] = field(default_factory=list)
    problem: str = ""

    def take(self, step: int, rule: Rule, item: PlanStep) -> Turn:
        """Call the tool for one step of the plan and keep what it returns."""
        name, arguments = call_for(rule, item)
        result: ToolResult = tools()[name](self.case, arguments)
        counts = counts_for(item, rule)
        if result.error:
            self.problem = "" if item.optional else result.error
            if counts:
                self.values.append(None)
        elif counts:
            self.values.append(_value(result.content, item))
            if rule.how == "exists":
                self.problem = undecided(resolve(self.case, item.target))
        return Turn(step, ToolCall(name, arguments), result)

    def answer(
        self,
        rule: Rule | None,
        understood: Understood,
        question: Question,
        answer_format: AnswerFormat,
    ) -> Answer:
        """Conclude from the values and put it as the question wants it."""
        problem = self.problem
        if rule is not None and not problem:
            problem = blocked_by_geometry(self.case, rule, understood)
        if rule is None or problem:
            return Answer(problem=problem)
        variant = chosen_variant(rule, understood)
        conclusion = concluded(rule, variant, self.values, understood)
        answer = answer_for(conclusion, rule, question, answer_format, understood)
        notes = [note for note in (answer.note, understood.left_out_text) if note]
        return replace(answer, note="; ".join(notes))


def _value(content: Mapping[str, Any], item: PlanStep) -> Value:
    """Return the value of a tool's result: a number, or the name of a place."""
    value = content["voxel_count" if item.measure == "voxels" else "value"]
    return value if isinstance(value, str) else float(value)


def call_for(rule: Rule, item: PlanStep) -> tuple[str, Mapping[str, Any]]:
    """Return the tool that takes a step of a plan, and what it is called with."""
    if item.kind is StepKind.LOOKUP:
        return "lookup_medical_knowledge", {"query": rule.query}
    if item.measure == "voxels":
        return "segment_organ", {"target": item.target}
    arguments = {"target": item.target, "measurement_type": item.measure}
    if item.other:
        arguments["other"] = item.other
    return measure_named(item.measure).tool, arguments


def _final(step: int, answer: Answer) -> Turn:
    if answer.problem:
        return Turn(step, error=answer.problem)
    return Turn(step, final_answer=answer.text)


def _unsupported(subtype: str) -> str:
    listed = ", ".join(supported())
    if not subtype.strip():
        return f"the question states no subtype; the rule agent answers these: {listed}"
    return f"the rule agent has no rule for {subtype!r}; it answers: {listed}"


MODEL = Rules()
