"""Charsets: manuals have names such as index.html.ja.utf8, which contain language and charset, as
Apache's MultiViews reads them."""

from __future__ import annotations

CHARSETS = {
    "utf-?8": "utf-8",
    "euc-kr": "euc-kr",
    "euc-jp": "euc-jp",
    "iso-2022-jp": "iso-2022-jp",
    "koi8-r": "koi8-r",
    "iso8859-1|latin1": "iso-8859-1",
    "gb2312": "gb2312",
    "big5": "big5",
}
# For nginx: a name with a charset, and one with a language only.
LOCATIONS = "".join(
    f'    location ~* "\\.html.*\\.({suffix})$" '
    f"{{ types {{ }} default_type text/html; charset {charset}; }}\n"
    for suffix, charset in CHARSETS.items()
) + ('    location ~* "\\.html\\.[a-z-]+$" { types { } default_type text/html; }\n')
