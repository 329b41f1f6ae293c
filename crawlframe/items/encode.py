"""Items: the results of a spider that are stored, and their JSON."""

from __future__ import annotations

import decimal
import math
import sys
import uuid
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from crawlframe.base.exact_json import dumps
from crawlframe.errors import SpiderError
from crawlframe.items.models import is_model, values_of

if TYPE_CHECKING:
    from itemadapter import ItemAdapter

# Modules of item classes; the engine itself imports none of them to load spiders.
LIBRARIES = frozenset({"attr", "itemadapter", "itemloaders", "pydantic", "scrapy"})
MAX_ITEM = 4 << 20  # bytes of JSON; one item must not block a database transaction
MAX_NESTED = 250  # levels; deeper JSON ends Python's recursion where it is read
MAX_BITS = 14_284  # of an integer: more digits are not read by Python


def is_item(thing: Any) -> bool:
    """Whether a value can be stored as an item: a dict, an object of a dataclass, attrs, pydantic
    or msgspec, or an instance of a Django model."""
    return type(thing) is dict or item_adapter().is_item(thing)


def as_dict(item: Any) -> dict[str, Any]:
    """The fields and values of an item; objects in them become dicts, too."""
    fields: dict[str, Any] = item_adapter()(item).asdict()
    return fields


@cache
def item_adapter() -> type[ItemAdapter]:
    """The ItemAdapter class, set up for Structs and Django models."""
    from itemadapter import ItemAdapter  # large: it comes with pydantic, and Scrapy

    from crawlframe.items.adapters import ModelAdapter, StructAdapter

    # Also for the pipelines of authors.
    ItemAdapter.ADAPTER_CLASSES = (*ItemAdapter.ADAPTER_CLASSES, StructAdapter, ModelAdapter)
    return ItemAdapter


def uses_item_classes(files: Collection[str]) -> bool:
    """Whether the modules imported from these files use a library of item classes, or define
    dataclasses or Structs."""
    namespaces = [getattr(module, "__dict__", {}) for module in [*sys.modules.values()]]
    return not LIBRARIES.isdisjoint(sys.modules) or any(
        _is_item_class(value, namespace["__name__"])
        for namespace in namespaces
        if namespace.get("__file__") in files
        for value in [*namespace.values()]
    )


def _is_item_class(value: object, module: str) -> bool:
    """Whether it is a dataclass or Struct of this module. Runs no code of authors, such as a proxy
    object or a metaclass."""
    kind, own = type(value), type.__getattribute__
    return (
        issubclass(kind, type)
        and (issubclass(kind, type(Struct)) or "__dataclass_fields__" in own(value, "__dict__"))
        and own(value, "__module__") == module
    )


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
    """The slow path: walks the item, fixes values that it can, and names the others."""
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
