"""MIS-SemSam: tokens that mean the same are counted together when the next one is chosen.

After "Medical Image Spatial Grounding with Semantic Sampling" (arXiv 2603.14579): of the usual
candidates (the likeliest M, of these the fewest with the mass p) each is scored by the probability
of its K nearest neighbours in the space of token embeddings,

    Score(c) = sum over k of max(0, cosine(c, k)) * probability(k),

where neighbours are content tokens alone; where a candidate is none, the step is an ordinary one.
No training and no further step of the model: keys and values are kept as ever.

Not known from the source, and assumed here: the values of K, M and p; that a token is its own
nearest neighbour, with weight 1 (so K = 1 is ordinary decoding among the candidates); that
probabilities are those over all tokens, after temperature and penalties; what a content token is
(``is_content``); and that drawing is in proportion to the scores.

Imports the standard library alone; torch is handed in by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "semsam"
DEFAULT_K, DEFAULT_M, DEFAULT_P = 8, 10, 0.9
"""Assumed, all three."""
MOST = 1000
_ROWS = 16_384
"""Of the embeddings, so many are compared at once: a copy of all would double them."""
_ANCHOR = "the"
_FUNCTION = """
a an the this that these those of in on at to for from by with as and or but if so is are was were
be been being am do does did has have had it its he she they them their his her we you i my our
your which who whom what there here than then can could will would shall should may might must
"""
_FUNCTION_WORDS = frozenset(_FUNCTION.split())


@dataclass(frozen=True)
class Settings:
    """K neighbours; candidates are the likeliest M tokens, of these the fewest with the mass p."""

    k: int = DEFAULT_K
    m: int = DEFAULT_M
    p: float = DEFAULT_P

    @property
    def text(self) -> str:
        """Return it as it is written; ``settings`` reads it."""
        return f"{NAME}:K={self.k},M={self.m},p={self.p:g}"


def settings(text: str) -> Settings:
    """Return what a text such as ``semsam:K=8,M=10,p=0.9`` asks for; what it leaves out is ours.

    Raises
    ------
    ValueError
        With a sentence on what was expected.
    """
    name, _, rest = text.strip().partition(":")
    if name.lower() != NAME:
        raise ValueError(f"{text[:80]!r} is no way to decode; there is {NAME}[:K=8,M=10,p=0.9]")
    given = {}
    for part in filter(None, rest.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in ("K", "M", "p") or key in given:
            raise ValueError(f"{part[:80]!r} in {text[:80]!r}: expected K=, M= and p=, each once")
        given[key] = value
    try:
        k, m = int(given.get("K", DEFAULT_K)), int(given.get("M", DEFAULT_M))
        p = float(given.get("p", DEFAULT_P))
    except ValueError:
        raise ValueError(f"K and M in {text[:80]!r} are whole numbers, p is a number") from None
    if not (1 <= k <= MOST and 1 <= m <= MOST and 0 < p <= 1):
        raise ValueError(f"{text[:80]!r}: K and M lie from 1 to {MOST}, p above 0 and up to 1")
    return Settings(k, m, p)


def is_content(text: str) -> bool:
    """Return whether a token's text carries meaning: two letters or more, no function word.

    Marks, numbers, single letters (those of options, too), pieces of a letter and the tokens that
    steer a conversation are none.
    """
    word = text.strip().casefold()
    return len(word) > 1 and word.isalpha() and word not in _FUNCTION_WORDS


class TokenTexts:
    """The text of single tokens, as they stand within an answer: with the blank before a word."""

    def __init__(self, decode: Callable[[Sequence[int]], str], anchor: Sequence[int]) -> None:
        self._decode = decode
        self._anchor = list(anchor)
        self._before = decode(self._anchor)
        self._known: dict[int, str] = {}

    def __call__(self, token: int) -> str:
        """Return the text of a token."""
        if token not in self._known:
            whole = self._decode([*self._anchor, token])
            self._known[token] = whole[len(self._before) :]
        return self._known[token]


def token_texts(tokenizer: Any) -> TokenTexts:
    """Return the texts of a tokenizer's tokens."""

    def decode(tokens: Sequence[int]) -> str:
        return str(
            tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    return TokenTexts(decode, tokenizer(_ANCHOR, add_special_tokens=False)["input_ids"])


class Neighbours:
    """The nearest content tokens of a content token, by the cosine of their embeddings.

    They are worked out when a token is first a candidate, and kept: a table of all would compare
    every token with every other.
    """

    def __init__(self, torch: Any, embeddings: Any, texts: TokenTexts, tokens: int) -> None:
        self._torch, self._embeddings = torch, embeddings
        count = min(tokens, int(embeddings.shape[0]))
        content = [token for token in range(count) if is_content(texts(token))]
        self.content = frozenset(content)
        self._ids = torch.tensor(content, dtype=torch.long, device=embeddings.device)
        self._lengths = torch.cat(
            [rows.norm(dim=1).clamp_min(1e-12) for rows in self._rows()]
            or [torch.zeros(0, device=embeddings.device)]
        )
        self._known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def _rows(self) -> Iterator[Any]:
        for start in range(0, len(self._ids), _ROWS):
            yield self._embeddings[self._ids[start : start + _ROWS]].float()

    def of(self, token: int, k: int) -> tuple[Any, Any]:
        """Return the K nearest content tokens and their weights, the token itself first."""
        self.learn([token], k)
        return self._known[token, k]

    def learn(self, tokens: Sequence[int], k: int) -> None:
        """Look up several content tokens at once: the embeddings are gone through one time."""
        new = [token for token in tokens if (token, k) not in self._known]
        if not new:
            return
        mine = self._embeddings[new].float()
        mine = mine / mine.norm(dim=1, keepdim=True).clamp_min(1e-12)
        cosines = self._torch.cat([rows @ mine.T for rows in self._rows()])
        cosines = cosines / self._lengths[:, None]
        for column, token in enumerate(new):
            self._known[token, k] = self._nearest(token, cosines[:, column], k)

    def _nearest(self, token: int, cosines: Any, k: int) -> tuple[Any, Any]:
        torch = self._torch
        cosines = torch.where(self._ids == token, torch.full_like(cosines, -2.0), cosines)
        nearest = torch.topk(cosines, min(k, len(self._ids)) - 1)
        own = torch.tensor([token], dtype=torch.long, device=self._ids.device)
        weights = torch.cat([nearest.values.new_ones(1), nearest.values])
        return torch.cat([own, self._ids[nearest.indices]]), weights.clamp_min(0.0)


class SemanticSampling:
    """What ``generate`` asks after each step: the scores by which the next token is chosen.

    Parameters
    ----------
    neighbours
        Of the model that answers.
    wanted
        K, M and p.
    temperature
        0 to take the best score; above it tokens are drawn, and the caller lets ``generate`` draw
        without temperature, top-k and top-p of its own.
    """

    def __init__(
        self, torch: Any, neighbours: Neighbours, wanted: Settings, temperature: float
    ) -> None:
        self._torch, self._neighbours, self._wanted = torch, neighbours, wanted
        self._temperature = temperature
        self.steps = self.scored = self.changed = 0

    @property
    def draws(self) -> bool:
        """Return whether tokens are drawn."""
        return self._temperature > 0

    def __call__(self, tokens: Any, scores: Any) -> Any:
        """Return the scores (logits, one row a sequence) that take the place of the model's."""
        del tokens
        return self._torch.stack([self._row(row) for row in scores])

    def _row(self, logits: Any) -> Any:
        torch = self._torch
        logits = logits.float() / self._temperature if self.draws else logits.float()
        probabilities = torch.softmax(logits, dim=-1)
        candidates = self._candidates(probabilities)
        self.steps += 1
        chosen = probabilities[candidates]
        if all(token in self._neighbours.content for token in candidates.tolist()):
            self._neighbours.learn(candidates.tolist(), self._wanted.k)
            chosen = torch.stack([self._score(int(c), probabilities) for c in candidates])
            self.scored += 1
            self.changed += int(chosen.argmax()) != 0
        made = torch.full_like(probabilities, float("-inf"))
        made[candidates] = chosen.log()
        return made

    def _candidates(self, probabilities: Any) -> Any:
        """Return the likeliest M tokens, of these the fewest that hold p of their mass."""
        top = self._torch.topk(probabilities, min(self._wanted.m, probabilities.shape[-1]))
        share = top.values / top.values.sum()
        before = share.cumsum(dim=-1) - share
        return top.indices[before < self._wanted.p]

    def _score(self, candidate: int, probabilities: Any) -> Any:
        nearest, weights = self._neighbours.of(candidate, self._wanted.k)
        device = probabilities.device
        return (weights.to(device) * probabilities[nearest.to(device)]).sum()

    @property
    def told(self) -> str:
        """Return what it did, for people."""
        return (
            f"MIS-SemSam scored {self.scored} of {self.steps} tokens by meaning; "
            f"{self.changed} were not the likeliest"
        )
