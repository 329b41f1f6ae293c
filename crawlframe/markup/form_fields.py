"""The fields of a form that browsers send (HTML standard, 4.10.22.4, as Chromium implements it),
except that a value is not checked by its type, and the fields ``dirname`` and ``_charset_`` mean
nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from crawlframe.markup.form_tree import FormTree

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

Field = tuple[str, str | None]  # name and value; None: no file was chosen
Given = Mapping[str, list[str]]

_SENT = "option:not([disabled],optgroup[disabled]>option)"
_PRESSED = (
    "input[type=submit i],input[type=image i],button[type=submit i],"
    "button:not([type=reset i],[type=button i],[command],[commandfor])"
)
_BUTTONS = {"button", "image", "reset", "submit"}


def submits(node: LexborNode) -> bool:
    """Whether a control is a button that submits its form, and is not disabled."""
    return node.css_matches(_PRESSED) and not is_off(node)


def kind_of(node: LexborNode) -> str:
    """The type of an <input>; the name of another element."""
    return (node.attrs.get("type") or "").lower() if node.tag == "input" else node.tag or ""


def is_off(node: LexborNode) -> bool:
    """Whether a control is disabled, itself or by a <fieldset>, except in its first <legend>."""
    if "disabled" in node.attrs:
        return True
    inner = node.mem_id
    for above in _above(node):
        if above.tag == "fieldset" and "disabled" in above.attrs:
            legends = (one.mem_id for one in above.iter() if one.tag == "legend")
            if next(legends, None) != inner:
                return True
        inner = above.mem_id
    return False


def fields(tree: FormTree, form: int, button: int | None, given: Given) -> list[Field]:
    """The fields in the order of the page. ``given`` replaces the values of all controls of a name;
    a name without a control is added."""
    names = {one: tree.value(one, "name") for one in tree.forms[form]}
    kinds = {one: kind_of(tree.nodes[one]) for one in names}
    radios = [one for one, kind in kinds.items() if kind == "radio"]
    ticked = {names[one]: one for one in radios if "checked" in tree.nodes[one].attrs}  # the last
    filled = {name for one, name in names.items() if kinds[one] not in _BUTTONS} & {*given}
    sent: list[Field] = []
    left = dict(given)
    for one, name in names.items():
        node, kind = tree.nodes[one], kinds[one]
        if is_off(node) or (one != button and kind in _BUTTONS):
            continue
        if kind == "image":
            sent += [(f"{name}.{axis}" if name else axis, "0") for axis in "xy"]
            continue
        if name in given and (one != button or name not in filled):
            values: list[str | None] = [*left.pop(name, ())]
        elif kind == "radio" and ticked.get(name) != one:
            continue
        else:
            values = [*_values(tree, one)]
        sent += [(name, value) for value in values if name]
    return [*sent, *((name, text) for name, texts in left.items() for text in texts)]


def _values(tree: FormTree, number: int) -> Iterator[str | None]:
    """Values of a control that was not filled in."""
    node, value, kind = tree.nodes[number], tree.value(number, "value"), kind_of(tree.nodes[number])
    match kind:
        case "select":
            yield from map(tree.plain, _chosen(node))
        case "textarea":
            yield tree.plain(node.text())
        case "file":
            yield None
        case "radio" | "checkbox":
            if "checked" in node.attrs:
                yield value if "value" in node.attrs else "on"
        case "submit":  # without a value, the label that the browser gives it
            yield value if "value" in node.attrs else "Submit"
        case "hidden" | "button":
            yield value
        case "url" | "email":
            yield re.sub(r"[\r\n]", "", value).strip(" \t\f")
        case _:
            yield re.sub(r"[\r\n]", "", value)


def _chosen(select: LexborNode) -> list[str]:
    options = {one.mem_id: one for one in select.css(_SENT)}
    chosen = [one.mem_id for one in select.css("option[selected]")]
    if "multiple" not in select.attrs:
        if not chosen and (select.attrs.get("size") or "1") in ("0", "1"):
            chosen = [*options][:1]
        chosen = chosen[-1:]
    return [_value_of(options[one]) for one in chosen if one in options]


def _value_of(option: LexborNode) -> str:
    if "value" in option.attrs:
        return option.attrs["value"] or ""
    text = option.text()
    for script in option.css("script"):
        text = text.replace(script.text(), "", 1)
    return " ".join(re.findall(r"[^ \t\n\f\r]+", text))


def _above(node: LexborNode) -> Iterator[LexborNode]:
    above = node.parent
    while above is not None and above.is_element_node:
        yield above
        above = above.parent
