"""Elements of HTML by how they are parsed (HTML standard, 13.2.4 and 13.2.6.4.7), in lower case."""

from __future__ import annotations


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


VOID = _names(
    "area base basefont bgsound br col embed frame frameset hr img input keygen link meta param "
    "source track wbr"
)
# Their content has no markup, except in SVG.
RAW = _names("iframe noembed noframes plaintext script style textarea title xmp")
FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
HEADINGS = _names("h1 h2 h3 h4 h5 h6")
TABLE_PARTS = _names("caption colgroup tbody td tfoot th thead tr")
OBJECTS = _names("applet marquee object")
MARKERS = OBJECTS | _names("caption td template th")  # formatting ends with them
# Where SVG and MathML contain HTML.
PLACES = {
    b"svg": _names("desc foreignobject title"),
    b"math": _names("annotation-xml mi mn mo ms mtext"),
}
INTEGRATION = PLACES[b"svg"] | PLACES[b"math"]
# As these are named elsewhere here, where Lexbor treats them as a barrier.
UNPLACED = {name: b"?" + name for name in INTEGRATION}
SCOPE = MARKERS | INTEGRATION | frozenset(UNPLACED.values()) | _names("html select table")
BLOCKS = HEADINGS | _names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form header hgroup hr li listing main menu nav ol p plaintext pre search "
    "section summary table ul xmp"
)
SPECIAL = SCOPE | TABLE_PARTS | BLOCKS | VOID | _names("body button frameset head select")
# In SVG and MathML only these end it; others are elements within it.
BREAKOUT = HEADINGS | _names(
    "b big blockquote body br center code dd div dl dt em embed head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)

_TABLE = _names("html table template")
_IN_ITEM = _names("address div p")  # through which an item closes the previous one
_Closing = tuple[frozenset[bytes], frozenset[bytes]]
_RUBY = _names("rb rp rt rtc ruby")  # Lexbor closes nothing through them
_PARAGRAPH: _Closing = (_names("p"), SCOPE | _RUBY | _names("button"))
# What a start tag closes first: the outermost of the first set above the innermost of the second.
CLOSES: dict[bytes, tuple[_Closing, ...]] = {
    **dict.fromkeys(BLOCKS, (_PARAGRAPH,)),
    b"li": ((_names("li"), _RUBY | SPECIAL - _IN_ITEM - _names("li")), _PARAGRAPH),
    **dict.fromkeys(
        (b"dd", b"dt"),
        ((_names("dd dt"), _RUBY | SPECIAL - _IN_ITEM - _names("dd dt")), _PARAGRAPH),
    ),
    b"button": ((_names("button"), SCOPE),),
    **dict.fromkeys(TABLE_PARTS, ((TABLE_PARTS, _TABLE),)),
    b"tr": ((TABLE_PARTS - _names("tbody tfoot thead"), _TABLE),),
    **dict.fromkeys((b"td", b"th"), ((_names("td th caption colgroup"), _TABLE),)),
}
# Start tags that close something, or are sometimes ignored.
RULED = frozenset(CLOSES) | TABLE_PARTS | _names("a form nobr optgroup option select")


def barrier_of(name: bytes) -> frozenset[bytes]:
    """What an end tag of this name cannot close."""
    if name == b"table" or name in TABLE_PARTS:
        return _TABLE - {name}
    if name == b"li":
        return SCOPE | _names("ol ul")
    if name in SPECIAL:
        return SCOPE - {name}
    return SPECIAL
