"""Records put into sentences for people: what was read, how it counts, what cannot be trusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from napari_ctvqa.core.audit_text import FORMAT_WORDS, OUTCOME_WORDS
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.chains import ChainStatus, StepMatch
from napari_ctvqa.core.confidence import confidence_line, confidence_of
from napari_ctvqa.core.intervals import percent
from napari_ctvqa.core.names import is_known, label
from napari_ctvqa.core.question_checks import asked_twice, duplicate_flag
from napari_ctvqa.core.question_checks import record_flags as record_flaws
from napari_ctvqa.core.records import AnswerFormat, Outcome
from napari_ctvqa.core.rules import is_measure, measure_named
from napari_ctvqa.core.scoring import TEXT_SCORES, score_titles
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.widgets.text import number, one_line
from napari_ctvqa.widgets.theme import DIFFERS_GLYPH, GLYPHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.chains import AlignedStep, EvidenceChain
    from napari_ctvqa.core.records import Prediction, Question, Run, Score
    from napari_ctvqa.core.session import RunProgress, Session
    from napari_ctvqa.core.unfinished import Unfinished

NOT_STATED = "not stated"
PATIENT_FIELDS = (("Sex", "sex"), ("age", "age"), ("phase", "contrast"), ("scanner", "scanner"))
HIDDEN_REFERENCE = "Reference: hidden until you reveal it"
QUOTED = 60
MATCH_WORDS = {
    StepMatch.SAME: ("✓", "same", "right"),
    StepMatch.MISSING: ("∅", "missing: the model has no such step", "wrong"),
    StepMatch.EXTRA: ("+", "extra: the reference has no such step", "unread"),
    StepMatch.WRONG_TARGET: ("✗", "wrong target", "wrong"),
    StepMatch.WRONG_VALUE: ("✗", "wrong value", "wrong"),
    StepMatch.OUTPUT_IGNORED: ("✗", "output ignored", "wrong"),
    StepMatch.KNOWLEDGE_NOT_USED: ("✗", "knowledge not used", "wrong"),
    StepMatch.UNKNOWN: ("–", "not comparable", "unscored"),
}
HARMLESS_WORDS = MATCH_WORDS | {
    StepMatch.MISSING: ("–", "no such step, and none was needed", "unscored"),
    StepMatch.EXTRA: ("+", "besides: the reference has no such step", "unscored"),
}
ANOTHER_WAY = ("✓", "another value, right all the same", "right")
SAME_WITHIN = 0.02
"""From which share of the reference on two values are not called the same."""
STATUS_WORDS = {
    ChainStatus.AGREES: ("✓", "agrees", "right"),
    ChainStatus.DIFFERS: ("✗", "differs", "wrong"),
    ChainStatus.CANNOT_CHECK: ("?", "cannot be checked", "unread"),
    ChainStatus.ASSUMED: ("≈", "agrees under an assumed rule", "unread"),
}


_PLACES = ("questions_from",)
"""Notes of a QuestionSet that say nothing that needs a look."""
_UNIT_AT_END = re.compile(r"_(?:cm3|mm3|cm|mm)$")


# -------------------------------------------------------------------- question


def patient_line(patient: Mapping[str, str]) -> str:
    """Return sex, age, phase and scanner; what the record lacks is said to be not stated."""
    return ", ".join(f"{word}: {_stated(patient.get(key))}" for word, key in PATIENT_FIELDS)


def _stated(value: object) -> str:
    text = one_line(value, 60).strip() if value is not None else ""
    return NOT_STATED if text.lower() in ("", "none", "nan", "null", "unknown") else text


def reference_line(question: Question) -> str:
    """Return the benchmark's answer, with its letter where there is one."""
    reference = question.reference
    if reference.letter and reference.text and reference.text != reference.letter:
        return f"Reference: {reference.letter} · {reference.text}"
    return f"Reference: {reference.text or reference.letter or NOT_STATED}"


def record_flags(question: Question) -> str:
    """Return what the question's record lacks."""
    if not question.missing_keys:
        return ""
    keys = ", ".join(one_line(key, 40) for key in question.missing_keys[:20])
    return f"⚠ The record lacks: {keys}."


def asked_twice_text(session: Session) -> str:
    """Return which other questions ask the same, empty for none; it looks at all questions."""
    questions, row = session.questions, session.row
    if questions is None or row is None:
        return ""
    return duplicate_flag(questions, row, asked_twice(questions, row).get(row, ()))


