"""Tool calls as models write them in their text, and tool results as they want them back.

``hermes`` writes ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, ``qwen3_coder`` writes
``<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>``; both are read
under either name, as servers mix them. ``meissa`` is hermes or a bare object after a thought.
``json`` is an object in the text, fenced or bare. ``none`` calls no tools.

JSON only, of bounded size; mending is limited to a few slips and every one is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from types import MappingProxyType
from typing import Any

from napari_ctvqa.core.asking import Message, Picture
from napari_ctvqa.core.neutral import inert_tags
from napari_ctvqa.core.output_text import without_thoughts
from napari_ctvqa.core.records import ToolCall

DIALECTS = ("hermes", "qwen3_coder", "meissa", "json", "none")
MOST_CALLS = 32
MOST_CHARACTERS = 200_000
"""Of one call; what is longer is not read."""
_BARE = 20_000
"""Characters of a call without marks around it."""
_MOST_TEXT = 10_000_000
_DEEPEST = 40
_MOST_MISSING = 3
_LONGEST_NAME = 200

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"<function=([^<>\n]{1,200})>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]{1,200})>")
_FENCE = re.compile(r"```(?:json|tool_call|tool_code)?[ \t]*\n")
_LINE_OPENS = re.compile(r"(?m)^[ \t]*[\[{]")
_THOUGHTS = (("<think>", "</think>"), ("<unused94>", "<unused95>"))
_ARGUMENTS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True)
class ReadCalls:
    """Calls in order; ``repaired`` says what was mended, ``unread`` what could not be read."""

    calls: tuple[ToolCall, ...] = ()
    repaired: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass
class _Found:
    calls: list[ToolCall] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def done(self) -> ReadCalls:
        repaired, unread = (tuple(dict.fromkeys(x)) for x in (self.repaired, self.unread))
        return ReadCalls(tuple(self.calls), repaired, unread)


def read_calls(dialect: str, text: str, *, opens_thinking: bool = False) -> ReadCalls:
    """Return the calls in a model's text; never raises, whatever the text is.

    Calls inside a thought are none. With ``opens_thinking`` a text without the end of its thought
    is still thinking.
    """
    if dialect not in DIALECTS or dialect == "none":
        return ReadCalls()
    if len(text) > _MOST_TEXT:
        return ReadCalls(unread=(f"a text of {len(text):,} characters is not searched",))
    for number, marks in enumerate(_THOUGHTS):
        kept = without_thoughts(text, *marks, opened=opens_thinking and number == 0)
        if kept is None:
            return ReadCalls()
        text = kept
    found = _Found()
    if _OPEN in text or _FUNCTION.search(text):
        _read_tagged(text, found)
    elif dialect in ("json", "meissa"):
        _read_bare(text, found)
    if len(found.calls) > MOST_CALLS:
        found.unread.append(f"{len(found.calls)} calls in one text; {MOST_CALLS} are read")
        del found.calls[MOST_CALLS:]
    return found.done()


_TERMINATE = "terminate"
_ANSWER_KEYS = ("ans", "answer", "final_answer", "response", "result", "text")


def terminated(calls: Sequence[ToolCall]) -> str | None:
    """Return the answer that a call of Meissa's tool ``Terminate`` holds; None without one.

    How its argument is called is not known: one of the usual names, or the only text there is.
    """
    for call in calls:
        if call.name.casefold() != _TERMINATE:
            continue
        texts = {key: v for key, v in call.arguments.items() if isinstance(v, str)}
        named = next((texts[key] for key in _ANSWER_KEYS if key in texts), None)
        return named if named is not None else next(iter(texts.values()), "")
    return None


# ------------------------------------------------------------------------------------------ tagged


def _read_tagged(text: str, found: _Found) -> None:
    for body, closed in islice(_tagged(text), 2 * MOST_CALLS):
        if not closed:
            found.repaired.append(f"{_CLOSE} was missing")
        if _FUNCTION.search(body):
            _read_xml(body, found)
        else:
            _read_object(body, found)


def _tagged(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what stands in each tag, and whether the tag was closed; without tags the text."""
    if _OPEN not in text:
        yield text, True
        return
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        start += len(_OPEN)
        end, again = text.find(_CLOSE, start), text.find(_OPEN, start)
        if end >= 0 and (again < 0 or end < again):
            yield text[start:end], True
            position = end + len(_CLOSE)
        else:
            stop = again if again >= 0 else len(text)
            yield text[start:stop], False
            position = stop


