"""Services: messages to chat and push services, through apprise (the extra ``crawlframe[alerts]``).

Only services that are reached by HTTP are allowed, and their connections are made as for webhooks:
to public addresses, without redirects."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_plus

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.connection import allowed_gai_family

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError, PrivateAddress
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.requests.checked_adapter import CheckedAdapter
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.models import Severity
from crawlservice.security.masking import scrubbed

try:
    import apprise
except ImportError:  # an extra
    apprise = None  # type: ignore[assignment]

# Their debug messages repeat addresses. Warnings of apprise are the problems that ``send`` returns.
for _name, _level in (("apprise", logging.WARNING), ("urllib3", logging.INFO)):
    logging.getLogger(_name).setLevel(_level)
logging.getLogger("apprise").propagate = False

ANSWER_CHARS = 200  # characters shown of an answer
# Services that send by HTTP and nothing else. Others would open sockets, files or programs.
SCHEMES = frozenset({
    "bark", "barks", "dingtalk", "discord", "fcm", "feishu", "flock", "gchat", "googlechat",
    "gotify", "gotifys", "ifttt", "join", "json", "jsons", "lark", "line", "mattermost", "mmost",
    "mmosts", "mailgun", "matrix", "matrixs", "ntfy", "ntfys", "opsgenie", "pagerduty", "pbul",
    "pover", "prowl", "pushdeer", "pushplus", "revolt", "rocket", "rockets", "ryver", "schan",
    "sendgrid", "signal", "signals", "slack", "spike", "splunk", "synology", "synologys", "tgram",
    "twilio", "victorops", "webex", "wecombot", "workflow", "workflows", "wxteams", "zulip",
})  # fmt: skip
# A path of this machine, which the service would read and send.
REFUSED_OPTIONS = frozenset({"template", "file", "attach", "avatar_file", "keyfile"})
# Where services that answer 200 to everything say that they have refused a message.
CODES = ("errcode", "code", "StatusCode")
JSON_TELLS = frozenset({"dingtalk", "feishu", "lark", "wecombot"})
TYPES = {Severity.NOTICE: "info", Severity.WARNING: "warning", Severity.SEVERE: "failure"}


def check(address: str) -> None:
    """Raises BadRule if no service has such an address, and ConfigError if apprise is missing."""
    plugin = _plugin(address)
    if plugin is None:
        raise BadRule(
            "this is not the address of a known service, such as slack://TokenA/TokenB/TokenC or "
            "https://hooks.slack.com/services/…; docs/howto/alerts.md lists them",
            "address",
        )
    scheme = _scheme(plugin)
    if scheme not in SCHEMES:
        raise BadRule(f"{scheme}:// is not among the services that can be used here", "address")
    if refused := sorted(_options(address) & REFUSED_OPTIONS):
        raise BadRule(f"the option {refused[0]} of an address cannot be used", "address")


def send(
    node: Settings, address: str, title: str, text: str, severity: Severity
) -> tuple[str, str]:
    """One attempt. Returns why the message did not arrive, or "", and the service's answer."""
    try:
        check(address)
    except (BadRule, ConfigError) as error:
        return str(error), ""
    told: list[str] = []
    with _guarded(node) as answers:
        assert apprise is not None
        sender = apprise.Apprise(asset=_asset())
        sender.add(address)
        sent = bool(
            sender.notify(
                body=text,
                title=title,
                notify_type=TYPES[severity],
                body_format=apprise.NotifyFormat.TEXT,
                log_callback=lambda entry, _: told.append(str(entry.message)),
                log_level=logging.WARNING,
            )
        )
    answer = _answer(answers.last)
    problem = answers.problem or ("" if sent else answer or " ".join(told) or "it was not accepted")
    plugin = _plugin(address)
    if not problem and plugin is not None and _scheme(plugin) in JSON_TELLS:
        problem = _refusal(answers.last)
    return scrubbed(problem, address)[:1000], scrubbed(answer, address)


class _Answers(threading.local):
    """The answers of this thread's service. ``adapter`` is None outside of ``send``."""

    adapter: HTTPAdapter | None = None
    last: requests.Response | None = None
    problem: str = ""


_answers = _Answers()


class _KeepingAdapter(CheckedAdapter):
    """An adapter that keeps the answers."""

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            response = super().send(request, *args, **kwargs)
        except PrivateAddress:
            _answers.problem = (
                "its address is not public; if it may be sent to, name its network in "
                "CRAWLFRAME_WEBHOOK_PRIVATE"
            )
            raise requests.ConnectionError(_answers.problem) from None
        except requests.RequestException as error:
            _answers.problem = f"{type(error).__name__}: it did not answer"
            raise
        _answers.last, _answers.problem = response, ""
        return response


@contextmanager
def _guarded(node: Settings) -> Iterator[_Answers]:
    """All sessions of requests that this thread makes meanwhile connect as ours do."""
    guard = AddressGuard(node.allow_private + node.webhook_private)
    adapter = _KeepingAdapter(guard, 1, _resolve_by_system)
    _answers.adapter, _answers.last, _answers.problem = adapter, None, ""
    try:
        yield _answers
    finally:
        _answers.adapter = None
        adapter.close_connections()


_usual_adapter = requests.Session.get_adapter


def _get_adapter(session: requests.Session, url: str) -> Any:
    return _answers.adapter or _usual_adapter(session, url)


# Apprise makes its sessions itself. For other threads nothing changes.
requests.Session.get_adapter = _get_adapter  # type: ignore[method-assign, assignment]


def _asset() -> Any:
    return apprise.AppriseAsset(
        app_id="Crawlframe",
        app_desc="Crawlframe",
        app_url="https://pypi.org/project/crawlframe/",
        async_mode=False,
        http_redirects=False,
        allow_templates=False,
        service_timeout=0,  # each connection has one
        storage_mode=apprise.PersistentStoreMode.MEMORY,
    )


def _plugin(address: str) -> Any:
    """The service of an address, or None. Raises ConfigError."""
    if apprise is None:
        raise ConfigError(
            "messages to chat services need more packages: pip install 'crawlframe[alerts]', on "
            "the web and all nodes"
        )
    return apprise.Apprise.instantiate(address, asset=_asset(), suppress_exceptions=True)


def _options(address: str) -> set[str]:
    """Their names, as apprise reads them."""
    parts = re.split("[?&;]", address)[1:]
    return {unquote_plus(part.partition("=")[0]).strip().lower() for part in parts}


def _scheme(plugin: Any) -> str:
    return str(plugin.url(privacy=True)).partition("://")[0].lower()


def _answer(response: requests.Response | None) -> str:
    if response is None:
        return ""
    text = " ".join(response.text[:ANSWER_CHARS].split())
    return f"it answered {response.status_code}: {text}".rstrip(": ")


def _refusal(response: requests.Response | None) -> str:
    """Why a service that answered 200 has refused the message, or ""."""
    if response is None:
        return "it did not answer"
    try:
        content = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return ""
    refused = isinstance(content, dict) and any(content.get(name) for name in CODES)
    return _answer(response) if refused else ""


def _resolve_by_system(host: str) -> list[str]:
    """The addresses of a host, in the order of the system. Raises OSError."""
    found = socket.getaddrinfo(host.strip("[]"), None, allowed_gai_family(), socket.SOCK_STREAM)
    return [*dict.fromkeys(str(place[0]) for *_, place in found)]
