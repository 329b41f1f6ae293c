"""Encodings: detected as browsers do, and only by the labels of the WHATWG."""

from __future__ import annotations

from collections import Counter

import pytest
from multidict import CIMultiDict

from crawlframe.charsets import detection
from crawlframe.charsets.detection import encoding_of_domain, encoding_of_language
from crawlframe.charsets.encoding import content_type_of, declared_in, encoding_of
from crawlframe.charsets.labels import codec_of, encode
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from tests import prose


@pytest.fixture(autouse=True)
def _no_host_is_known() -> None:
    detection.hosts.clear()


def page(
    body: bytes, url: str = "http://example.com/", content_type: str = "text/html"
) -> Response:
    return Response(url, 200, {"Content-Type": content_type}, body, Request(url))


# -- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        (" latin1\n", "cp1252"),
        ("ascii", "cp1252"),
        ("iso-8859-9", "cp1254"),
        ("gb2312", "gb18030"),
        ("x-gbk", "gb18030"),
        ("euc-kr", "cp949"),
        ("ks_c_5601-1987", "cp949"),
        ("big5", "big5hkscs"),
        ("x-sjis", "cp932"),
        ("tis-620", "cp874"),
        ("iso-8859-8-i", "iso8859-8"),
        ("macintosh", "mac-roman"),
        ("koi8-ru", "koi8-u"),
        ("utf-16", "utf-16-le"),
        ("hz-gb-2312", "replacement"),
        ("x-user-defined", "x-user-defined"),
        ("cp437", None),
        ("utf-7", None),
        ("klingon", None),
        ("\u212aoi8-r", None),  # a Kelvin sign, which lower() makes a k
    ],
)
def test_labels_are_those_of_the_standard(label: str, name: str | None) -> None:
    assert codec_of(label) == name
    if name is not None:
        assert isinstance(b"a\xe4b\x81<".decode(name, "replace"), str)


CODECS = ["punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "base64", "zlib",
          "bz2", "hex", "rot13", "quopri", "uu", "utf-7", "cp037", "mbcs", "palmos"]  # fmt: skip


@pytest.mark.parametrize("label", CODECS)
def test_codecs_that_are_no_encodings_of_the_web_count_as_undeclared(label: str) -> None:
    text = "größe \\u0041 eJwDAAAAAAE= -q3a"
    for body, content_type in (
        (text.encode(), f"text/html; charset={label}"),
        (f"<meta charset={label}>{text}".encode(), "text/html"),
        (f'<meta http-equiv=content-type content="text/html; charset={label}">{text}'.encode(),
         "text/html"),
        (f'<?xml version="1.0" encoding="{label}"?><a>{text}</a>'.encode(), "application/xml"),
    ):  # fmt: skip
        response = page(body, content_type=content_type)
        assert response.encoding == "utf-8"
        assert text in response.text
        assert response.links() == []


def test_an_unknown_label_in_the_header_leaves_the_word_to_the_page() -> None:
    body = b"<meta charset=koi8-r>" + "да".encode("koi8-r")
    assert page(body, content_type="text/html; charset=punycode").text.endswith("да")


def test_encodings_that_python_lacks() -> None:
    assert page(b"a\xe4", content_type="text/html; charset=x-user-defined").text == "a\uf7e4"
    assert page(b"<a href=x>", content_type="text/html; charset=iso-2022-kr").text == "\ufffd"
    body = "<meta charset=x-user-defined>ä".encode("cp1252")
    assert page(body).encoding == "cp1252"
    assert encode("ä", "utf-16-le") == encode("ä", "replacement") == "ä".encode()
    assert encode("ä中", "cp1252") == b"\xe4&#20013;"


@pytest.mark.parametrize("label", ["gbk", "big5", "euc-jp", "shift_jis", "euc-kr", "gb18030"])
def test_a_torn_character_does_not_swallow_markup(label: str) -> None:
    body = b"<p title='\x81'><a href=/x>\xfe</a><p>"
    assert page(body, content_type=f"text/html; charset={label}").links() == [
        "http://example.com/x"
    ]


# -- declarations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<META\nCHARSET = 'KOI8-R' />", "koi8-r"),
        (b"<meta/charset=koi8-r>", "koi8-r"),
        (b"<meta name=a content=b><meta charset=koi8-r>", "koi8-r"),
        (b"<!-- <meta charset=gbk> --><meta charset=koi8-r>", "koi8-r"),
        (b"<a title='<meta charset=gbk>'><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=klingon><meta charset=koi8-r>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r' http-equiv=Content-Type>", "koi8-r"),
        (b"<meta http-equiv=content-type content='a; charset = \"koi8-r\" '>", "koi8-r"),
        (b"<meta charset=koi8-r charset=gbk>", "koi8-r"),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r"),
        (b"<?xml version='1.0' encoding='gbk'?><meta charset=koi8-r>", "koi8-r"),
        (b"<!-- " + b"x" * 5000 + b" --><meta charset=koi8-r>", "koi8-r"),
        (b"<meta name=charset content='koi8-r'>", "cp1252"),
        (b"<meta content='text/html; charset=koi8-r'>", "cp1252"),
        (b"<metacharset=koi8-r>", "cp1252"),
        (b"<!-- <meta charset=koi8-r>", "cp1252"),
        (b"<body><meta charset=koi8-r>", "cp1252"),
        (b"<meta charset=koi8-r", "koi8-r"),
    ],
)
def test_declarations_in_a_page(head: bytes, name: str) -> None:
    assert encoding_of(head + b" \xe4 ", None, "html") == name


