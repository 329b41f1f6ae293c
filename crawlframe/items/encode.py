"""Items: what a spider yields to be stored, and the JSON in which it is stored."""

from __future__ import annotations

import decimal
import math
import sys
import uuid
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from crawlframe.base.exact_json import dumps
from crawlframe.errors import SpiderError
from crawlframe.items.models import is_model, values_of

if TYPE_CHECKING:
    from itemadapter import ItemAdapter

# Signs that items may be other than dicts: packages, and attributes of classes.
PACKAGES = frozenset(("attr", "itemadapter", "pydantic", "scrapy"))
FIELDS = ("__dataclass_fields__", "__struct_fields__")
MAX_ITEM = 4 << 20  # bytes of JSON; one item must not block a database transaction
MAX_NESTED = 250  # levels; deeper JSON ends Python's recursion where it is read
MAX_BITS = 14_284  # of an integer: more digits are not read by Python


def prepare(modules: Iterable[str]) -> None:
    """Imports what items of the classes in these modules need, if any: before workers are forked,
    so that they share it. With it come pydantic and Scrapy, wherever they are installed."""
    loaded = (vars(sys.modules[name]) for name in modules if name in sys.modules)
    classes = (one for names in loaded for one in names.values() if isinstance(one, type))
    own = (one for one in classes if not one.__module__.startswith("crawlframe."))
    if PACKAGES & sys.modules.keys() or any(hasattr(one, name) for one in own for name in FIELDS):
        _adapter()


def is_item(thing: Any) -> bool:
    """Whether it can be stored: a dict, an object of a dataclass, attrs, pydantic or msgspec, or an
    instance of a Django model."""
    return type(thing) is dict or _adapter().is_item(thing)


def as_dict(item: Any) -> dict[str, Any]:
    """The fields and values of an item; objects in them become dicts, too."""
    fields: dict[str, Any] = _adapter()(item).asdict()
    return fields


@cache
def _adapter() -> type[ItemAdapter]:
    from itemadapter import ItemAdapter  # large, see prepare

    from crawlframe.items.adapters import ModelAdapter, StructAdapter

    # Also for the pipelines of authors.
    ItemAdapter.ADAPTER_CLASSES = (*ItemAdapter.ADAPTER_CLASSES, StructAdapter, ModelAdapter)
    return ItemAdapter


def no_item(thing: Any) -> SpiderError:
    """The error for a callback that yields it."""
    return SpiderError(
        f"a callback yielded {type(thing).__name__} {str(thing)[:80]!r}; yield items (dict, "
        "dataclass, attrs, pydantic, msgspec, Django model) and Requests"
    )


def encode_item(item: Any) -> bytes:
    """The JSON object of an item. U+0000, lone surrogates, NaN and infinities, which JSON columns
    refuse, are removed.

    Raises SpiderError naming the field."""
    import orjson  # not needed to import a spider

    if type(item) is not dict:
        if is_model(item.__class__):
            item = values_of(item)
        elif is_item(item):
            item = as_dict(item)
        else:
            raise no_item(item)
    try:
        text = orjson.dumps(item, default=_plain)
    except (TypeError, ValueError):
        text = b""
    if not text or b"\\u0000" in text:
        text = dumps(_clean(item, "item"))
    if len(text) > MAX_ITEM:
        raise SpiderError(f"an item has {len(text)} bytes as JSON; the limit is {MAX_ITEM}")
    return text


def clean_text(text: str) -> str:
    """Text in a form that databases accept: without U+0000 and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if is_item(value):
        return as_dict(value)
    raise TypeError


def _clean(value: Any, path: str, depth: int = 0) -> Any:
    """The slow path: walks the item, fixes what it can, and names what it cannot."""
    import orjson

    if depth > MAX_NESTED:
        raise SpiderError(f"{path[:100]}… is nested more than {MAX_NESTED} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise SpiderError(f"{path} is an integer of more than 4,300 digits; make it text")
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict) and is_item(value):
        value = as_dict(value)
    if isinstance(value, dict):
        return {
            clean_text(str(key)): _clean(part, f"{path}[{key!r}]", depth + 1)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(part, f"{path}[{i}]", depth + 1) for i, part in enumerate(value)]
    try:
        return orjson.loads(orjson.dumps(value, default=_plain))
    except (TypeError, ValueError):
        hint = "decode it to text first" if isinstance(value, bytes) else "make it text or a number"
        raise SpiderError(f"{path} is {type(value).__name__}, which JSON has not; {hint}") from None
