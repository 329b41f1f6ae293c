"""Forms: the Request that a browser sends when a form of a page is submitted: which form and button
are meant, and how the fields are sent (HTML standard, 4.10.22)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus

from crawlframe.base.secret import Secret
from crawlframe.charsets.labels import codec_of, encode
from crawlframe.errors import BadRequest
from crawlframe.markup.form_fields import Given, fields, submits
from crawlframe.markup.form_tree import FormTree
from crawlframe.request.checks import Callback
from crawlframe.request.request import Request

Pairs = list[tuple[bytes, bytes]]

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
PLAIN = "text/plain"
MAX_FORMS = 10  # forms, and fields of each, that a message lists

# Arguments that the form itself sets.
_SETTLED = ("body", "form", "json", "method")


def submit(
    response: Any,
    data: Mapping[str, Any],
    callback: Callback | None,
    css: str | None,
    xpath: str | None,
    click: str | bool,
    options: dict[str, Any],
) -> Request:
    """The request of ``Response.form``."""
    page = f"form on {response.url}"
    if settled := [name for name in _SETTLED if name in options]:
        raise BadRequest(f"{page}: the form says its {settled[0]} itself; leave it out")
    given = {name: _texts(page, name, value) for name, value in data.items()}
    if response.kind != "html":
        raise BadRequest(f"{page}: it is not HTML but {response.kind}")
    tree = FormTree(response)
    form = _chosen(tree, page, given, css, xpath)
    button = _button(tree, form, click, given, page)

    def asked(name: str) -> str:
        if button is not None and f"form{name}" in tree.nodes[button].attrs:
            return tree.value(button, f"form{name}").strip()
        return tree.value(form, name).strip()

    if asked("method").lower() == "dialog":
        raise BadRequest(f"{page}: its method is DIALOG, which sends nothing")
    url = response.urljoin(asked("action")) if asked("action") else response.url
    labels = tree.value(form, "accept-charset").replace(",", " ").split()
    encoding = next((name for label in labels if (name := codec_of(label))), response.encoding)
    sent = fields(tree, form, button, given)
    pairs = [(_bytes(name, encoding), _bytes(value or "", encoding)) for name, value in sent]
    own = dict(options.pop("headers", None) or {})
    if asked("method").lower() != "post":
        url = f"{url.partition('?')[0]}?{_urlencoded(pairs)}"
        return Request(url, callback, headers=own, **options)
    kind = asked("enctype").lower()
    if kind == MULTIPART:
        body, kind = _multipart(pairs, [value is None for _, value in sent])
    elif kind == PLAIN:
        body = b"".join(b"%b=%b\r\n" % pair for pair in pairs)
    else:
        body, kind = _urlencoded(pairs).encode(), URLENCODED
    headers = {"Content-Type": kind} | own
    return Request(url, callback, method="POST", body=body, headers=headers, **options)


def _texts(page: str, name: str, value: Any) -> list[str]:
    """Texts for the values of a field. Raises BadRequest."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(page, name, one)]
    if isinstance(value, str):
        return [value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)]
    if isinstance(value, Secret):
        raise BadRequest(f"{page}: {name!r} is a Secret; reveal() returns its text")
    raise BadRequest(
        f"{page}: {name!r} is {value!r:.80}; give the text to send, a list of texts, or None to "
        "leave the field out"
    )


# -- the form -------------------------------------------------------------------------------------


def _chosen(tree: FormTree, page: str, given: Given, css: str | None, xpath: str | None) -> int:
    """The form that is selected; without a selector the only one that has all fields of ``given``,
    or the only one at all. Raises BadRequest."""
    if css is not None and xpath is not None:
        raise BadRequest(f"{page}: give one of css and xpath")
    fitting = [*tree.forms]
    wanted = f"with the fields {', '.join(given)} " if given else ""
    if css is not None or xpath is not None:
        wanted = f"for {'xpath' if css is None else 'css'}={css if css is not None else xpath!r} "
        found = {*map(tree.form_of, tree.found(css, xpath))}
        fitting = [form for form in fitting if form in found]
    elif len(fitting) > 1:
        fitting = [form for form in fitting if given.keys() <= {*_names(tree, form)}]
    if len(fitting) == 1:
        return fitting[0]
    if not tree.forms:
        raise BadRequest(f"{page}: the page has no form")
    several = f"{len(fitting)} forms {wanted}are on the page; select one, as in css='#login'"
    none = f"no form {wanted}is on the page, which has"
    listed = "; ".join(_described(tree, form) for form in (fitting or [*tree.forms])[:MAX_FORMS])
    raise BadRequest(f"{page}: {several if fitting else none}: {listed}")


def _names(tree: FormTree, form: int) -> list[str]:
    names = [tree.value(control, "name") for control in tree.forms[form]]
    return [*dict.fromkeys(filter(None, names))]


def _described(tree: FormTree, form: int) -> str:
    said = {name: tree.value(form, name)[:80] for name in ("id", "name", "action")}
    words = ["form", *(f'{name}="{value}"' for name, value in said.items() if value)]
    names = _names(tree, form)
    more = ", ..." if len(names) > MAX_FORMS else ""
    return f"<{' '.join(words)}> with {', '.join(names[:MAX_FORMS]) or 'no fields'}{more}"


def _button(tree: FormTree, form: int, click: str | bool, given: Given, page: str) -> int | None:
    """The button that is pressed, None for none. Raises BadRequest."""
    buttons = [one for one in tree.forms[form] if submits(tree.nodes[one])] if click else []
    said = {one: (tree.value(one, "name"), tree.value(one, "value")) for one in buttons}
    if isinstance(click, bool):  # the button that the value names, or the first
        meant = [one for one, (name, value) in said.items() if value in given.get(name, ())]
        return next(iter(meant or buttons), None)
    pressed = [*tree.found(click).intersection(buttons)]
    if len(pressed) == 1:
        return pressed[0]
    tags = [
        f'<{tree.nodes[one].tag} name="{name}" value="{value}">'
        for one, (name, value) in said.items()
    ]
    raise BadRequest(
        f"{page}: click={click!r} selects {len(pressed) or 'none'} of the form's buttons: "
        f"{', '.join(tags[:MAX_FORMS]) or 'it has none'}"
    )


# -- how it is sent -------------------------------------------------------------------------------


def _bytes(text: str, encoding: str) -> bytes:
    """A name or value in an encoding, with the line ends of forms."""
    return encode("\r\n".join(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")), encoding)


def _urlencoded(pairs: Pairs) -> str:
    quoted = (f"{quote_plus(name, '*')}={quote_plus(value, '*')}" for name, value in pairs)
    return "&".join(quoted).replace("~", "%7E")


def _multipart(pairs: Pairs, files: list[bool]) -> tuple[bytes, str]:
    """The body and its Content-Type. The boundary follows from the fields, so that the same form
    is the same request."""
    boundary = sha256(repr(pairs).encode()).hexdigest()[:32]
    body = b""
    for (name, value), is_file in zip(pairs, files, strict=True):
        name = name.replace(b"\r", b"%0D").replace(b"\n", b"%0A").replace(b'"', b"%22")
        file = b'; filename=""\r\nContent-Type: application/octet-stream' if is_file else b""
        head = b'--%b\r\nContent-Disposition: form-data; name="%b"%b' % (
            boundary.encode(),
            name,
            file,
        )
        body += b"%b\r\n\r\n%b\r\n" % (head, value)
    return body + b"--%b--\r\n" % boundary.encode(), f"{MULTIPART}; boundary={boundary}"
