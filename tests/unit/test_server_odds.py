"""Odds of options from the tokens that a server tells: positions, pieces, what is not told."""

import math

import pytest
from fake_server import DONE, delta, error, event, finished, raw, serving
from test_server import alone, events_of, plain_way, question  # noqa: F401

from napari_ctvqa.core.asking import Sampling
from napari_ctvqa.core.events import Done, Failed, Odds
from napari_ctvqa.runners import _chat_odds
from napari_ctvqa.runners._chat_odds import NONE_TOLD
from napari_ctvqa.runners.server import ServerWay
from napari_ctvqa.runners.server_profile import stored_profile
from napari_ctvqa.runners.worker_odds import NOT_AT_ONCE

WRITTEN = {"A": ("A", "Left"), "B": ("B", "Right"), "C": ("C", "None"), "D": ("D", "Both")}


def token(text, share, **more):
    return {"token": text, "logprob": math.log(share), "bytes": list(text.encode()), **more}


def step(text, **likely):
    """One written token; ``likely`` lists the tokens told at its place, spaces as underscores."""
    listed = [token(name.replace("_", " "), share) for name, share in likely.items()]
    own = next(share for name, share in likely.items() if name.replace("_", " ") == text)
    return token(text, own, top_logprobs=listed)


def answer(*steps, texts=None):
    texts = texts or [one["token"] for one in steps]
    pieces = [
        event(
            {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": [one]}}]}
        )
        for one, text in zip(steps, texts, strict=True)
    ]
    return raw(200, "text/event-stream", *pieces, event(finished()), DONE)


def odds_of(*steps, written=WRITTEN, texts=None):
    with serving(answer(*steps, texts=texts)) as server:
        events = events_of(plain_way(server.url, "m"), question(written=written))
    assert isinstance(events[-1], Done), events[-1]
    (found,) = [one for one in events if isinstance(one, Odds)]
    return found, server.last


def test_all_tokens_of_a_letter_count_and_others_are_bounded():
    told = step("A", A=0.5, _A=0.2, B=0.1, Left=0.05, The=0.05)
    found, body = odds_of(told, step(".", **{".": 0.9, "bdomen": 0.04}))
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    # "A" was followed: 0.9 of it ends with a full stop, 0.04 goes on as another word.
    assert found.masses == pytest.approx({"A": 0.5 * 0.9 + 0.2 + 0.05, "B": 0.1})
    # Not told: 0.1 at the first place, 0.06 of the second. C and D lie in it, or nowhere.
    assert found.unfollowed == pytest.approx(0.1 + 0.5 * 0.06)
    assert (found.source, found.said, found.problem) == ("logprobs", "A", "")


def test_the_letter_is_looked_for_where_it_stands():
    words = ("The", " answer", " is")
    lead = [step(word, **{word.replace(" ", "_"): 0.9, "B": 0.1}) for word in words]
    found, _ = odds_of(*lead, step(" C", _C=0.7, _A=0.25), step(".", **{".": 1.0}))
    assert found.masses == pytest.approx({"C": 0.7, "A": 0.25})
    assert found.unfollowed == pytest.approx(0.05)


def test_a_letter_in_several_tokens():
    found, _ = odds_of(
        step("(", **{"(": 0.8, "B": 0.15}), step("A", A=0.5, C=0.4), step(")", **{")": 1.0})
    )
    assert found.masses == pytest.approx({"A": 0.4, "C": 0.32, "B": 0.15})


def test_a_word_in_pieces_and_another_that_cannot_be_followed():
    found, _ = odds_of(
        step("Le", Le=0.6, Ri=0.3), step("ft", ft=1.0), written={"A": ("Left",), "B": ("Right",)}
    )
    assert found.masses == pytest.approx({"A": 0.6})
    assert found.unfollowed == pytest.approx(0.3 + 0.1)  # "Ri…" may be Right


def test_thoughts_are_passed_over_and_so_are_those_that_come_apart():
    thought = [step(text, **{text: 1.0}) for text in ("<think>", "A", "</think>", "\n")]
    letter = step("B", B=0.7, A=0.3)
    found, _ = odds_of(*thought, letter)
    assert found.masses == pytest.approx({"B": 0.7, "A": 0.3})
    apart, _ = odds_of(*thought, letter, texts=["", "", "", "", "B"])
    assert apart.masses == found.masses


def test_the_token_that_was_drawn_counts_though_it_is_none_of_the_likeliest():
    drawn = token("D", 0.01, top_logprobs=[token("A", 0.6), token("B", 0.3)])
    found, _ = odds_of(drawn)
    assert found.masses == pytest.approx({"D": 0.01, "A": 0.6, "B": 0.3})


def test_an_end_token_ends_and_a_token_that_is_told_twice_counts_once():
    found, _ = odds_of(
        step("A", A=0.6, B=0.3), step("</s>", **{"</s>": 0.95, "bc": 0.05}),
        texts=["A", ""],
    )  # fmt: skip
    assert found.masses == pytest.approx({"A": 0.57, "B": 0.3})
    twice = token("A", 0.6, top_logprobs=[token("A", 0.6), token("A", 0.6), token("B", 0.2)])
    assert odds_of(twice)[0].masses == pytest.approx({"A": 0.6, "B": 0.2})


def test_letters_of_several_bytes_are_joined_by_their_bytes():
    half, rest = "é".encode()[:1], "é".encode()[1:]
    steps = [
        {"token": "bytes:\\xc3", "bytes": list(half), "logprob": 0.0, "top_logprobs": []},
        {"token": "bytes:\\xa9", "bytes": list(rest), "logprob": 0.0, "top_logprobs": []},
        step("A", A=0.9),
    ]
    found, _ = odds_of(*steps, texts=["é", "", "A"])
    assert found.problem == NOT_AT_ONCE
    found, _ = odds_of(*steps, texts=["é", "", "A"], written={"A": ("éA",), "B": ("B",)})
    assert found.said == "A" and found.problem == ""


def test_tokens_that_are_not_those_of_the_answer_tell_nothing():
    found, _ = odds_of(step("B", B=1.0), texts=["A"])
    assert "not those of its answer" in found.problem


@pytest.mark.parametrize(
    "told",
    [None, 3, "x", [], {}, {"content": None}, {"content": "A"}, {"content": [None, 3, {}]},
     {"content": [{"token": 3, "logprob": 0}]}, {"content": [{"token": "A", "logprob": "0"}]},
     {"content": [{"token": "A", "logprob": float("nan")}]},
     {"content": [{"token": "A", "logprob": 7}]},
     {"content": [{"token": "A", "logprob": -1, "top_logprobs": {"A": 1}}]},
     {"content": [{"token": "A", "logprob": -1, "top_logprobs": [{"token": "A"}]}]}],
)  # fmt: skip
def test_what_is_no_probability_costs_no_answer(told):
    piece = {"choices": [{"index": 0, "delta": {"content": "A"}, "logprobs": told}]}
    reply = raw(200, "text/event-stream", event(piece), event(finished()), DONE)
    with serving(reply) as server:
        events = events_of(plain_way(server.url, "m"), question(written=WRITTEN))
    assert events[-1] == Done("A")
    assert [e.problem for e in events if isinstance(e, Odds)] == [NONE_TOLD]


def test_no_more_tokens_are_kept_than_any_answer_needs(monkeypatch):
    monkeypatch.setattr("napari_ctvqa.runners._chat_answer.MOST_TOKENS", 2)
    found, _ = odds_of(step("A", A=0.5, B=0.5), *[step(".", **{".": 1.0})] * 5)
    assert "not those" in found.problem


def test_nothing_is_asked_for_where_nothing_is_wanted():
    with serving(answer(step("A", A=1.0))) as server:
        events = events_of(plain_way(server.url, "m"))
    assert "logprobs" not in server.last
    assert not [one for one in events if isinstance(one, Odds)]


# What is learned of a server ------------------------------------------------------------------


class Telling:
    """A server that tells tokens, or refuses or ignores the wish; its answers are A."""

    def __init__(self, how):
        self.how = how

    def __call__(self, received, connection):
        self.reply(received)(received, connection)

    def reply(self, received):
        if received.method == "GET":
            return error(200, {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]})
        wanted = "logprobs" in received.body
        if wanted and self.how == "too many":
            return error(400, {"message": "Requested sample logprobs of 20, max allowed: 5"})
        if wanted and self.how == "unknown field":
            return error(422, {"detail": [{"loc": ["body", "logprobs"], "msg": "Extra inputs"}]})
        if wanted and self.how == "breaks":
            return error(500, "no such thing")
        if wanted and self.how == "tells":
            return answer(step("A", A=0.8, B=0.2))
        return raw(200, "text/event-stream", event(delta(content="A")), event(finished()), DONE)


