"""How likely each option of a question was, out of the probabilities of tokens.

What counts is the text, not how it is cut into tokens: an option's mass is the probability that
the answer begins, after blanks and opening marks, with one of the texts that say the option, and
that this text ends there: with the answer, or before something that cannot go on a word. So
``A``, `` A``, ``A.``, ``(A)`` and ``**A**`` all say A, in as many tokens as they take; ``Abdomen``
and ``A cyst`` do not. The tokens are followed as a tree, the likeliest first; what is too unlikely
to be followed is counted and told, never taken for nothing.

Imports the standard library alone: ``runners.worker`` runs this file with a local model, and
``runners.server`` with the few likeliest tokens that a server tells.
"""

from __future__ import annotations

import copy
import heapq
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

logger = logging.getLogger("worker")

LEAST = 1e-4
"""A beginning that is less likely is not followed."""
MOST_LOOKS = 64
"""Beginnings that are followed at most; each costs a step of the model."""
FOLLOWED_TOKENS = 4096
"""Of the next tokens, the likeliest so many are looked at."""
SAID, OPEN, NOT = "said", "open", "not"
_OPENING = " \t\r\n\"'“‘`([{*_"
_THOUGHTS = (("<think>", "</think>"), ("<unused94>", "<unused95>"))
_LEAD = re.compile(
    r"(?:(?:so|therefore|thus|hence)\b,?\s*)?"
    r"(?:my\s+|the\s+)?(?:(?:correct|right|best|final|most likely)\s+)*"
    r"(?:answer|option|choice)(?:\s+(?:is|would be)\b)?[*_]*(?:\s*:)?[*_]*(?:\s*option\b)?"
    r"|\\boxed\s*\{|<answer>|\[FINAL\]",
    re.IGNORECASE,
)
_FINAL = re.compile(r"final answer\b[*_`\s]{0,20}[:：]", re.IGNORECASE)

Path = tuple[int, ...]


class Child(NamedTuple):
    """One token that may come next: its number, its text, its probability, whether it ends all."""

    token: int
    text: str
    probability: float
    ends: bool = False


if TYPE_CHECKING:
    Expand = Callable[[Path], Iterable[Child] | None]
    """Returns what may come after a path of tokens; None where that is not known."""


class Beginnings:
    """Tells of the beginning of an answer which option it says.

    Parameters
    ----------
    written
        For each option's letter the texts that say it. A text that would say two options says
        neither, unless it is the letter of one of them.
    """

    def __init__(self, written: Mapping[str, Sequence[str]]) -> None:
        letters = {letter.casefold(): letter for letter in written}
        found: dict[str, set[str]] = {}
        for letter, texts in written.items():
            for text in texts:
                form = _flat(text.strip().rstrip("."))
                if form:
                    found.setdefault(form, set()).add(letter)
        self._forms: dict[str, str] = {}
        for form, said in found.items():
            if form in letters and letters[form] in said:
                self._forms[form] = letters[form]
            elif len(said) == 1:
                self._forms[form] = said.copy().pop()

    def read(self, text: str, *, ended: bool) -> tuple[str, str]:
        """Return ``said`` and the letter, ``open`` (more must be known) or ``not``.

        The longest text that is said counts; ``ended`` tells that nothing follows.
        """
        rest = _flat(text.lstrip(_OPENING), keep_end=True)
        best, possible = "", ""
        for form in self._forms:
            if rest.startswith(form):
                state = _after(form, rest[len(form) :], ended)
            else:
                state = OPEN if form.startswith(rest) and not ended else NOT
            if state == SAID and len(form) > len(best):
                best = form
            elif state == OPEN and len(form) > len(possible):
                possible = form
        if len(possible) > len(best):
            return OPEN, ""
        return (SAID, self._forms[best]) if best else (NOT, "")


def _flat(text: str, *, keep_end: bool = False) -> str:
    """Return text in one case, blanks in it single; with ``keep_end`` those at its end stay."""
    folded = re.sub(r"[ \t]+", " ", text.casefold())
    return folded if keep_end else folded.strip()


def _after(form: str, tail: str, ended: bool) -> str:
    """Return whether a text that a form begins ends there, by what follows the form."""
    rest = tail.lstrip(" ")
    if not rest:
        return SAID if ended else OPEN
    mark, after = rest[0], rest[1:2]
    if mark.isalnum() or mark in "_\ufffd":
        return NOT
    blank = len(rest) < len(tail)
    if blank or mark not in ("'’.,-–—/×" if form[-1].isdigit() else "'’-–—"):
        return SAID
    if mark in "-–—/×":  # a range, a fraction, a longer word
        return NOT
    if not after:
        return SAID if ended else OPEN
    return NOT if after.isalnum() else SAID  # 5.3, A's


