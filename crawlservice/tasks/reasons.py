"""Reasons with which requests end, in words."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PHRASES: dict[str, str | Promise] = {
    "action": _("an action in the browser failed"),
    "bad_encoding": _("the body could not be decoded"),
    "bad_redirect": _("it redirected to where it must not lead"),
    "bad_request": _("the request cannot be sent"),
    "bad_response": _("the answer is not HTTP"),
    "bad_url": _("the URL is wrong"),
    "blocked": _("the site blocks us"),
    "browser_lost": _("the browser ended"),
    "callback": _("the callback raised an exception"),
    "cancelled": _("its task was cancelled"),
    "connect": _("no connection to the host"),
    "connection_lost": _("the connection was lost"),
    "dns": _("the host has no address"),
    "download": _("the browser was sent a file"),
    "downloader": _("the plug-in downloader failed"),
    "engine": _("an error of Crawlframe"),
    "file_gone": _("its file was deleted before it was recorded"),
    "file_store": _("the file could not be stored"),
    "file_type": _("the file has another type"),
    "graphql": _("the GraphQL answer has errors"),
    "middleware": _("a middleware raised an exception"),
    "no_browser": _("the node has no browser"),
    "opened": _("opened() raised an exception"),
    "page_crash": _("the page crashed the browser"),
    "page_open": _("the browser could not open the page"),
    "poison": _("it killed two workers"),
    "private_address": _("the address is private"),
    "proxy_auth": _("the proxy refused our login"),
    "proxy_failed": _("the proxy failed"),
    "proxy_unfit": _("the proxy cannot be used for it"),
    "refused": _("the database refused its items"),
    "robots": _("robots.txt forbids it"),
    "timeout": _("it took too long"),
    "tls": _("no secure connection"),
    "token": _("no access token"),
    "too_complex": _("the page would take too long to parse"),
    "too_deep": _("the page is nested too deeply"),
    "too_large": _("the body is too large"),
    "too_many_redirects": _("too many redirects"),
    "usage": _("the page denies this use"),
}