def asked_twice(how):
    with serving(Telling(how)) as server:
        way = ServerWay(server.url, "m")
        both = [events_of(way, question(written=WRITTEN)) for _ in range(2)]
    assert all(events[-1] == Done("A") for events in both)
    found = [[one for one in events if isinstance(one, Odds)] for events in both]
    assert [len(one) for one in found] == [1, 1]
    return way, [one[0] for one in found], [r.body for r in server.received if r.method == "POST"]


def test_a_server_that_tells_is_probed_once_and_remembered():
    way, found, bodies = asked_twice("tells")
    assert [one.masses for one in found] == [pytest.approx({"A": 0.8, "B": 0.2})] * 2
    assert len(bodies) == 3 and all(body["logprobs"] is True for body in bodies)
    assert stored_profile(way.url, "m").logprobs is True
    assert "tells how likely tokens were" in way.profile.said


@pytest.mark.parametrize("how", ["ignores", "too many", "unknown field", "breaks"])
def test_a_server_that_does_not_tell_still_answers(how):
    way, found, bodies = asked_twice(how)
    assert [one.problem for one in found] == [NONE_TOLD] * 2
    assert not any("logprobs" in body or "top_logprobs" in body for body in bodies[-2:])
    assert stored_profile(way.url, "m").logprobs is False
    assert "tells no token's probability" in way.profile.said


