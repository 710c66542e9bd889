"""``evidence``: the recomputed chain behind one question's reference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import DONE, one_line, speaks_utf8, write_out
from napari_ctvqa.commands._questions import (
    add_absent_argument,
    add_path_arguments,
    open_questions,
)
from napari_ctvqa.core import names
from napari_ctvqa.core.answers import with_unit
from napari_ctvqa.core.assumed import CAVEAT, absent_means_none
from napari_ctvqa.core.chains import ChainStatus
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.question_checks import (
    asked_twice,
    duplicate_flag,
    record_flags,
    stated_text,
)
from napari_ctvqa.core.regions import focus_slice
from napari_ctvqa.core.rules import is_measure, measure_named, rule_for, supported
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.understanding import understand
from napari_ctvqa.evidence.chains import reference_chain, wanted_structures
from napari_ctvqa.evidence.check import status_reasons
from napari_ctvqa.io.reader import read_case

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Question

_WORDS = {"agrees": "agrees", "differs": "differs", "cannot_check": "cannot be checked"}


class Evidence:
    """Show each step of a recomputed reference: value, rule, source, slice."""

    name = "evidence"
    help = "recompute one question's reference and show every step"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        parser.add_argument("id", metavar="ID", help="id of the question")
        parser.add_argument(
            "--subtype", metavar="NAME",
            help="take it as a question of this subtype: questions of CT-SpatialVQA or of a table "
            "of your own need not say one",
        )  # fmt: skip
        parser.add_argument(
            "--target", action="append", default=[], metavar="STRUCTURE",
            help="what it is about, instead of what its text says, e.g. spleen (repeatable)",
        )  # fmt: skip
        add_absent_argument(parser)
        parser.add_argument("--json", action="store_true", help="write JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Write the chain; a question that cannot be checked says why and is no failure."""
        opened, questions = open_questions(args)
        asked = questions.by_id(args.id)
        question, words_read = as_named(asked, args.subtype, args.target)
        files = opened.case_files(question.case_id)
        case = read_case(files, wanted=wanted_structures(question))
        if args.absent_means_none:
            case = absent_means_none(case)
        chain = _compared(reference_chain(question, case), words_read=words_read)
        if args.json:
            text = json.dumps(record(question, chain, case), ensure_ascii=not speaks_utf8())
            write_out(text + "\n")
        else:
            write_out(_text(question, chain, case, _flags(questions, question, chain)))
        return DONE


def as_named(
    question: Question, subtype: str | None, targets: Sequence[str]
) -> tuple[Question, bool]:
    """Return the question with subtype and targets that a person named, and if its words count.

    Its own words are kept where they are understood with that target; else the target's name
    stands for them.

    Raises
    ------
    NotFoundError
        For a subtype without a rule, or a target that no name of the table fits.
    """
    if subtype:
        rule = rule_for(subtype)
        if rule is None:
            raise NotFoundError(
                f"no rule for the subtype {subtype!r}.",
                hint=f"There are: {', '.join(supported())}.",
            )
        question = replace(question, subtype=rule.subtype, answer_type=rule.answer_type)
    unknown = [name for name in targets if not names.is_known(name)]
    if unknown:
        raise NotFoundError(
            f"no structure is called {unknown[0]!r}.",
            hint="Give a name of AbdomenAtlas or TotalSegmentator, e.g. kidney_left.",
        )
    if not targets:
        return question, True
    kept = _recorded(question, targets[0])
    rule = rule_for(question.subtype)
    if len(targets) == 1 and rule is not None and not understand(kept, rule).problem:
        return kept, True
    said = " and ".join(names.label(name) for name in targets)
    return replace(question, text=said, organ="", lesion=""), False


def _recorded(question: Question, target: str) -> Question:
    """Return the question as if its record named the target; its words stay."""
    organ = names.parent_of(names.canonical(target)) or names.canonical(target)
    return replace(question, organ=organ, lesion=target if names.is_lesion(target) else "")


def _compared(chain: EvidenceChain, *, words_read: bool) -> EvidenceChain:
    """Return the chain without a verdict where words that were not read may turn it round.

    "Free of lesions" and "has lesions" have one target and opposite answers; a number has no
    opposite.
    """
    if words_read or chain.status is ChainStatus.CANNOT_CHECK or chain.difference is not None:
        return chain
    return chain.with_status(
        ChainStatus.CANNOT_CHECK,
        "the question's own words were not understood and may turn yes and no, or sides, round: "
        "compare the conclusion with the reference yourself",
    )


def _flags(questions: QuestionSet, question: Question, chain: EvidenceChain) -> tuple[str, ...]:
    row = questions.row_of[question.id]
    twice = duplicate_flag(questions, row, asked_twice(questions, row).get(row, ()))
    return tuple(part for part in (twice, *record_flags(question), *chain.flags) if part)