def question_flaws(session: Session, twice: str) -> str:
    """Return what is wrong with the question itself: ``twice``, options without a right one.

    It tells the reference, so the caller shows it only where that is revealed.
    """
    question = session.question
    if question is None:
        return ""
    flaws = [*record_flaws(question), *([twice] if twice else [])]
    if session.reference_chain is not None:
        flaws += session.reference_chain.flags
    return "\n".join(f"⚠ This question: {one_line(flaw, 300)}." for flaw in dict.fromkeys(flaws))


# --------------------------------------------------------------------- answers


def sure_text(prediction: Prediction | None) -> str:
    """Return how sure the model was, with where that comes from; empty where nobody asked."""
    found = confidence_of(prediction) if prediction is not None else None
    return one_line(confidence_line(found), 400) if found is not None else ""


def outcome_text(outcome: Outcome, value: float | None = None) -> str:
    """Return glyph and word, with the partial credit where the scorer gives one."""
    credit = f", credit {number(value)}" if value is not None and 0 < value < 1 else ""
    return f"{GLYPHS[outcome]} {OUTCOME_WORDS[outcome]}{credit}"


def official_text(score: Score) -> str:
    """Return the official outcome; of a failed answer that it gives credit to, that it does."""
    if score.counted_though_failed:
        return f"{GLYPHS[score.shown]} no answer, yet counted as {_credit_words(score)}"
    return outcome_text(score.official, score.value)


def _credit_words(score: Score) -> str:
    return "right" if score.official is Outcome.RIGHT else "partly right"


def reading_text(reading: str, titles: tuple[str, str] = TEXT_SCORES) -> str:
    """Return what was read from a text, or what another kind of score rests on."""
    shown = one_line(reading, QUOTED) or "nothing"
    return f"read: {shown}" if titles == TEXT_SCORES else shown


def outcome_legend(benchmark: object) -> str:
    """Return what the signs in the models' columns mean for a benchmark."""
    titles = score_titles(benchmark)
    apart = f"first: {titles[0]}, then: {titles[1]}"
    apart = "read differently" if titles == TEXT_SCORES else apart
    words = {**{GLYPHS[o]: OUTCOME_WORDS[o] for o in Outcome}, DIFFERS_GLYPH: apart}
    blank = "\N{NO-BREAK SPACE}"
    return "   ".join(f"{sign}{blank}{word.replace(' ', blank)}" for sign, word in words.items())


def disagreement(
    score: Score, raw_text: str, titles: tuple[str, str] = TEXT_SCORES, note: str = ""
) -> str:
    """Return in plain sentences how the two scores differ; empty where they do not.

    ``note`` says what sets the benchmark's two scores apart.
    """
    if not score.disagrees:
        return ""
    official = one_line(score.official_reading, QUOTED) or "nothing"
    if score.counted_though_failed:
        return (
            f"⚠ The run failed here: this is no answer. {titles[0]}: read {official} from the "
            f"error and counts it as {_credit_words(score)}."
        )
    ours = one_line(score.our_reading, QUOTED) or "nothing"
    if titles != TEXT_SCORES:
        return (
            f"⚠ {titles[0]}: {official}, {OUTCOME_WORDS[score.official]}. "
            f"{titles[1]}: {ours}, {OUTCOME_WORDS[score.ours]}. {note}".strip()
        )
    quote = one_line(raw_text.strip(), QUOTED)
    if score.official is score.ours:
        counts = f"both count as {OUTCOME_WORDS[score.official]}"
    else:
        counts = f"{OUTCOME_WORDS[score.official]} officially, {OUTCOME_WORDS[score.ours]} as read"
    return f"⚠ The official scorer read {official} from “{quote}”, a person reads {ours}: {counts}."


def run_line(run: Run, assumed: AnswerFormat) -> str:
    """Return where an answer comes from and how its file is scored."""
    source = f"from {one_line(run.path, 200)}" if run.path else "answered in this window"
    if run.answer_format is None:
        return f"{source}; the file does not say its format: scored as {FORMAT_WORDS[assumed]}"
    return f"{source}, {FORMAT_WORDS[run.answer_format]}"


# ----------------------------------------------------------------------- files


def counted_failures(model: str, scores: Mapping[str, Score]) -> list[str]:
    """Return how many failed answers of a run the official scorer gives credit to, if any."""
    failed = [score for score in scores.values() if score.failed]
    counted = sum(score.counted_though_failed for score in failed)
    if not counted:
        return []
    return [
        f"{one_line(model, 60)}: the official scorer gives credit to {counted:,} of "
        f"{len(failed):,} failed answers, which hold no answer"
    ]


