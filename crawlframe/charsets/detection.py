"""The encoding of a body that declares none: UTF-8 if its bytes are valid UTF-8, else the encoding
that the bytes clearly indicate, else the usual one of its language, its host or its top-level
domain.

The bytes are clear only for scripts other than Latin: the encodings of Western and Central Europe
differ in so few letters that a guess varies from page to page of one site. The guess is made by
chardetng, the detector of Firefox, and then checked."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.charsets.labels import codec_of

_BLOCK = 1 << 16  # bytes examined, from the first block that is not ASCII
_DIGEST = 1 << 11  # bytes passed to the detector: those around non-ASCII characters
_LETTERS = 100  # letters with which a page decides for itself, whatever its host's others are in
_HOSTS = 10_000  # hosts remembered
_ASCII = bytes(range(128))

# One ASCII byte stays before a run: it may be the second half of a character.
_ASCII_RUN = re.compile(rb"(?<=[\x00-\x7f])[\x00-\x7f]{24,}")
_HTML = re.compile(rb"<html\s([^>]*+)", re.I)
_HTML_WITHIN = 4 << 10  # bytes, most of which may be comments before it
_LANGUAGE = re.compile(rb"\blang\s*+=\s*+[\"']?+\s*+([a-z]{2,3}(?:[-_]\w+)*)", re.I)


class _Script(NamedTuple):
    """``letter`` is a character class for regular expressions. ``least``: letters needed for a
    decision, which are in runs of at least ``run``."""

    letter: str
    least: int
    run: int


_CYRILLIC = _Script("\u0400-\u04ff", 8, 3)
_GREEK = _Script("\u0370-\u03ff", 8, 3)
_HEBREW = _Script("\u05d0-\u05ea", 8, 2)
_ARABIC = _Script("\u0620-\u06d3", 8, 2)
_THAI = _Script("\u0e01-\u0e5b", 8, 3)
_CJK = _Script("\u3005-\u30ff\u3400-\u9fff\uac00-\ud7a3", 4, 2)

_SCRIPTS = {
    **dict.fromkeys(("cp1251", "koi8-r", "koi8-u", "iso8859-5", "cp866"), _CYRILLIC),
    **dict.fromkeys(("cp1253", "iso8859-7"), _GREEK),
    **dict.fromkeys(("cp1255", "iso8859-8"), _HEBREW),
    **dict.fromkeys(("cp1256", "iso8859-6"), _ARABIC),
    "cp874": _THAI,
    **dict.fromkeys(("cp932", "euc_jp", "iso2022_jp", "gb18030", "big5hkscs", "cp949"), _CJK),
}
# Where the language is known, the bytes may choose among its encodings.
_KIN_LEAST = 8  # non-ASCII bytes
_KIN = ({"cp1250", "iso8859-2"}, {"cp1257", "iso8859-13", "iso8859-4"})

# The likeliest legacy encoding of a page. The languages come from the HTML standard ("suggested
# default encoding"), the domains from countries where such a language is written, as in browsers.
WESTERN = "windows-1252"
_LANGUAGES = {
    "windows-1256": "ar fa ps sd ug ur ckb",
    "windows-1251": "ba be bg ce cv kk ky mk mn os ru sah sr tg tt uk",
    "windows-1250": "bs cs hr ro sh sk sq",
    "iso-8859-2": "hu pl sl",
    "windows-1257": "et lt lv",
    "iso-8859-7": "el",
    "windows-1255": "he iw yi",
    "shift_jis": "ja",
    "euc-kr": "ko",
    "windows-874": "th",
    "windows-1254": "az ku tr",
    "windows-1258": "vi",
    "gbk": "zh zh-cn zh-hans zh-sg",
    "big5": "zh-hant zh-hk zh-mo zh-tw",
}
_DOMAINS = {
    "windows-1256": "ae af bh dz eg iq ir jo kw lb ly ma mr om pk ps qa sa sd sy tn ye "
    "mgb2ddes mgba3a4f16a mgbaam7a8h mgbayh7gpa mgberp4a5d4ar mgbc0a9azcg wgbh1c wgbl6a ygbi2ammx",
    "windows-1251": "bg by kg kz me mk mn rs ru su tj ua "
    "80ao21a 90a3ac 90ae 90ais d1alf j1amh l1acc p1ai",
    "windows-1250": "al ba cz hr ro sk",
    "iso-8859-2": "hu pl si",
    "windows-1257": "ee lt lv",
    "iso-8859-7": "cy gr qxam",
    "windows-1255": "il 4dbrk0ce",
    "shift_jis": "jp",
    "euc-kr": "kp kr 3e0b707e",
    "windows-874": "th o3cw4h",
    "windows-1254": "az tr",
    "windows-1258": "vn",
    "gbk": "cn sg fiqs8s fiqz9s",
    "big5": "hk mo tw j6w193g kprw13d kpry57d",
}
_BY_LANGUAGE = {name: label for label, names in _LANGUAGES.items() for name in names.split()}
_BY_DOMAIN = {name: label for label, names in _DOMAINS.items() for name in names.split()}


# The encoding found in the pages of each host in this process; None: they disagree.
hosts: BoundedDict[str, str | None] = BoundedDict(_HOSTS)


def undeclared(body: bytes, kind: str, url: str) -> str:
    """Python's name of the encoding. ``kind`` is as in Response."""
    sample = _sample(body)
    if sample.isascii():
        return "iso2022_jp" if b"\x1b$" in sample and _is_iso_2022_jp(sample) else "utf-8"
    if _is_utf8(sample):
        return "utf-8"
    if kind == "binary":
        return _codec(WESTERN)
    host = urlsplit(url).hostname or ""
    digest = _digest(sample)
    domain = host.rpartition(".")[2]
    guess, confident = _guess(digest, domain)
    of_kin = guess if confident and len(digest.translate(None, _ASCII)) >= _KIN_LEAST else ""
    letters = _letters(digest, guess)
    known = hosts.get(host)
    if letters and known is not None and letters < _LETTERS and _is_alike(digest, known, guess):
        return known
    if letters:
        _remember(host, guess)
        return guess
    label = encoding_of_language(_language(body[:_HTML_WITHIN]))
    if label is not None:
        usual = _kin(_codec(label), of_kin)
        _remember(host, usual)
        return usual
    if known is not None and _fits(digest, known):
        return known
    return _kin(_codec(encoding_of_domain(domain)), of_kin)