def _read_xml(body: str, found: _Found) -> None:
    """Read ``<function=NAME>`` with its parameters; a value that is JSON is taken as such."""
    if len(body) > MOST_CHARACTERS:
        found.unread.append(f"a call of {len(body):,} characters")
        return
    heads = list(_FUNCTION.finditer(body))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        part = body[head.end() : following.start() if following else len(body)]
        inside, closed, _ = part.partition("</function>")
        if not closed:
            found.repaired.append("</function> was missing")
        arguments: dict[str, Any] = {}
        marks = list(_PARAMETER.finditer(inside))
        for mark, after in zip(marks, [*marks[1:], None], strict=True):
            value = inside[mark.end() : after.start() if after else len(inside)]
            kept, ended, _ = value.rpartition("</parameter>")
            if not ended:
                kept = value
                found.repaired.append("</parameter> was missing")
            arguments[mark[1].strip()] = _value(kept.strip())
        found.calls.append(ToolCall(head[1].strip(), MappingProxyType(arguments)))


def _value(text: str) -> Any:
    """Return a number, object, list, true, false or null as such; everything else as text."""
    if not text or text[0] not in '{["-0123456789tfn':
        return text
    try:
        return _loads(text)
    except ValueError:
        return text


# -------------------------------------------------------------------------------------------- JSON


def _read_bare(text: str, found: _Found) -> None:
    """Read objects in fences; without fences, those that begin a line with a name."""
    bodies = [text[m.end() :].partition("```")[0] for m in _some(_FENCE.finditer(text))]
    bodies = [body for body in bodies if _looks_like_call(body)]
    for body in bodies or _bare(text):
        _read_object(body, found)


def _bare(text: str) -> Iterator[str]:
    """Yield what looks like a call from the beginning of a line; inside another call it is none."""
    covered = 0
    for match in _some(_LINE_OPENS.finditer(text)):
        tail = text[match.start() : match.start() + _BARE]
        if match.start() >= covered and _looks_like_call(tail):
            covered = match.start() + (_scan(tail).end or len(tail))
            yield tail


def _some(matches: Iterator[re.Match[str]]) -> list[re.Match[str]]:
    return list(islice(matches, 4 * MOST_CALLS))


def _looks_like_call(body: str) -> bool:
    head = body.lstrip()[:MOST_CHARACTERS]
    named = re.match(r"[\[{\s]*[\"']?name[\"']?\s*:", head)
    return bool(named) or (
        head[:1] in ("{", "[")
        and bool(re.search(r"[\"']name[\"']\s*:", head[:2000]))
        and any(f'"{key}"' in head or f"'{key}'" in head for key in _ARGUMENTS)
    )


def _read_object(body: str, found: _Found) -> None:
    body = body.strip()
    if body.startswith("```"):
        body = body.strip("`").removeprefix("json").strip()
    if not body:
        found.unread.append("an empty tool call")
        return
    if len(body) > MOST_CHARACTERS and (_scan(body[:MOST_CHARACTERS]).end is None):
        found.unread.append(f"a call of {len(body):,} characters")
        return
    try:
        data, slips = _mended(body)
    except ValueError as error:
        found.unread.append(f"a tool call that is no JSON ({str(error)[:100]}): {body[:80]}")
        return
    found.repaired += slips
    for item in data if isinstance(data, list) else [data]:
        _take(item, found)