def file_notes(session: Session) -> list[str]:
    """Return what the readers of the open files had to say: records left out, rows that repeat."""
    questions, case = session.questions, session.case
    notes: list[str] = []
    if questions is not None:
        notes += [f"questions: {text}" for text in questions.problems]
        notes += [f"questions: {text}" for k, text in questions.notes.items() if k not in _PLACES]
    for run in session.runs.values():
        notes += [f"{one_line(run.model, 60)}: {text}" for text in run.notes]
        notes += counted_failures(run.model, session.scores.get(run.model, {}))
    if case is not None:
        notes += [f"case {case.case_id}: {text}" for text in case.files.notes]
    return notes


# ------------------------------------------------------------------------ case


def case_message(session: Session) -> tuple[str, str]:
    """Return the look and the text of the line on the case's state; empty when it is ready."""
    message = one_line(session.case_message, 400)
    state = session.case_state
    if state is CaseState.FAILED:
        return "red", f"⚠ The case cannot be shown. {message}".strip()
    if state is CaseState.LOADING:
        return "info", message or "The case is being read …"
    if state is CaseState.CT_SHOWN:
        return "info", f"The CT is shown, masks are still being read. {message}".strip()
    if state is CaseState.NONE and session.question is not None:
        return "info", message or "No CT is shown for this question."
    return "", ""


def geometry_message(session: Session) -> tuple[str, str]:
    """Return the look and the text of the banner beside the answer; empty when all is sound."""
    case = session.case
    if case is None:
        return "", ""
    report = case.report
    reasons = [f"• {w.message}" for w in report.warnings if w.level is not Level.GREEN]
    reasons += [f"• {one_line(text, 300)}" for text in case.problems.values()]
    if report.level is Level.RED:
        head = (
            "■ Left and right and all measurements are NOT verified for this case. "
            "Do not judge side, size or HU by it."
        )
        return "red", "\n".join([head, *reasons])
    if report.level is Level.AMBER:
        return "amber", "\n".join(["▲ The geometry of this case needs a look:", *reasons])
    if reasons:
        return "amber", "\n".join(["▲ Some masks could not be read:", *reasons])
    return "", ""


# -------------------------------------------------------------------- evidence


def _match_words(row: AlignedStep) -> tuple[str, str, str]:
    if row.match is StepMatch.SAME and abs(row.relative_error or 0.0) > SAME_WITHIN:
        return ANOTHER_WAY  # by another rule, or on more than the reference: the note says which
    return (HARMLESS_WORDS if row.harmless else MATCH_WORDS)[row.match]


def match_role(row: AlignedStep) -> str:
    """Return the look of how one row compares."""
    return _match_words(row)[2]


def match_text(row: AlignedStep) -> str:
    """Return icon, word and relative error of one row."""
    icon, word, _ = _match_words(row)
    error = error_text(row)
    return f"{icon} {word} ({error})" if error else f"{icon} {word}"


def error_text(row: AlignedStep) -> str:
    """Return how far the model's value lies above (+) or below the reference's, in per cent of it.

    ``relative_error`` has no sign; where both values are numbers, they give it.
    """
    if row.relative_error is None:
        return ""
    percent = abs(row.relative_error) * 100
    if 0 < percent < 0.05:
        return "under 0.1\N{NO-BREAK SPACE}% off"
    digits = 1 if percent < 1000 else 0
    return (
        f"{_sign(row)}{percent:,.{digits}f}\N{NO-BREAK SPACE}%"
        if percent
        else "0\N{NO-BREAK SPACE}% off"
    )


def _sign(row: AlignedStep) -> str:
    reference = row.reference.value if row.reference is not None else None
    model = row.model.value if row.model is not None else None
    if isinstance(reference, str | None) or isinstance(model, str | None):
        return "±"
    return "+" if model > reference else "−"


def measure_words(measure: str) -> str:
    """Return a measurement type for people: ``"volume_cm3"`` is "volume", its value has a unit."""
    if is_measure(measure):
        return measure_named(measure).words
    words = _UNIT_AT_END.sub("", one_line(measure, 60)).replace("_", " ")
    return re.sub(r"\bhu\b", "HU", words)


_RAW_NAME = re.compile(r"(?<![\w/.])[a-z0-9]+(?:_[a-z0-9]+)+(?![\w/.]\w)", re.IGNORECASE)


def plain_names(text: str) -> str:
    """Return a sentence with raw names of structures and measures put into words.

    Names that are not known, and parts of paths, stay as they are.
    """
    return _RAW_NAME.sub(_plain_name, text)


def _plain_name(found: re.Match[str]) -> str:
    name = found[0]
    if is_measure(name):
        return measure_named(name).words
    return label(name) if is_known(name) else name


def source_words(source: str) -> str:
    """Return where a step's number comes from, for people: a model's tool by its words."""
    tool = source.removeprefix("tool ")
    if tool == source or not re.fullmatch(r"\w{1,60}", tool):
        return source
    return f"the model's tool “{tool.replace('_', ' ')}”"


