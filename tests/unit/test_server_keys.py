"""Keys reach their own server and nothing else."""

import logging
import sys
import types

import pytest
from fake_server import delta, error, event, finished, raw, serving, words
from test_server import alone, events_of, plain_way, question  # noqa: F401

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Failed, FailureKind
from napari_ctvqa.runners.server_keys import keep_key, key_of, variable_of
from napari_ctvqa.runners.server_listing import models_of

SECRET = "sk-lab-0123456789abcdef"
LAST = event(finished("tool_calls"))


def test_the_key_goes_into_the_header_of_each_request(monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_API_KEY", f" {SECRET}\n")
    with serving(words("Left"), error(200, {"data": []})) as server:
        events_of(plain_way(server.url, "m"))
        models_of(server.url)
    assert [r.headers["authorization"] for r in server.received] == [f"Bearer {SECRET}"] * 2


def test_without_a_key_none_is_sent():
    with serving(words("Left")) as server:
        events_of(plain_way(server.url, "m"))
    assert "authorization" not in server.received[0].headers


def test_a_providers_key_goes_to_that_provider_alone(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, f"{name}-secret")
    assert key_of("api.openai.com").secret == "OPENAI_API_KEY-secret"
    assert key_of("api.anthropic.com").secret == "ANTHROPIC_API_KEY-secret"
    assert key_of("generativelanguage.googleapis.com").secret == "GEMINI_API_KEY-secret"
    for host in ("gpu7", "127.0.0.1", "api.openai.com.evil.com", "openai.com"):
        assert key_of(host).secret == ""
        assert variable_of(host) == "NAPARI_CTVQA_API_KEY"


@pytest.fixture
def keyring(monkeypatch):
    """A system keyring of a dictionary."""
    kept = {}
    module, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})

    def set_password(service, host, secret):
        if host == "locked":
            raise errors.KeyringError(f"locked, {secret} not kept")
        kept[service, host] = secret

    def get_password(service, host):
        if host == "locked":
            raise errors.KeyringError("locked")
        return kept.get((service, host))

    module.set_password, module.get_password, module.errors = set_password, get_password, errors
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return kept


def test_the_keyring_keeps_a_key_by_host(keyring):
    keep_key("gpu7", f" {SECRET} ")
    assert key_of("gpu7").secret == SECRET
    assert key_of("gpu8").secret == ""
    assert key_of("locked").secret == ""
    with pytest.raises(CtvqaError) as caught:
        keep_key("locked", SECRET)
    assert SECRET not in str(caught.value)


def test_without_the_package_the_next_step_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert key_of("gpu7").secret == ""
    with pytest.raises(CtvqaError, match="pip install keyring") as caught:
        keep_key("gpu7", SECRET)
    assert SECRET not in str(caught.value)


def test_the_key_is_in_no_event_no_log_and_no_file(monkeypatch, caplog, tmp_path):
    """The server repeats it wherever it can."""
    monkeypatch.setenv("NAPARI_CTVQA_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {SECRET}"
    call = {"index": 0, "function": {"name": SECRET, "arguments": f'{{"a": "{SECRET}"}}'}}
    replies = [
        error(401, {"error": {"message": echo}}),
        error(500, echo),
        error(400, {"message": f"unknown field top_k for {SECRET}"}),
        words(f"Your key is {SECRET}."),
        raw(200, "text/event-stream", event(delta(content=echo)), event({"error": echo})),
        raw(200, "text/event-stream", event(delta(content=echo))),
        raw(200, "text/event-stream", event(delta(reasoning=echo, tool_calls=[call])), LAST),
        raw(200, "text/event-stream", event(echo), event(finished())),
    ]
    said = []
    with serving(*replies) as server:
        way = plain_way(server.url, "m")
        for _ in replies:
            said += events_of(way)
        said += [way, vars(way), key_of("127.0.0.1")]
    assert len(server.received) == len(replies)
    assert SECRET not in repr(said)
    assert SECRET not in caplog.text
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert not [f for f in files if SECRET in f.read_text()]


@pytest.mark.parametrize("secret", ["two words-0123", "schlüssel-0123", "line\nbreak-0123"])
def test_a_key_that_cannot_be_one_is_named_by_its_place(monkeypatch, secret):
    monkeypatch.setenv("NAPARI_CTVQA_API_KEY", secret)
    with serving(words("Left")) as server:
        (failed,) = events_of(plain_way(server.url, "m"))
        assert server.received == []
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.AUTH
    assert "NAPARI_CTVQA_API_KEY" in failed.message
    assert secret not in repr(failed)


def test_a_placeholder_is_sent_and_is_an_ordinary_word(monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_API_KEY", "EMPTY")
    with serving(words("The bladder is EMPTY.")) as server:
        assert events_of(plain_way(server.url, "m"), question())[-1] == Done(
            "The bladder is EMPTY."
        )