class Spread(NamedTuple):
    """Probability masses by letter, what might be of any of them, and how many looks it took."""

    masses: dict[str, float]
    unfollowed: float
    looks: int


def spread(beginnings: Beginnings, expand: Expand, start: str = "") -> Spread:
    """Follow the tokens from where the answer begins.

    ``start`` is text that stands there already (an opening mark). A path that cannot be followed
    counts for an option where it spells it whole, as if it ended there.
    """
    masses: dict[str, float] = {}
    unfollowed, looks = 0.0, 0
    waiting: list[tuple[float, Path, str]] = [(-1.0, (), start)]
    while waiting:
        negative, path, text = heapq.heappop(waiting)
        share = -negative
        if share < LEAST or looks >= MOST_LOOKS:
            unfollowed += share
            continue
        children = expand(path)
        looks += 1
        if children is None:
            state, letter = beginnings.read(text, ended=True)
            if state == SAID:
                masses[letter] = masses.get(letter, 0.0) + share
            else:
                unfollowed += share
            continue
        rest = share
        for child in children:
            part = share * child.probability
            rest -= part
            whole = text if child.ends else text + child.text
            state, letter = beginnings.read(whole, ended=child.ends)
            if state == SAID:
                masses[letter] = masses.get(letter, 0.0) + part
            elif state == OPEN and part > 0:
                heapq.heappush(waiting, (-part, (*path, child.token), whole))
        unfollowed += max(0.0, rest)
    return Spread(masses, unfollowed, looks)


# ------------------------------------------------------------------------------- where it begins


class Place(NamedTuple):
    """Where an answer begins in a text: from ``start`` to ``option`` stand opening marks."""

    start: int
    option: int
    problem: str = ""


NOT_AT_ONCE = (
    "the text does not begin with an option, so there is no one place where it was chosen; samples "
    "(samples:N) can tell"
)


def place(text: str, beginnings: Beginnings, *, opened: bool = False) -> Place:
    """Return where the answer begins: after thoughts, and after words such as ``The answer is``.

    ``opened`` tells that the prompt itself opens a thought.
    """
    at = 0
    for opening, closing in _THOUGHTS:
        closed = text.rfind(closing)
        if text.rfind(opening) > closed or (opened and opening == "<think>" and closed < 0):
            return Place(0, 0, "the thought never ends: there is no answer")
        at = max(at, closed + len(closing) if closed >= 0 else 0)
    at = max([at, *(final.end() for final in _FINAL.finditer(text, at))])
    for start in _starts(text, at):
        option = start + len(text[start:]) - len(text[start:].lstrip(_OPENING))
        if beginnings.read(text[option:], ended=True)[0] == SAID:
            return Place(start, option)
    return Place(0, 0, NOT_AT_ONCE)


def _starts(text: str, at: int) -> Iterator[int]:
    yield at
    lead = _LEAD.match(text, at + len(text[at:]) - len(text[at:].lstrip(_OPENING)))
    if lead is not None:
        yield lead.end()


# -------------------------------------------------------------------------------- with a model


class Following:
    """The next tokens after a prompt and some more, by a local model.

    The prompt is read once; its keys and values are copied for each path, so that nothing of one
    stays in the next. Temperature, penalties and any other way to draw play no part.
    """

    def __init__(
        self,
        torch: Any,
        model: Any,
        inputs: Mapping[str, Any],
        more: Sequence[int],
        text_of: Callable[[int], str],
        ends: set[int],
    ) -> None:
        self._torch, self._model = torch, model
        self._text_of, self._ends = text_of, ends
        known = inspect.signature(model.forward).parameters
        # From 5.24 on transformers calls keys and values of the past a cache.
        self._past = "cache" if "cache" in known else "past_key_values"
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self._counts = "cache_position" in known
        self._inputs = _lengthened(torch, inputs, more)
        self._cache: Any = None
        self._found: dict[Path, list[Child]] = {}

    def __call__(self, path: Path) -> list[Child]:
        """Return the likeliest next tokens after a path, the likeliest first."""
        if () not in self._found:
            _forget_positions(self._model)
            out = self._model(**self._inputs, **self._last, use_cache=True, return_dict=True)
            self._cache = getattr(out, self._past)
            self._found[()] = self._children(out.logits)
        if path not in self._found:
            self._found[path] = self._children(self._after(path))
        return self._found[path]

    def _children(self, logits: Any) -> list[Child]:
        torch = self._torch
        probabilities = torch.softmax(logits[0, -1].float(), dim=-1)
        top = torch.topk(probabilities, min(FOLLOWED_TOKENS, probabilities.shape[-1]))
        tokens, found = top.indices.tolist(), []
        for rank, share in enumerate(top.values.tolist()):
            if share <= 0:
                break
            token = tokens[rank]
            found.append(Child(token, self._text_of(token), share, token in self._ends))
        return found

    def _after(self, path: Path) -> Any:
        # No mask: nothing is padded, and some models take its length for that of the new tokens.
        ids = self._inputs["input_ids"]
        tokens = self._torch.tensor([path], dtype=ids.dtype, device=ids.device)
        counts: dict[str, Any] = {}
        if self._counts:  # transformers 4 places new tokens by it
            start = ids.shape[1]
            counts["cache_position"] = self._torch.arange(
                start, start + len(path), device=ids.device
            )
        out = self._model(
            input_ids=tokens,
            use_cache=True,
            return_dict=True,
            **{self._past: copy.deepcopy(self._cache)},
            **self._last,
            **counts,
        )
        return out.logits


