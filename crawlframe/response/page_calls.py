"""PageCalls: the calls of Playwright's page that a callback may make, and their results. Both ends
read it: the worker to build a call, and the browser host to refuse any other."""

from __future__ import annotations

from typing import NamedTuple


class Calls(NamedTuple):
    """The calls of one kind of object. ``parts`` are attributes, and ``makes`` methods, which lead
    to an object of the named kind without a word to the browser; ``does`` are methods to await."""

    parts: dict[str, str]
    makes: dict[str, str]
    does: frozenset[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FINDS = dict.fromkeys(
    _words(
        "locator get_by_alt_text get_by_label get_by_placeholder get_by_role get_by_test_id "
        "get_by_text get_by_title"
    ),
    "locator",
)
_FRAMES = {"frame_locator": "frames"}
# Of an element, and of a page, where the first argument is a selector.
_ON_ELEMENTS = _words(
    "check click dblclick dispatch_event evaluate fill focus get_attribute hover inner_html "
    "inner_text input_value is_checked is_disabled is_editable is_enabled is_hidden is_visible "
    "press screenshot select_option set_checked tap text_content type uncheck"
)
# Calls that return Playwright's response, whose URL and status are sent.
NAVIGATING = _words("go_back go_forward goto reload")

CALLS = {
    "page": Calls(
        {"keyboard": "keyboard", "mouse": "mouse"},
        _FINDS | _FRAMES,
        _ON_ELEMENTS
        | NAVIGATING
        | _words(
            "add_init_script add_script_tag add_style_tag content drag_and_drop emulate_media "
            "eval_on_selector eval_on_selector_all pdf set_content set_viewport_size title "
            "wait_for_function wait_for_load_state wait_for_selector wait_for_timeout wait_for_url"
        ),
    ),
    "locator": Calls(
        {"first": "locator", "last": "locator", "content_frame": "frames"},
        _FINDS | _FRAMES | {"filter": "locator", "nth": "locator"},
        _ON_ELEMENTS
        | _words(
            "all_inner_texts all_text_contents aria_snapshot blur bounding_box clear count "
            "evaluate_all press_sequentially scroll_into_view_if_needed select_text wait_for"
        ),
    ),
    "frames": Calls(
        {"first": "frames", "last": "frames", "owner": "locator"},
        _FINDS | _FRAMES | {"nth": "frames"},
        frozenset(),
    ),
    "keyboard": Calls({}, {}, _words("down insert_text press type up")),
    "mouse": Calls({}, {}, _words("click dblclick down move up wheel")),
}

# Arguments that name a file of the machine that the browser runs on.
REFUSED = _words("path style_path")


def kind_after(kind: str, name: str, *, called: bool) -> str | None:
    """The kind of object that an attribute, or the call of a method, leads to; "" for a method
    that is awaited, and None if a callback may not use it."""
    calls = CALLS[kind]
    if not called:
        return calls.parts.get(name)
    return "" if name in calls.does else calls.makes.get(name)