def _take(item: Any, found: _Found) -> None:
    """Keep one object as a call where it has a name and arguments."""
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not 0 < len(name.strip()) <= _LONGEST_NAME:
        found.unread.append("a tool call without a name")
        return
    key = next((key for key in _ARGUMENTS if key in item), None)
    arguments = item[key] if key else {}
    if key and key != _ARGUMENTS[0]:
        found.repaired.append(f"{key} was taken as arguments")
    if isinstance(arguments, str):
        try:
            arguments, slips = _mended(arguments) if arguments.strip() else ({}, [])
        except ValueError:
            found.unread.append(f"the arguments of {name[:40]} are a text that is no JSON")
            return
        found.repaired += ["arguments were written as a text", *slips]
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        found.unread.append(f"the arguments of {name[:40]} are no object")
        return
    found.calls.append(ToolCall(name.strip(), MappingProxyType(arguments)))


def _mended(text: str) -> tuple[Any, list[str]]:
    """Return the JSON that text begins with, and what had to be mended. Raises ValueError."""
    text = text.strip()
    try:
        return _loads(text), []
    except ValueError as error:
        first = error
    slips: list[str] = []
    scan = _scan(text)
    if scan.end is not None and scan.end < len(text):
        slips.append("text after the object was left out" if text[scan.end :].strip("} \n\t`;,.")
                     else "brackets after the object were left out")  # fmt: skip
        text = text[: scan.end]
    elif scan.end is None:
        if scan.in_string or not scan.open or len(scan.open) > _MOST_MISSING:
            raise first
        slips.append(f"{len(scan.open)} closing bracket(s) were missing")
        text += "".join(reversed(scan.open))
    for name, mend in (("single quotes", _double_quoted), ("a trailing comma", _without_commas)):
        try:
            return _loads(text), slips
        except ValueError:
            other = mend(text)
            if other != text:
                slips.append(f"{name} were mended" if name.endswith("s") else f"{name} was mended")
                text = other
    return _loads(text), slips


@dataclass(frozen=True, slots=True)
class _Scan:
    """Where the value at the beginning of a text ends, or what is still open at the text's end."""

    end: int | None
    open: tuple[str, ...] = ()
    in_string: bool = False


_TOKEN = re.compile(r"""\\.|["'{}\[\]]""", re.DOTALL)


def _scan(text: str) -> _Scan:
    """Follow brackets and quotes from the first bracket on; both kinds of quotes count."""
    stack: list[str] = []
    quote = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "\\":
            continue
        if quote:
            quote = "" if _ends(quote, token, text, match) else quote
        elif token in "\"'":
            quote = token if token == '"' or _begins(text, match.start()) else ""
        elif token in "{[":
            stack.append("}" if token == "{" else "]")
            if len(stack) > _DEEPEST:
                return _Scan(None, (), True)
        elif stack and token == stack[-1]:
            stack.pop()
            if not stack:
                return _Scan(match.end())
        else:
            return _Scan(None, (), True)
    return _Scan(None, tuple(stack), bool(quote))


def _begins(text: str, at: int) -> bool:
    """Return whether a single quote opens a text: it follows a bracket, a comma or a colon."""
    before = text[max(0, at - 20) : at].rstrip()
    return before[-1:] in ("{", "[", ",", ":", "")


def _ends(quote: str, token: str, text: str, match: re.Match[str]) -> bool:
    """Return whether a quote closes a text; an apostrophe inside a single-quoted one does not."""
    if token != quote:
        return False
    after = text[match.end() : match.end() + 20].lstrip()
    return quote == '"' or after[:1] in (",", ":", "}", "]", "")


def _double_quoted(text: str) -> str:
    """Return text with single-quoted strings double-quoted, Python's constants as JSON's."""
    out: list[str] = []
    quote, position = "", 0
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        if token in ("'", '"') and not quote and (token == '"' or _begins(text, start)):
            out.append(_json_constants(text[position:start]))
            quote, position = token, match.end()
        elif quote and _ends(quote, token, text, match):
            inside = text[position:start]
            if quote == "'":
                inside = inside.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
            out.append(f'"{inside}"')
            quote, position = "", match.end()
    out.append(text[position:] if quote else _json_constants(text[position:]))
    return "".join(out)


_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def _json_constants(text: str) -> str:
    return re.sub(r"\b(?:True|False|None)\b", lambda match: _CONSTANTS[match[0]], text)


