"""The web as it is deployed: gunicorn with its file of settings, and proxies in front of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
import requests
from django.http import HttpRequest, HttpResponse

from crawlservice.accounts.proxies import ClientAddress
from tests.conftest import CHECKOUT
from tests.servers import served


@pytest.mark.parametrize(
    ("proxies", "header", "address"),
    [
        (1, "198.51.100.9", "198.51.100.9"),
        (1, "1.2.3.4, 198.51.100.9", "198.51.100.9"),  # the first is claimed by the client
        (2, "1.2.3.4, 198.51.100.9, 10.0.0.7", "198.51.100.9"),
        (2, "198.51.100.9", "10.0.0.1"),  # it came around a proxy
        (1, "", "10.0.0.1"),
        (1, "unknown", "10.0.0.1"),
        (1, "<script>", "10.0.0.1"),
        (1, "198.51.100.9:4711", "198.51.100.9"),
        (1, "[2001:db8::1]:4711", "2001:db8::1"),
        (1, "2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_address_is_what_the_outermost_proxy_saw(
    settings_with: Callable[..., None], proxies: int, header: str, address: str
) -> None:
    settings_with(PROXIES=proxies)
    request = HttpRequest()
    request.META = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": header}
    ClientAddress(lambda _: HttpResponse())(request)
    assert request.META["REMOTE_ADDR"] == address


def test_without_proxies_the_header_counts_for_nothing(
    settings_with: Callable[..., None],
) -> None:
    from django.core.exceptions import MiddlewareNotUsed

    settings_with(PROXIES=0)
    with pytest.raises(MiddlewareNotUsed):
        ClientAddress(lambda _: HttpResponse())


@pytest.mark.process
def test_it_serves_the_web_and_its_files_without_a_second_server(
    database: str, manage_env, capfd: pytest.CaptureFixture[str]
) -> None:
    env = {**manage_env, "CRAWLFRAME_HTTPS": "1", "CRAWLFRAME_PROXIES": "1"}
    env["CRAWLFRAME_WEB_PROCESSES"] = "1"
    with served(env) as (url, process):
        healthy = requests.get(f"{url}healthz", timeout=30)
        assert set(healthy.json().values()) == {True}  # asked from inside, without TLS
        turned = requests.get(f"{url}admin/login/", timeout=30, allow_redirects=False)
        assert (turned.status_code, turned.headers["Location"][:8]) == (301, "https://")
        over_tls = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.9"}
        login = requests.get(f"{url}admin/login/", timeout=30, headers=over_tls)
        assert login.status_code == 200
        assert login.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert "unsafe-inline" not in login.headers["Content-Security-Policy"]
        assert "; Secure" in login.headers["Set-Cookie"]
        style = requests.get(f"{url}static/unfold/css/styles.css", timeout=30, headers=over_tls)
        assert "text/css" in style.headers["Content-Type"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert f"The web listens at {url.rstrip('/')}\n" in capfd.readouterr().out


@pytest.mark.process
def test_a_wrong_number_of_threads_is_named(manage_env) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "crawlservice/web/server.py"],
        cwd=CHECKOUT,
        env={**os.environ, **manage_env, "CRAWLFRAME_WEB_THREADS": "many"},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "error: CRAWLFRAME_WEB_THREADS='many' must be a whole number above 0\n"
    )
