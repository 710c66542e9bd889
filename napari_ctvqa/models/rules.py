"""The rule agent: no model, no network; it follows the rule table with the agents' tools."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.answers import Answer, answer_for, as_asked
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.plans import (
    PlanStep,
    blocked_by_geometry,
    plan,
    undecided,
    wanted_structures,
)
from napari_ctvqa.core.records import Prediction, ToolCall, ToolResult, Trace, Turn
from napari_ctvqa.core.rules import Rule, conclude, rule_for, supported
from napari_ctvqa.core.targets import Understood, resolve, understand
from napari_ctvqa.extensions import tools

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
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
            f"[ERROR] {answer.problem}" if answer.problem else answer.text,
            Trace(tuple(turns)),
            time.perf_counter() - began,
            MappingProxyType({"note": answer.note} if answer.note else {}),
        )


@dataclass
class _Work:
    """The values that the tools returned for one question, and what went wrong first."""

    case: Case
    values: list[float] = field(default_factory=list)
    problem: str = ""

    def take(self, step: int, rule: Rule, item: PlanStep) -> Turn:
        """Call the tool for one step of the plan and keep what it returns."""
        name, arguments = _call_for(rule, item)
        result: ToolResult = tools()[name](self.case, arguments)
        if result.error:
            self.problem = result.error
        elif item.kind is StepKind.MEASURE:
            self.values.append(float(result.content["value"]))
        elif item.kind is StepKind.SEGMENT and rule.how == "exists":
            self.problem = undecided(resolve(self.case, item.target))
            self.values.append(float(result.content["voxel_count"]))
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
        conclusion = as_asked(conclude(rule, self.values), understood)
        return answer_for(conclusion, rule, question, answer_format)


def _call_for(rule: Rule, item: PlanStep) -> tuple[str, Mapping[str, Any]]:
    if item.kind is StepKind.SEGMENT:
        return "segment_organ", {"target": item.target}
    if item.kind is StepKind.MEASURE:
        return "measure", {"target": item.target, "measurement_type": item.measure}
    return "lookup_medical_knowledge", {"query": rule.query}


def _final(step: int, answer: Answer) -> Turn:
    if answer.problem:
        return Turn(step, error=answer.problem)
    return Turn(step, final_answer=answer.text)


def _unsupported(subtype: str) -> str:
    said = subtype or "no subtype"
    return f"the rule agent has no rule for {said!r}; it answers: {', '.join(supported())}"


MODEL = Rules()
