"""The most likely legacy encoding of a page, by its language and its top-level domain.

The languages come from the HTML standard ("suggested default encoding"), the domains from countries
where such a language is written, as in browsers."""

from __future__ import annotations

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