def _without_commas(text: str) -> str:
    """Return text without commas before a closing bracket, outside of strings."""
    out: list[str] = []
    position, in_string = 0, False
    for match in _TOKEN.finditer(text):
        if match[0] == '"':
            in_string = not in_string
        elif match[0] in ("}", "]") and not in_string:
            out.append(re.sub(r",\s*\Z", "", text[position : match.start()]))
            position = match.start()
    return "".join(out) + text[position:]


def _loads(text: str) -> Any:
    """Return JSON data of bounded depth; raises ValueError for everything else."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if too_deep(data):
        raise ValueError("nested too deeply")
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def too_deep(data: Any) -> bool:
    """Return whether JSON data is nested beyond reason: whoever shows or compares it recurses."""
    return _depth(data) > _DEEPEST


def _depth(data: Any) -> int:
    level, depth = [data], 0
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


# ----------------------------------------------------------------------------------------- writing


def lists_tools(dialect: str) -> bool:
    """Return whether the model's chat template lists the tools itself."""
    return dialect in ("hermes", "qwen3_coder", "meissa")


def takes_tool_turns(dialect: str) -> bool:
    """Return whether the model's chat template knows turns of role ``tool``."""
    return dialect in ("hermes", "qwen3_coder")


@dataclass(frozen=True, slots=True)
class Returned:
    """What one call gave: the result as JSON text, and its pictures."""

    call: ToolCall
    text: str
    pictures: tuple[Picture, ...] = ()


def turns_of_step(
    dialect: str, text: str, returned: Sequence[Returned], *, step: int, by_server: bool = False
) -> tuple[Message, ...]:
    """Return the turns after one step: what the model said, and what its calls gave.

    Results hold names of files and of other people's tables: nothing in them can act as a control
    token. Where the template knows turns of role ``tool``, the calls are written anew by the
    template, so their markup is left out of the text (``by_server``: a server has taken it out
    already), and the pictures come in a user's turn after the results. Elsewhere the text stays
    as it is and one user's turn holds everything; Meissa's begins with ``Observation:`` and names
    the pictures.
    """
    returned = [replace(one, text=inert_tags(one.text)) for one in returned]
    if takes_tool_turns(dialect):
        before = text if by_server else _before_calls(text)
        said = Message("assistant", (before,) if before else (), tuple(r.call for r in returned))
        answers = [
            Message("tool", (one.text,), tool=one.call.name, call_id=f"call_{step}_{number}")
            for number, one in enumerate(returned, 1)
        ]
        shown = _labelled(picture for one in returned for picture in one.pictures)
        after = (Message("user", shown),) if shown else ()
        return (said, *answers, *after)
    parts: list[str | Picture] = []
    if dialect == "meissa":
        numbers = count(1)
        for one in returned:
            parts.append(f"Observation: {one.text}")
            for picture in one.pictures:
                name = f"img_round_{step}" + (f"_{n}" if (n := next(numbers)) > 1 else "")
                parts += [f"[Output Image ID: {name}]", picture]
    else:
        parts += [f"Observation of {one.call.name}: {one.text}" for one in returned]
        parts += _labelled(picture for one in returned for picture in one.pictures)
    return (Message("assistant", (text,)), Message("user", tuple(parts)))


def _before_calls(text: str) -> str:
    """Return what stands before the first call."""
    function = _FUNCTION.search(text)
    ends = [at for at in (text.find(_OPEN), function.start() if function else -1) if at >= 0]
    return text[: min(ends)].rstrip() if ends else text


def _labelled(pictures: Iterable[Picture]) -> tuple[str | Picture, ...]:
    parts: list[str | Picture] = []
    for picture in pictures:
        label = inert_tags(f"Picture from the tool: {picture.label}".rstrip(": "))
        parts += [label, picture]
    return tuple(parts)


def described_tools(dialect: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools as text, for models whose chat template cannot list them; else empty."""
    if lists_tools(dialect) or not tools:
        return ""
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    return (
        f"The tools, as JSON:\n{listed}\nTo call one, write nothing but a JSON object such as "
        '{"name": "...", "arguments": {...}}.'
    )
