"""Mutated pages: sound ones with parts cut out, doubled or replaced, by a seeded generator."""

from __future__ import annotations

from random import Random

PAGE = """<!doctype html><html lang="en" prefix="og: http://ogp.me/ns#"><head><meta charset="utf-8">
<title>Tea &amp; kettles</title><base href="/shop/"><link rel="canonical" href="https://s.example/1">
<meta name="robots" content="noindex, unavailable_after: 25 Jun 2030 15:00:00 GMT">
<meta property="og:title" content="Tea"><meta name="author" content="Ann &amp; Ben">
<meta http-equiv="refresh" content="5; url=/next"><meta name="tdm-reservation" content="1">
<script type="application/ld+json">{"@graph": [{"@type": "Product", "name": "Tea", "offers":
{"@type": "Offer", "price": 9.5}}, {"@type": ["Article", "x"], "datePublished": "2024-01-01"}]}
</script></head><body itemscope itemtype="https://schema.org/Product" itemref="more">
<nav class="menu"><ul><li><a href="/a" rel="nofollow">A</a><li><a href="b?x=1&y=2#top">B</a></ul>
<map name="m"><area href="area" shape="rect"></map></nav><article><h1 itemprop="name">Kettle</h1>
<p>A kettle is a vessel in which water is boiled, and this sentence goes on for long enough to be a
piece of running text, with <a href="link">a link</a> and <b>more <i>words</b> in it</i>.
<p itemprop="description">Another paragraph, published on <time datetime="2024-05-06">6 May 2024
</time>, again with enough words in it to be taken for what the page is about, <a href="">or no</a>.
<img itemprop="image" src="1.jpg" srcset="2.jpg 2x" alt=""><video src="v.mp4"><source src="w.webm">
</video><svg><a xlink:href="/svg"><text>s</text></a><title>t</title></svg></article>
<table><form id="f" action="find" method="post"><tr><td><input name="q" value="1">
<select name="s"><option>1<optgroup disabled><option selected value="">2</select></td></tr>
<tr><td><textarea name="t">text</textarea><button name="b">Go</button></form></table>
<div id="more"><span itemprop="price" content="1">one</span><link itemprop="x" href="y"></div>
<form><input type="radio" name="r" checked><fieldset disabled><legend><input name="l"></legend>
</fieldset></form><footer><a href="mailto:a@b">m</a> <a href="http://[">n</a> <a>o</a></footer>
</body></html>"""
FEED = """<?xml version="1.0" encoding="utf-8"?><rss xmlns:g="http://g.example/"><channel><title>T
</title><item><title>A &amp; b</title><link>http://s.example/1</link><g:price>9</g:price></item>
<item><title><![CDATA[c < d]]></title><link>http://s.example/2</link></item><!-- end --></channel>
</rss>"""
SITEMAP = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>http://s.example/1?a=1&amp;b=2</loc>
<lastmod>2026-11-22T08:00+02:00</lastmod><xhtml:link rel="alternate" href="http://s.example/de"/>
</url><url><loc> http://s.example/2 </loc><lastmod>2026</lastmod></url></urlset>"""

# Insertions: tags that change how the rest is read, and attributes with odd values or none.
INSERTED = (
    "<svg>",
    "</svg>",
    "<math>",
    "<mtext>",
    "<math><a href=m>",
    "<template>",
    "</template>",
    "<frameset><frame src=f>",
    "<noscript>",
    "<select>",
    "</select>",
    "<table>",
    "<tr><td>",
    "<foreignObject>",
    "<desc>",
    "<svg><a xlink:href>",
    "<svg><a href>",
    "<svg><base href=x>",
    "<a href>",
    "<area href>",
    "<base href>",
    "<base href='javascript:1'>",
    "<base href='data:,'>",
    "<form>",
    "</form>",
    "<form id>",
    "<input>",
    "<input name form>",
    "<input form=f name=far>",
    "<button>",
    "<option>",
    "<textarea>",
    "<script>",
    "<style>",
    "<title>",
    "<!--",
    "-->",
    "<![CDATA[",
    "<plaintext>",
    "<p itemprop>",
    "<i itemscope itemref itemid itemtype itemprop>",
    "<meta content>",
    "<meta name=robots content>",
    "<meta property content=1>",
    "<meta property=og:x content>",
    "<script type>{}</script>",
    "<script type='application/ld+json'>",
    "<p id>",
    "<p class>",
    "<html lang>",
    "<a rel href=x>",
    "<time datetime>",
    "<link itemprop href>",
    "<img src srcset>",
    "<a href='http://a b/'>",
    "<a href='//'>",
    "<a href='&#xD800;&#0;'>",
    "<a href='\ud7ff\ufffe'>",
    "<date>2024-13-45</date>",
    "<meta name=date content=99999999999999>",
    "&#99999999999;",
    "\0",
    "\x0b",
    "]]>",
    "<?pi",
    "&amp",
    "&",
    "<",
    ">",
    '"',
    "'",
    "=",
    "</",
    "<a",
    "<item>",
    "</item>",
    "<url>",
    "<loc>",
)


def mutated(page: bytes, random: Random, most: int = 12) -> bytes:
    """The page with up to ``most`` damages."""
    data = bytearray(page)
    for _ in range(random.randint(1, most)):
        size = len(data)
        at, length = random.randrange(size + 1), min(random.randint(1, 400), size)
        end = min(at + length, size)
        match random.randrange(6):
            case 0:  # the page ends here, or a part is missing
                del data[at : end if random.random() < 0.9 else size]
            case 1:
                data[at:at] = data[at:end] * random.randint(1, 3)
            case 2:
                for one in range(at, min(at + 3, size)):
                    data[one] ^= 1 << random.randrange(8)
            case 3:
                data[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 4)))
            case _:  # between tags, so that it is one
                at = data.find(b"<", at) if random.random() < 0.8 else at
                data[max(at, 0) : max(at, 0)] = random.choice(INSERTED).encode()
        if not data:
            data += b"<"
    return bytes(data)