def record(question: Question, chain: EvidenceChain, case: Case) -> dict[str, Any]:
    """Return what ``--json`` writes.

    ``difference`` says by how much the two differ, or why they cannot be compared; null where
    they agree. Slices are 0-based: ``slice_display`` counts from superior, ``slice_file`` along
    the file's own axis.
    """
    rule = rule_for(question.subtype)
    understood = understand(question, rule) if rule else None
    return {
        "id": question.id,
        "subtype": question.subtype,
        "understood": (
            asdict(understood) | {"sentence": understood.sentence}
            if understood
            else {"problem": chain.reason, "sentence": chain.reason}
        ),
        "steps": [_step(step, case) for step in chain.steps],
        "conclusion": chain.conclusion,
        "reference": stated_text(question),
        "status": chain.status.value,
        "difference": "; ".join(status_reasons(chain)) or None,
    }


def _step(step: EvidenceStep, case: Case) -> dict[str, Any]:
    shown, on_file = _slices(step, case)
    return {
        "kind": step.kind.value,
        "target": step.target,
        "measure": step.measure,
        "value": step.value,
        "unit": step.unit,
        "rule": step.rule,
        "source": step.source,
        "assumed": step.assumed,
        "caveats": [*step.caveats, *((step.error,) if step.error else ())],
        "mask": step.mask,
        "slice_display": shown,
        "slice_file": on_file,
    }


def _slices(step: EvidenceStep, case: Case) -> tuple[int | None, int | None]:
    """Return the slice a step speaks of, else where its mask is largest; displayed and in file."""
    mask = case.masks.get(step.mask)
    if mask is None or mask.region.empty:
        return None, None
    shown = focus_slice(mask.region) if step.slice_display is None else step.slice_display
    on_file = mask.region.grid.file_slice(0, shown)
    return shown, None if on_file is None else on_file[1]


def _text(question: Question, chain: EvidenceChain, case: Case, flags: tuple[str, ...]) -> str:
    data = record(question, chain, case)
    lines = [
        f"{question.id}  {question.subtype}  {question.case_id}",
        one_line(question.text),
        f"understood: {data['understood']['sentence']}",
    ]
    for number, step in enumerate(data["steps"], 1):
        lines += _step_lines(number, step)
    lines += [
        f"recomputed: {chain.conclusion or '(nothing)'}",
        f"reference:  {one_line(data['reference']) or '(none stated)'}",
        _status_line(chain, data),
    ]
    lines += [
        f"  by {rule.name} ({rule.text}): {rule.conclusion}, {_WORDS[rule.status.value]}"
        for rule in chain.other_rules
    ]
    lines += [f"! {one_line(flag)}" for flag in flags]
    return "\n".join(lines) + "\n"


def _status_line(chain: EvidenceChain, data: dict[str, Any]) -> str:
    """Return how the two compare, and where that rests on masks that nobody drew."""
    word = _WORDS.get(data["status"], data["status"])
    assumed = any(CAVEAT in step.caveats for step in chain.steps)
    said = f"{word}, assumed (a lesion without a mask file is taken as not there)"
    line = said if assumed and chain.status is not ChainStatus.CANNOT_CHECK else word
    return line + (f": {one_line(data['difference'])}" if data["difference"] else "")


def _step_lines(number: int, step: dict[str, Any]) -> list[str]:
    value = "" if step["value"] is None else f"= {with_unit(_value(step['value']), step['unit'])}"
    lines = [f"{number}. {one_line(_what(step))} {one_line(value)}".rstrip()]
    source = f" ({step['source']})" if step["source"] else ""
    if step["rule"] or source:
        assumed = ", assumed" if step["assumed"] else ""
        lines.append(f"     {one_line(step['rule'] + source)}{assumed}")
    if step["slice_display"] is not None:
        where = f"     slice {step['slice_display'] + 1} as shown (from 1)"
        on_file = step["slice_file"]
        lines.append(where + (f", {on_file} in the file (from 0)" if on_file is not None else ""))
    return lines + [f"     ! {one_line(caveat)}" for caveat in step["caveats"]]


def _what(step: dict[str, Any]) -> str:
    """Return kind, target and measure for people: ``"measure left kidney: volume"``."""
    target = selection(step["target"]).label if step["target"] else ""
    measure = step["measure"]
    words = measure_named(measure).words if is_measure(measure) else measure.replace("_", " ")
    said = f"{step['kind'].replace('lookup', 'look up')} {target}".strip()
    return f"{said}: {words}" if words and measure != "voxels" else said


def _value(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value


COMMAND = Evidence()
