"""Server addresses, which of them are this machine, and who confirmed the others."""

import socket
import threading

import pytest
from fake_server import error, raw, serving, words
from test_server import alone, end_of, picture, plain_way, question  # noqa: F401

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, FailureKind
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.server_listing import ServerError, models_of


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("gpu7", "http://gpu7/v1"),
        (" GPU7:8000 ", "http://gpu7:8000/v1"),
        ("http://gpu7:8000/", "http://gpu7:8000/v1"),
        ("http://gpu7:8000/v1/chat/completions", "http://gpu7:8000/v1"),
        ("https://gpu7/lab/openai/v1/models", "https://gpu7/lab/openai/v1"),
        ("[::1]:8000", "http://[::1]:8000/v1"),
        ("api.openai.com", "https://api.openai.com/v1"),
        ("http://api.openai.com/v1", "https://api.openai.com/v1"),
        (
            "generativelanguage.googleapis.com",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
    ],
)
def test_an_address_is_made_whole(text, url):
    assert hosts.base_url(text) == url
    assert hosts.base_url(url) == url


@pytest.mark.parametrize(
    "text",
    [
        *("", "http://", "ftp://gpu7/", "file:///etc/passwd", "http://gpu7:99999", "http://gpu7:x"),
        *(
            "http://１２７.0.0.1",
            "http://a?key=s3cret",
            "http://me:s3cret@gpu7",
            "http://gpu7/#s3cret",
        ),
        *("http://localhost@evil.com", "http://localhost\\@evil.com", "\x00", "http://[::1"),
    ],
)
def test_what_is_no_address_is_refused_and_no_key_in_it_is_repeated(text):
    with pytest.raises(hosts.AddressError) as caught:
        hosts.base_url(text)
    assert "s3cret" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
)
def test_this_machine_is_recognised(host):
    assert hosts.is_loopback(host)
    assert hosts.is_allowed(host)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.com", "evil.localhost", "localhost.", "127.0.0.1.evil.com", "127.1"),
        *("2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "::", "128.0.0.1", "10.0.0.1"),
        *("::2", "::ffff:10.0.0.1", "fe80::1", "", "localhost%00.evil.com", "127.0.0.1%2eevil.com"),
    ],
)
def test_other_names_are_other_machines(host):
    assert not hosts.is_loopback(host)
    assert not hosts.is_allowed(host)


def test_an_address_is_judged_by_the_host_that_is_connected_to():
    for url in ("http://127.0.0.1%2eevil.com", "http://localhost.evil.com", "http://127.1:80"):
        assert not hosts.is_loopback(hosts.host_of(url))


def test_a_confirmation_is_kept_for_that_host_and_can_be_taken_back():
    hosts.confirm("GPU7")
    assert hosts.is_allowed("gpu7")
    assert not hosts.is_allowed("gpu8")
    assert not hosts.is_allowed("evil.gpu7")
    hosts.confirm("gpu8")
    assert hosts.confirmed() == ("gpu7", "gpu8")
    hosts.forget("gpu7")
    assert hosts.confirmed() == ("gpu8",)


def test_a_confirmation_that_cannot_be_kept_is_an_error(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(file))
    with pytest.raises(CtvqaError, match="cannot be kept"):
        hosts.confirm("gpu7")
    assert not hosts.is_allowed("gpu7")


@pytest.fixture
def names(monkeypatch):
    """Names that lead to loopback addresses, so that a test can be another host."""
    led = {}
    asked = socket.getaddrinfo

    def found(host, *rest, **more):
        name = host.decode() if isinstance(host, bytes) else host
        return asked(led.get(name, host), *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return led


def test_nothing_goes_to_a_host_that_was_not_confirmed(names):
    names["gpu7.lab.example"] = "127.0.0.1"
    with serving(words("Left")) as server:
        way = plain_way(f"http://gpu7.lab.example:{server.port}", "m")
        failed = end_of(way, question(picture()))
        assert failed.kind is FailureKind.NOT_CONFIRMED
        assert "gpu7.lab.example" in failed.message
        with pytest.raises(ServerError, match=r"gpu7\.lab\.example"):
            models_of(way.url)
        assert server.received == []
        hosts.confirm("gpu7.lab.example")
        assert end_of(way, question(picture())) == Done("Left")


def test_a_loopback_name_that_leads_elsewhere_gets_nothing(monkeypatch):
    """The address of the peer is looked at after connecting: this one only plays another."""
    from napari_ctvqa.runners import _exchange

    monkeypatch.setattr(_exchange, "is_loopback", lambda host: host == "localhost")
    with serving(words("Left")) as server:
        failed = end_of(plain_way(f"http://localhost:{server.port}", "m"), question(picture()))
        assert server.received == []
    assert failed.kind is FailureKind.NOT_CONFIRMED
    assert "127.0.0.1" in failed.message


def test_a_redirection_to_another_host_is_not_followed():
    with serving(words("Left")) as other:
        away = raw(308, "text/plain", headers=f"location: {other.url}/chat/completions\r\n")
        with serving(away) as server:
            failed = end_of(plain_way(server.url, "m"), question(picture()))
        assert other.received == []
    assert failed.kind is FailureKind.NOT_A_SERVER


def test_a_proxy_of_the_environment_gets_nothing_meant_for_this_machine(monkeypatch):
    with serving(error(500, "proxy")) as proxy, serving(words("Left")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert end_of(plain_way(server.url, "m")) == Done("Left")
        assert proxy.received == []


def test_a_proxy_that_needs_a_package_is_said_so(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    hosts.confirm("gpu7.lab.example")
    failed = end_of(plain_way("gpu7.lab.example", "m"))
    if failed.kind is not FailureKind.UNREACHABLE:  # where the package is installed
        assert failed.kind is FailureKind.MISSING_LIBRARY
        assert "httpx[socks]" in failed.hint


def test_a_confirmation_in_one_thread_is_seen_by_another():
    thread = threading.Thread(target=hosts.confirm, args=("gpu7",))
    thread.start()
    thread.join()
    assert hosts.is_allowed("gpu7")
