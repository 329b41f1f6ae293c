"""Items: what a spider yields to be stored, and the JSON in which it is stored."""

from __future__ import annotations

import decimal
import math
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any

from crawlframe.errors import SpiderError
from crawlframe.model_items import is_model, values_of

if TYPE_CHECKING:
    from itemadapter import ItemAdapter

MAX_ITEM = 4 << 20  # bytes of JSON; one item must not block a database transaction


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
    from itemadapter import ItemAdapter  # imports pydantic, which most processes do not need

    from crawlframe.model_adapter import ModelAdapter
    from crawlframe.struct_adapter import StructAdapter

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
        text = orjson.dumps(_clean(item, "item"))
    if b"\\u0000" in text:
        text = orjson.dumps(_clean(item, "item"))
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


def _clean(value: Any, path: str) -> Any:
    """The slow path: walks the item, fixes what it can, and names what it cannot."""
    import orjson

    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {
            clean_text(str(key)): _clean(part, f"{path}[{key!r}]") for key, part in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(part, f"{path}[{i}]") for i, part in enumerate(value)]
    try:
        return orjson.loads(orjson.dumps(value, default=_plain))
    except (TypeError, ValueError):
        hint = "decode it to text first" if isinstance(value, bytes) else "make it text or a number"
        raise SpiderError(f"{path} is {type(value).__name__}, which JSON has not; {hint}") from None