@pytest.mark.parametrize(
    "unit", [b"<meta ", b'<meta a="', b"<!--", b"<a b='", b"<", b"<meta charset=x ", b"=", b"\xe4"]
)
def test_declarations_are_looked_for_in_linear_time(unit: bytes) -> None:
    """Quadratic time would be hours here."""
    assert encoding_of(unit * (30_000_000 // len(unit)), "text/html", "html")


def test_utf_16_without_a_mark() -> None:
    text = '<?xml version="1.0"?><a>größe</a>'
    assert page(text.encode("utf-16-le"), content_type="text/xml").text == text
    assert page(text.encode("utf-16-be"), content_type="text/xml").text == text


# -- nothing declared ---------------------------------------------------------------------------


def test_western_pages_of_one_site_are_all_windows_1252() -> None:
    pages = list(prose.western())
    assert len(pages) >= 209
    wrong = Counter(
        language
        for language, text in pages
        if page(text.encode("cp1252"), "http://site.example/").text != text
    )
    assert not wrong


def test_western_pages_are_windows_1252_whatever_was_seen_before() -> None:
    for number, (_, text) in enumerate(prose.western()):
        assert page(text.encode("cp1252"), f"http://{number}.example/").text == text


@pytest.mark.parametrize(("encoding", "text"), [*prose.others()])
def test_other_scripts_are_recognised(encoding: str, text: str) -> None:
    assert page(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("url", "head", "name"),
    [
        ("http://a.com/", "", "cp1252"),
        ("http://a.de/", "", "cp1252"),
        ("http://a.cz/", "", "cp1250"),
        ("http://a.hu:8080/", "", "iso8859-2"),
        ("http://a.ru/", "", "cp1251"),
        ("http://a.xn--p1ai/", "", "cp1251"),
        ("http://a.gr/", "", "iso8859-7"),
        ("http://a.com.tr/", "", "cp1254"),
        ("http://a.jp/", "", "cp932"),
        ("http://a.kr/", "", "cp949"),
        ("http://a.cn/", "", "gb18030"),
        ("http://a.tw/", "", "big5hkscs"),
        ("http://a.il/", "", "cp1255"),
        ("http://a.th/", "", "cp874"),
        ("http://a.lt/", "", "cp1257"),
        ("http://a.vn/", "", "cp1258"),
        ("http://a.eg/", "", "cp1256"),
        ("http://127.0.0.1/", "", "cp1252"),
        ("http://a.com/", "<html lang=cs>", "cp1250"),
        ("http://a.com/", '<html class="x" lang="tr-TR">', "cp1254"),
        ("http://a.com/", '<html xml:lang="zh-Hant-HK">', "big5hkscs"),
        ("http://a.ru/", "<html lang=de>", "cp1252"),
        # Only one tag is looked at, and for some KB: many would take as long as the detector.
        ("http://a.com/", "<html class=x><html lang=ru>", "cp1252"),
        ("http://a.com/", "<html " * 10_000 + "><html lang=ru>", "cp1252"),
        ("http://a.ru/", "<html lang=en>", "cp1251"),  # templates say so on every page
    ],
)
def test_the_fallback_is_by_language_and_domain(url: str, head: str, name: str) -> None:
    assert page(head.encode() + b"<p>\xa9 1998</p>", url).encoding == name


def test_polish_in_either_encoding() -> None:
    text = "<p>Późną jesienią źdźbła trawy są śliskie, a łąki żółkną.</p>" * 3
    for encoding in ("cp1250", "iso8859-2"):
        assert page(text.encode(encoding), "http://a.pl/").text == text


def test_pages_that_say_little_are_as_the_others_of_their_host() -> None:
    russian, little = prose.OTHERS["ru"].encode("koi8-r"), b"<p>\xa9 \xe4\xc1</p>"
    assert page(little, "http://a.com/1").encoding == "cp1252"
    assert page(russian, "http://a.com/2").encoding == "koi8-u"
    assert page(little, "http://a.com/3").encoding == "koi8-u"
    assert page(little, "http://b.com/").encoding == "cp1252"
    # Other scripts than Cyrillic decide for themselves.
    assert page("<p>Grüße aus Köln</p>".encode("cp1252"), "http://a.com/4").text.count("ü") == 1
    # Pages that disagree say nothing of others.
    assert page(prose.OTHERS["el"].encode("cp1253"), "http://a.com/5").encoding == "cp1253"
    assert page(little, "http://a.com/6").encoding == "cp1252"


def test_only_a_part_of_a_page_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block that is not ASCII."""
    seen: list[bytes] = []
    real = detection._is_utf8

    def is_utf8(sample: bytes) -> bool:
        seen.append(sample)
        return real(sample)

    monkeypatch.setattr(detection, "_is_utf8", is_utf8)
    text = f"{'x' * 1_000_000}<p>{prose.OTHERS['ru'] * 5000}</p>"
    assert page(text.encode("cp1251")).encoding == "cp1251"
    assert page(text.encode()).encoding == "utf-8"  # its last character is torn
    assert [len(sample) for sample in seen] == [1 << 16, 1 << 16]


def test_tables() -> None:
    assert encoding_of_language("sr_Latn_RS") == "windows-1251"
    assert encoding_of_language("zh-TW") == "big5"
    assert encoding_of_language("") is None
    assert encoding_of_domain("xn--kprw13d") == "big5"
    for label in ("windows-1252", *map(encoding_of_domain, ("ru", "jp", "kr", "cn", "th", "vn"))):
        assert codec_of(label)


# The results of Chromium 156 for these (document.characterSet of a page in ASCII).
OF_CHROMIUM = [
    ("text/html; charset=gb18030", "gb18030"),
    ('text/html;charset="gb18030"', "gb18030"),
    ("text/html;charset='gb18030'", None),
    ("text/html; charset=gb18030; charset=utf-8", "gb18030"),
    ('text/html; charset="gb18030', "gb18030"),
    ('text/html; charset="gb\\18030"', "gb18030"),
    ("text/html; charset= gb18030", "gb18030"),
    ("text/html; charset =gb18030", None),
    ("text/html; charset = gb18030", None),
    ("text/html charset=gb18030", None),
    ("text/html, charset=gb18030", None),
    ("text/html; charset=gb18030, text/html", "gb18030"),
    ('text/html; foo="; charset=koi8-r"; charset=gb18030', "gb18030"),
    ("text/html; foo='; charset=koi8-r'; charset=gb18030", None),
    ("text/html;;charset=gb18030", "gb18030"),
    ("text/html; charset=; charset=gb18030", "gb18030"),
    ('text/html; charset=""; charset=gb18030', None),
    ("text/html; charset=nope; charset=gb18030", None),
    ("text/html; CHARSET=GB18030", "gb18030"),
    ("text/html; xcharset=gb18030", None),
    ("text/html; x-charset=koi8-r; charset=gb18030", "gb18030"),
    ("text/html; charset=gb18030 ; q=1", "gb18030"),
    ("text/html; charset=gb18030 foo", None),
    ("text/html; charset=gb18030(c)", None),
    ('text/html; charset="gb18030"foo', "gb18030"),
    ('text/html; charset=" gb18030 "', "gb18030"),
    ("text/html; charset:gb18030", None),
    ('text/html; charset=gb18030"', None),
    ('text/html; charset="gb18030;koi8-r"', None),
    ("text/html;charset=gb18030, text/html;charset=koi8-r", "koi8-r"),
    ("text/html;charset=gb18030, text/html", "gb18030"),
    ("text/html, text/html;charset=gb18030", "gb18030"),
    ("text/plain;charset=gb18030, text/html", None),
    ("text/html;charset=koi8-r,text/html;charset=gb18030", "gb18030"),
    ("text/html; charset*=gb18030", None),
    ("text/html\t;\tcharset=gb18030", "gb18030"),
    ('text/html; boundary="a;b\\";charset=koi8-r"; charset=gb18030', "gb18030"),
    ("TEXT/HTML; charset=gb18030", "gb18030"),
    ("text/html; charset=gb18030;", "gb18030"),
    ("text/html;charset=utf-8;charset=gb18030", "utf-8"),
    ('text/html; charset="utf-8" "gb18030"', "utf-8"),
    ('text/html; "charset"=gb18030', None),
    ("text/html; charset=%67b18030", None),
    ("text/html; charset=gb_18030", None),
    ("text/html; charset=\xa0gb18030", None),
    ("text/html; charset=\x0bgb18030", None),
]


@pytest.mark.parametrize(("header", "encoding"), OF_CHROMIUM)
def test_content_types_are_read_as_by_chromium(header: str, encoding: str | None) -> None:
    assert declared_in(header) == encoding
    assert content_type_of(header).essence == "text/html"


@pytest.mark.parametrize(
    ("headers", "kind", "encoding"),
    [
        (["text/html", "text/html; charset=koi8-r"], "html", "koi8-r"),
        (["text/plain; charset=koi8-r", "text/html"], "html", "utf-8"),
        (["text/plain", "*/*", "nothing"], "text", "utf-8"),
        (["text/html charset=koi8-r"], "html", "utf-8"),
        (["*/*"], "html", "utf-8"),
        (["charset=koi8-r"], "html", "utf-8"),
        ([";" * 100_000 + '"' * 100_000 + "charset=koi8-r"], "html", "utf-8"),
    ],
)
def test_several_content_types(headers: list[str], kind: str, encoding: str) -> None:
    pairs = CIMultiDict([("Content-Type", header) for header in headers])
    response = Response("http://a/", 200, pairs, b"<!doctype html><p>page", Request("http://a/"))
    assert (response.kind, response.encoding) == (kind, encoding)
