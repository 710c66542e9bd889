"""DeepTumorVQA's trajectories and agent_sft conversations as Traces."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import without_pictures
from napari_ctvqa.core.records import ToolCall, ToolResult, Trace, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CASE_ID = re.compile(r"\bBDMAP_\d{8}\b")
_ROLES = {
    "human": "user", "user": "user", "gpt": "answer", "assistant": "answer",
    "function_call": "call", "tool_call": "call", "observation": "result", "tool": "result",
    "function": "result", "system": "system",
}  # fmt: skip


def trace_of_trajectory(entries: Any) -> Trace:
    """Return the Trace of a result row's ``trajectory``; an entry of unknown shape is an error."""
    if not isinstance(entries, list):
        return Trace()
    return Trace(tuple(_turn(entry, index) for index, entry in enumerate(entries)))


def _step(entry: Mapping[str, Any], index: int) -> int:
    try:
        return int(entry.get("step", index))
    except (TypeError, ValueError, OverflowError):
        return index


def _turn(entry: Any, index: int) -> Turn:
    if not isinstance(entry, dict):
        return Turn(index, error=f"entry {index} of the trajectory is no object: {entry!r:.200}")
    step = _step(entry, index)
    if entry.get("tool") is not None:
        arguments = entry.get("arguments")
        call = ToolCall(
            str(entry["tool"]),
            arguments if isinstance(arguments, dict) else {"(as given)": arguments},
        )
        return Turn(step, call, _result(entry.get("result")))
    if entry.get("final_answer") is not None:
        return Turn(step, final_answer=str(entry["final_answer"]))
    if entry.get("error") is not None:
        return Turn(step, error=str(entry["error"]))
    return Turn(step, error=f"entry {index} names neither tool, final_answer nor error")


def _result(content: Any) -> ToolResult:
    error = ""
    if isinstance(content, dict) and content.get("error"):
        error = str(content["error"])
    return ToolResult(content, error=error)


# ------------------------------------------------------------------------------- conversations


def said(conversation: Sequence[Any]) -> list[tuple[str, str]]:
    """Return (role, text) of each turn; roles are user, call, result, answer, system or other."""
    turns: list[tuple[str, str]] = []
    for turn in conversation:
        if not isinstance(turn, dict):
            continue
        role = str(turn.get("from", turn.get("role", ""))).lower()
        value = turn.get("value", turn.get("content", ""))
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        turns.append((_ROLES.get(role, "other"), text))
    return turns


def after_thought(text: str) -> str:
    """Return what follows a leading ``<think>…</think>``."""
    return re.sub(r"\A\s*<think>.*?</think>\s*", "", text, count=1, flags=re.DOTALL)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _calls(text: str) -> list[ToolCall]:
    """Return the calls in a function_call turn; text that is no call keeps its words."""
    body = after_thought(text)
    data = _json_or_text(body)
    if isinstance(data, str) and "{" in body and "}" in body:
        data = _json_or_text(body[body.index("{") : body.rindex("}") + 1])
    calls = []
    for item in data if isinstance(data, list) else [data]:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            calls.append(ToolCall("(not readable)", {"(as given)": body}))
            continue
        arguments = item.get("arguments", item.get("parameters", {}))
        if isinstance(arguments, str):
            arguments = _json_or_text(arguments)
        given = arguments if isinstance(arguments, dict) else {"(as given)": arguments}
        calls.append(ToolCall(item["name"], given))
    return calls


def trace_of_conversation(turns: Iterable[tuple[str, str]]) -> tuple[Trace, str]:
    """Return the Trace of a conversation and its final answer's text, verbatim."""
    made: list[Turn] = []
    waiting: list[ToolCall] = []
    step = 0
    answer = ""
    for role, text in turns:
        if role == "call":
            made += [Turn(step, call) for call in waiting]
            waiting = _calls(text)
            step += 1
        elif role == "result":
            content = without_pictures(_json_or_text(text))
            call = waiting.pop(0) if waiting else ToolCall("(no call)", {})
            made.append(Turn(step, call, _result(content)))
        elif role == "answer":
            answer = text
    made += [Turn(step, call) for call in waiting]
    if answer:
        made.append(Turn(step + 1, final_answer=answer))
    return Trace(tuple(made)), answer


def case_of(record: Mapping[str, Any], turns: Iterable[tuple[str, str]]) -> str:
    """Return the BDMAP id that a conversation speaks of, from its own keys or its text."""
    known = json.dumps(
        {key: record[key] for key in ("image_id", "id", "images", "meta") if key in record},
        ensure_ascii=False, default=str,
    )  # fmt: skip
    for text in (known, *(text for _, text in turns)):
        found = _CASE_ID.search(text)
        if found:
            return found[0]
    return ""