def _remember(host: str, encoding: str) -> None:
    if host:
        hosts[host] = encoding if hosts.get(host, encoding) == encoding else None


def _language(head: bytes) -> str:
    """The language of the first ``<html>`` tag; "" when there is none."""
    tag = _HTML.search(head)
    found = _LANGUAGE.search(tag[1]) if tag else None
    return found[1].decode("ascii", "ignore") if found else ""


def _sample(body: bytes) -> bytes:
    """The first block that is not ASCII, else the first one."""
    if len(body) > _BLOCK and not body.isascii():
        for start in range(0, len(body), _BLOCK):
            block = body[start : start + _BLOCK]
            if not block.isascii():
                return block
    return body[:_BLOCK]


def _digest(sample: bytes) -> bytes:
    digest = b""
    for start in range(0, len(sample), 4 * _DIGEST):
        digest += _ASCII_RUN.sub(b" ", sample[start : start + 4 * _DIGEST])
        if len(digest) >= _DIGEST:
            break
    return digest[:_DIGEST]


def _is_utf8(sample: bytes) -> bool:
    try:
        codecs.utf_8_decode(sample, "strict", len(sample) < _BLOCK)  # else one may be cut off
    except UnicodeDecodeError:
        return False
    return True


def _is_iso_2022_jp(sample: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("iso2022_jp")()
    try:
        decoder.decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _guess(digest: bytes, domain: str) -> tuple[str, bool]:
    """Python's name of the likeliest encoding, and whether it is likelier than the usual one of
    the top-level domain."""
    from chardetng_py.detector import EncodingDetector

    hint = domain.encode() if domain.isascii() and domain.replace("-", "").isalpha() else None
    detector = EncodingDetector()
    detector.feed(digest, last=False)
    label, confident = detector.guess_assess(tld=hint, allow_utf8=False)
    # For some encodings it returns Python's name.
    return codec_of(label) or codecs.lookup(label).name, confident


def _letters(digest: bytes, encoding: str) -> int:
    """The number of letters of the encoding's script if the text is clearly in it, else 0: it has
    little but ASCII besides, most letters are in words, and words do not mix two scripts."""
    script = _SCRIPTS.get(encoding)
    if script is None:
        return 0
    text = digest.decode(encoding, "replace").removesuffix("\ufffd")
    words = _words(script.letter).findall(text)
    letters = sum(map(len, words))
    strange = sum(char.isalpha() or char == "\ufffd" for char in text if char > "\x7f") - letters
    in_runs = sum(len(word) for word in words if len(word) >= script.run)
    clear = letters >= script.least and strange * 10 <= letters and in_runs * 10 >= letters * 6
    return letters if clear and _fits(digest, encoding) else 0


def _is_alike(digest: bytes, known: str, guess: str) -> bool:
    """Whether the text is as clearly in ``known``, another encoding of the same script."""
    return _SCRIPTS.get(known) is _SCRIPTS[guess] and _letters(digest, known) > 0


def _fits(digest: bytes, encoding: str) -> bool:
    """Whether the bytes can be text in this encoding."""
    text = digest.decode(encoding, "replace").removesuffix("\ufffd")
    if "\ufffd" in text:
        return False
    script = _SCRIPTS.get(encoding)
    if script is None:
        return True
    words = len(_words(script.letter).findall(text))
    # Chinese and Japanese are written next to Latin words without a space.
    return script is _CJK or len(_mixed(script.letter).findall(text)) * 4 <= words


@lru_cache(maxsize=16)
def _words(letter: str) -> re.Pattern[str]:
    return re.compile(f"[{letter}]+")


@lru_cache(maxsize=16)
def _mixed(letter: str) -> re.Pattern[str]:
    """Matches where a Latin letter is next to one of the script."""
    return re.compile(f"[A-Za-z](?=[{letter}])|[{letter}](?=[A-Za-z])")


def _kin(usual: str, guess: str) -> str:
    return guess if any(usual in kin and guess in kin for kin in _KIN) else usual


def _codec(label: str) -> str:
    return codec_of(label) or "cp1252"


def encoding_of_language(language: str) -> str | None:
    """The WHATWG label for a language tag such as ``zh-Hant-TW``; None when the tag is no evidence.
    English is none: templates and copied pages declare it whatever their text is in."""
    parts = language.lower().replace("_", "-").split("-")
    if parts[0] in ("", "en"):
        return None
    for part in parts[1:]:
        if label := _BY_LANGUAGE.get(f"{parts[0]}-{part}"):
            return label
    return _BY_LANGUAGE.get(parts[0], WESTERN)


def encoding_of_domain(top_level: str) -> str:
    """The WHATWG label for a top-level domain in lower case, in its ASCII form."""
    return _BY_DOMAIN.get(top_level.removeprefix("xn--"), WESTERN)