def _forget_positions(model: Any) -> None:
    """Make a model of the Qwen kind forget where the pictures of the question before lay."""
    for part in filter(None, (model, getattr(model, "model", None))):
        if getattr(part, "rope_deltas", None) is not None:
            part.rope_deltas = None


def _lengthened(torch: Any, inputs: Mapping[str, Any], more: Sequence[int]) -> dict[str, Any]:
    """Return inputs with more tokens at the end; what tells of each token says text of them."""
    made = dict(inputs)
    ids = made["input_ids"]
    if not more:
        return made
    tokens = torch.tensor([list(more)], dtype=ids.dtype, device=ids.device)
    for name, value in inputs.items():
        if getattr(value, "shape", ())[:2] == ids.shape:
            fill = torch.zeros_like(tokens, dtype=value.dtype)
            if name == "input_ids":
                fill = tokens
            elif name == "attention_mask":
                fill = fill + 1
            made[name] = torch.cat([value, fill], dim=1)
    return made


def prefix_of(tokens: Sequence[int], decode: Callable[[Sequence[int]], str], where: Place) -> int:
    """Return how many tokens stand before the place where an answer begins.

    Raises
    ------
    ValueError
        Where one token holds both what leads to the answer and its beginning.
    """
    for count in range(len(tokens) + 1):
        length = len(decode(tokens[:count]))
        if length > where.option:
            break
        if length >= where.start:
            return count
    raise ValueError("one token holds the end of the lead and the option")


_UNLIKE = 0.1
"""The best token may be so much likelier than the one that was written: numbers differ a little
between a whole prompt and one token after the other."""


def fits(following: Callable[[Path], Sequence[Child]], written: Sequence[int]) -> bool:
    """Return whether a model that takes the likeliest token would have written these two.

    The prompt was read anew, and a token put after it in another way than ``generate`` does: a
    model that places it wrongly gives numbers that look as good.
    """
    for count, token in enumerate(written[:2]):
        children = following(tuple(written[:count]))
        mine = next((c.probability for c in children if c.token == token), 0.0)
        if children[0].probability - mine > _UNLIKE:
            return False
    return True


class Stopped(Exception):
    """Nobody waits for the odds any more."""


def odds_of(
    torch: Any,
    model: Any,
    tokenizer: Any,
    inputs: Mapping[str, Any],
    tokens: Sequence[int],
    written: Mapping[str, Sequence[str]],
    ends: set[int],
    texts: Callable[[int], str],
    stopped: Callable[[], bool],
    *,
    greedy: bool,
) -> dict[str, Any]:
    """Return the masses of the options where an answer of ``tokens`` begins, as JSON data.

    ``problem`` says why there are none: an answer is never lost for want of its odds.

    ``greedy`` tells that each token was the likeliest one, which is then checked.

    Raises
    ------
    Stopped
        When ``stopped`` says so between two steps.
    """

    def decode(some: Sequence[int]) -> str:
        return str(
            tokenizer.decode(some, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    beginnings = Beginnings(written)
    tail = decode(inputs["input_ids"][0, -8:].tolist()).rstrip()
    where = place(decode(tokens), beginnings, opened=tail.endswith("<think>"))
    if where.problem:
        return {"problem": where.problem}
    try:
        count = prefix_of(tokens, decode, where)
        following = Following(torch, model, inputs, tokens[:count], texts, ends)

        def expand(path: Path) -> list[Child]:
            if stopped():
                raise Stopped
            return following(path)

        if greedy and not fits(expand, tokens[count:]):
            return {"problem": "read anew, the model would have written something else"}
        found = spread(beginnings, expand)
    except (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        logger.exception("no odds")
        told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return {"problem": f"the model's probabilities could not be read ({told})"}
    said = beginnings.read(decode(tokens)[where.option :], ended=True)[1]
    return {
        "masses": found.masses,
        "unfollowed": found.unfollowed,
        "said": said,
        "looks": found.looks,
    }
