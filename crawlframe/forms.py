"""Forms: the Request that a browser sends when a form of a page is submitted. form2request collects
the fields; this chooses the form, and adds what browsers do about base URL, encoding, multipart,
disabled fields, and fields outside of the form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from form2request import form2request
from lxml import html

from crawlframe.callback import Callback
from crawlframe.charsets.labels import encode
from crawlframe.errors import BadRequest
from crawlframe.request import Request
from crawlframe.secret import Secret

Pairs = list[tuple[bytes, bytes]]

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
SHOWN = 10  # forms, and fields of each, that a message lists

_CONTROLS = ("input", "select", "textarea", "button")
# What is not sent.
_OFF = (
    ".//*[@disabled][not(self::fieldset)] | .//fieldset[@disabled]//*[@name]"
    " | .//input[translate(@type, 'BUTON', 'buton') = 'button']"
)
# What the form says itself.
_SETTLED = ("body", "form", "json", "method")


class Page(Protocol):
    """A Response."""

    url: str

    @property
    def base_url(self) -> str: ...
    @property
    def encoding(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def css(self, query: str) -> Any: ...
    def xpath(self, query: str) -> Any: ...
    def urljoin(self, link: str) -> str: ...


def submit(
    response: Page,
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
    values = {name: _text(page, name, value) for name, value in data.items()}
    chosen, controls = _chosen(response, page, values, css, xpath)
    form = _copied(chosen, controls, response.base_url)
    button = _button(form, click, page)
    enctype = _prepared(form, button, response)
    try:
        sent = form2request(form, values, click=False if button is None else button)
    except (NotImplementedError, ValueError) as error:
        raise BadRequest(f"{page}: {error}") from None
    own = dict(options.pop("headers", None) or {})
    if sent.method == "GET":
        parts = urlsplit(sent.url)
        query = urlencode(_encoded(parts.query, response.encoding))
        return Request(urlunsplit(parts._replace(query=query)), callback, headers=own, **options)
    headers, body = dict(sent.headers), sent.body
    if headers["Content-Type"] == URLENCODED:
        pairs = _encoded(body.decode(), response.encoding)
        if enctype == MULTIPART:
            body, headers["Content-Type"] = _multipart(pairs)
        else:
            body = urlencode(pairs).encode()
    return Request(sent.url, callback, method="POST", body=body, headers=headers | own, **options)


def _text(page: str, name: str, value: Any) -> Any:
    """What a field is set to: text, a list of texts, or None. Raises BadRequest."""
    if isinstance(value, list | tuple):
        return [_text(page, name, one) for one in value]
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Secret):
        raise BadRequest(f"{page}: {name!r} is a Secret; reveal() returns its text")
    raise BadRequest(
        f"{page}: {name!r} is {value!r:.80}; give the text to send, a list of texts, or None to "
        "leave the field out"
    )


# -- the form -------------------------------------------------------------------------------------


def _chosen(
    response: Page, page: str, data: Mapping[str, Any], css: str | None, xpath: str | None
) -> tuple[Any, list[Any]]:
    """The form that is selected; without a selector the only one that has all fields of ``data``,
    or the only one at all; and its controls. Raises BadRequest."""
    if response.kind != "html":
        raise BadRequest(f"{page}: it is not HTML but {response.kind}")
    if css is not None and xpath is not None:
        raise BadRequest(f"{page}: give one of css and xpath")
    forms = _forms_of(response)
    fitting = [*forms]
    wanted = f"with the fields {', '.join(data)} " if data else ""
    if css is not None or xpath is not None:
        wanted = f"for {'xpath' if css is None else 'css'}={css if css is not None else xpath!r} "
        found = response.css(css) if css is not None else response.xpath(xpath or "")
        around = {_form_around(one.root) for one in found}
        fitting = [form for form in forms if form in around]
    elif len(forms) > 1:
        fitting = [form for form, controls in forms.items() if data.keys() <= {*_names(controls)}]
    if len(fitting) == 1:
        return fitting[0], forms[fitting[0]]
    if not forms:
        raise BadRequest(f"{page}: the page has no form")
    several = f"{len(fitting)} forms {wanted}are on the page; select one, as in css='#login'"
    none = f"no form {wanted}is on the page, which has"
    listed = "; ".join(_described(form, forms[form]) for form in (fitting or [*forms])[:SHOWN])
    raise BadRequest(f"{page}: {several if fitting else none}: {listed}")


def _form_around(root: Any) -> Any:
    """The form that an element is, or is in; None for text and attributes."""
    return None if isinstance(root, str) else next(root.iterancestors("form"), root)


def _forms_of(response: Page) -> dict[Any, list[Any]]:
    """The forms of the page with their controls: what is in them, then what names them by id."""
    found = {one.root: [*one.root.iter(*_CONTROLS)] for one in response.css("form")}
    by_id = {form.get("id"): form for form in reversed(found)}
    for one in response.xpath("//*[@form]"):
        form = by_id.get(one.root.get("form"))
        if form is not None and form not in one.root.iterancestors("form"):
            found[form].append(one.root)
    return found


def _names(controls: list[Any]) -> Iterator[str]:
    return (name for one in controls if (name := one.get("name")))


def _described(form: Any, controls: list[Any]) -> str:
    words = ["form"]
    words += [
        f'{name}="{form.get(name)[:80]}"' for name in ("id", "name", "action") if form.get(name)
    ]
    names = [*dict.fromkeys(_names(controls))]
    more = ", ..." if len(names) > SHOWN else ""
    return f"<{' '.join(words)}> with {', '.join(names[:SHOWN]) or 'no fields'}{more}"


def _copied(form: Any, controls: list[Any], base_url: str) -> Any:
    """A copy of the form, in a document of its own, with exactly the fields that are sent."""
    document = html.document_fromstring("<html><body></body></html>", base_url=base_url)
    copy = deepcopy(form)
    document.body.append(copy)
    inside = {*form.iter(*_CONTROLS)}
    for one in controls:
        if one not in inside:
            copy.append(deepcopy(one))
    for one in copy.xpath(".//*[@form]"):
        if one.get("form") != form.get("id"):
            one.drop_tree()
    for one in copy.xpath(_OFF):
        if one.getparent() is not None:
            one.drop_tree()
    for one in copy.iter("textarea"):
        one.text = (one.text or "").removeprefix("\r").removeprefix("\n")  # as HTML reads it
    return copy


# -- how it is sent -------------------------------------------------------------------------------


def _button(form: Any, click: str | bool, page: str) -> Any:
    """The button that is pressed, None for none. Raises BadRequest."""
    buttons = [one for one in form.iter("input", "button") if _submits(one)]
    if click is False:
        return None
    if click is True:
        return buttons[0] if buttons else None
    from parsel import Selector

    found = [one.root for one in Selector(root=form, type="html").css(click)]
    pressed = [one for one in buttons if one in found]
    if len(pressed) == 1:
        return pressed[0]
    labels = [
        f'<{one.tag} name="{one.get("name", "")}" value="{one.get("value", "")}">'
        for one in buttons
    ]
    raise BadRequest(
        f"{page}: click={click!r} selects {len(pressed) or 'none'} of the form's buttons: "
        f"{', '.join(labels[:SHOWN]) or 'it has none'}"
    )


def _submits(one: Any) -> bool:
    kind = (one.get("type") or "").strip().lower()
    return kind in ("submit", "image") or (one.tag == "button" and kind not in ("button", "reset"))


def _prepared(form: Any, button: Any, response: Page) -> str:
    """Sets the absolute URL, and an enctype that form2request knows; returns the real one."""
    asked = {} if button is None else button.attrib
    action = (asked.get("formaction") or form.get("action") or "").strip()
    form.set("action", response.urljoin(action) if action else response.url)
    enctype = (asked.get("formenctype") or form.get("enctype") or "").strip().lower()
    for name in ("formaction", "formenctype"):
        asked.pop(name, None)
    form.set("enctype", enctype if enctype == "text/plain" else URLENCODED)
    return enctype


def _encoded(query: str, encoding: str) -> Pairs:
    """The names and values in the encoding of the page, with the line ends of forms."""
    return [
        (_bytes(name, encoding), _bytes(value, encoding))
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]


def _bytes(text: str, encoding: str) -> bytes:
    return encode("\r\n".join(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")), encoding)


def _multipart(pairs: Pairs) -> tuple[bytes, str]:
    """The body and its Content-Type. The boundary follows from the fields, so that the same form
    is the same request."""
    from urllib3 import encode_multipart_formdata

    boundary = sha256(repr(pairs).encode()).hexdigest()[:32]
    return encode_multipart_formdata(
        [(name.decode("latin-1"), value) for name, value in pairs], boundary
    )