def test_a_probe_that_cannot_reach_the_server_ends_the_question():
    with serving(Telling("tells")) as server:
        way = ServerWay(server.url, "m")
    last = events_of(way, question(written=WRITTEN))[-1]
    assert isinstance(last, Failed)
    assert stored_profile(way.url, "m").logprobs is None


def test_probabilities_are_the_model_s_own_whatever_is_drawn():
    """A request's temperature goes to the server; what it tells is taken as it is."""
    with serving(answer(step("A", A=0.8, B=0.2))) as server:
        asked = question(written=WRITTEN, sampling=Sampling(temperature=0.9))
        (found,) = [e for e in events_of(plain_way(server.url, "m"), asked) if isinstance(e, Odds)]
    assert server.last["temperature"] == 0.9
    assert found.masses == pytest.approx({"A": 0.8, "B": 0.2})
    assert _chat_odds.FIELDS["top_logprobs"] == 20


def test_a_number_that_no_float_holds_costs_no_answer():
    told = {"token": "A", "logprob": -(10**400), "top_logprobs": [token("A", 0.9), token("B", 0.1)]}
    found, _ = odds_of(told)
    assert found.problem == "" and found.masses == pytest.approx({"B": 0.1})


def test_probabilities_that_add_up_to_three_are_none():
    told = step("A", A=1.0, B=1.0, C=1.0)
    assert odds_of(told)[0] == Odds("logprobs", problem=_chat_odds.TOO_MUCH_TOLD)
    rounded = odds_of(step("A", A=0.5, B=0.3, C=0.2, D=0.02))[0]
    assert rounded.problem == "" and set(rounded.masses) == set("ABCD")