def status_text(chain: EvidenceChain) -> str:
    """Return icon, word and reason of a chain's status, and what it was compared with.

    The reference's chain is compared with the stated reference, a model's with the recomputed one.
    """
    icon, word, _ = STATUS_WORDS[chain.status]
    reason = f": {plain_names(chain.reason)}" if chain.reason else ""
    if chain.origin != REFERENCE:
        return f"{icon} {word}{_COMPARED_WITH[MODEL].get(chain.status, '')}{reason}"
    others = ", ".join(f"{rule.name} ({rule.text})" for rule in chain.agreeing_rules)
    if chain.status is ChainStatus.DIFFERS and others:
        return f"≈ stated reference: differs by the default rule, agrees by {others}{reason}"
    if chain.status is ChainStatus.DIFFERS:
        return f"{icon} {word} from the stated reference{reason}"
    return f"{icon} {word}{_COMPARED_WITH[REFERENCE].get(chain.status, '')}{reason}"


REFERENCE, MODEL = "reference", "model"
_COMPARED_WITH = {
    REFERENCE: {ChainStatus.AGREES: " with the stated reference"},
    MODEL: {
        ChainStatus.AGREES: " with what the masks give",
        ChainStatus.DIFFERS: " from what the masks give",
    },
}


def contradiction(chain: EvidenceChain | None) -> str:
    """Return that the masks contradict a stated reference, or support it by another rule only.

    It tells the reference, so the caller shows it only where that is revealed.
    """
    if chain is None or chain.status is not ChainStatus.DIFFERS:
        return ""
    reason = f": {plain_names(one_line(chain.reason, 200))}" if chain.reason else ""
    if chain.agreeing_rules:
        names = ", ".join(rule.name for rule in chain.agreeing_rules)
        return f"≈ Reference right by another rule only ({one_line(names, 80)}){reason}."
    return f"⚠ Reference contradicted by the masks{reason}."


def against_contradicted(
    outcome: Outcome, reference: EvidenceChain | None, model: EvidenceChain | None
) -> str:
    """Return what a score is worth whose reference the masks contradict; empty where they do not.

    ``reference`` and ``model`` are the chains of both; the model's says what the masks make of it.
    """
    if not contradiction(reference) or outcome not in (Outcome.RIGHT, Outcome.WRONG):
        return ""
    assert reference is not None
    what = "the masks contradict"
    if reference.agreeing_rules:
        what = "the masks support by another rule only"
    said = f"⚠ {OUTCOME_WORDS[outcome].capitalize()} against the stated reference, which {what}"
    own = {
        ChainStatus.AGREES: "; the answer agrees with the masks",
        ChainStatus.DIFFERS: "; the answer differs from the masks",
    }
    return f"{said}{own.get(model.status, '') if model is not None else ''}."


def status_role(chain: EvidenceChain) -> str:
    """Return the look of a chain's status; right by another rule is no plain "wrong"."""
    if chain.status is ChainStatus.DIFFERS and chain.agreeing_rules:
        return "unread"
    return STATUS_WORDS[chain.status][2]


# ------------------------------------------------------------------------- run


def time_left(seconds: float | None) -> str:
    """Return a duration as a person says it; empty while it is not known."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"about {max(1, round(seconds))} s left"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


def accuracy_text(progress: RunProgress, *, hidden: bool) -> str:
    """Return the official accuracy so far and of how many; nothing of it while hidden."""
    if progress.accuracy is None:
        return ""
    if hidden:
        return "The accuracy is hidden while references are."
    so_far = " so far" if progress.done < progress.total else ""
    failed = ", failed ones included" if progress.failed else ""
    share = percent(progress.accuracy)
    return f"Official accuracy{so_far}: {share} of {progress.scored:,} answers{failed}"


def progress_text(progress: RunProgress, per_second: float | None) -> str:
    """Return count, failures, rate and time left of a run."""
    parts = [f"{progress.done:,} of {progress.total:,}"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if per_second:
        rate = f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min"
        parts.append(rate)
    left = time_left(progress.seconds_left)
    return " · ".join([*parts, left] if left else parts)


def unfinished_text(run: Unfinished) -> str:
    """Return what a run that was stopped is, and how it goes on."""
    form = next((FORMAT_WORDS[one] for one in AnswerFormat if one == run.answer_format), "")
    parts = [one_line(run.model, 60), *([form] if form else []), f"{run.answered:,} answers"]
    parts += [f"{run.failed:,} failed"] if run.failed else []
    when = f"{run.stopped:%Y-%m-%d %H:%M}"
    return f"Not finished: {', '.join(parts)}, {when}. Run it again as it was, and it goes on."
