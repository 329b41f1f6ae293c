"""Forms of every kind, by a seeded generator."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "c", "d.e", "x y", 'q"t', "n\nl", "ü", "")
TEXTS = (
    "",
    "1",
    "two words",
    " a ",
    "ü €",
    "☃",
    "a&b=c+~*",
    "l1\nl2",
    "\nl\r\nm",
    "</form>",
    "שלום",
)
TYPES = (
    "text",
    "TEXT",
    "hidden",
    "search",
    "password",
    "email",
    "url",
    "tel",
    "checkbox",
    "radio",
    "file",
    "odd",
    " text",
)
LABELS = (" a  b ", "c", "", " <b>d</b> e", "f<script>1</script>", "&nbsp;g")
OPENED = (
    "<div>",
    "</div>",
    "<p>",
    "<ul><li>",
    "<li>",
    "</ul>",
    "<table>",
    "<tr><td>",
    "<td>",
    "</td></tr>",
    "</table>",
    "<fieldset>",
    "<fieldset disabled>",
    "<legend>",
    "</legend>",
    "</fieldset>",
    "<template>",
    "</template>",
    "<datalist>",
    "</datalist>",
    "<b>",
    "<i><p>",
    "</b>",
    "<noscript>",
    "</noscript>",
    "<svg>",
    "</svg>",
    "<math><mtext>",
    "</math>",
    "<select>",
)
FORMS = (
    "</form>",
    "</form>",
    "<form id=g>",
    "<form><input name=nested>",
    "<!-- </form> -->",
    "</FORM x=1>",
    "<script>'</form>'</script>",
    "<i title='</form>'></i>",
    "<textarea name=t>\n</form> t</textarea>",
    "<title></form></title>",
    "<form id=h action=/h></form>",
    "<style></form></style>",
    "</div></form>",
)
ACTIONS = (
    "",
    " ",
    "go",
    "/go?z=1#top",
    "?q=ü",
    "../x",
    "//other.example/p",
    "http://shop.example/ü",
)
ENCTYPES = (
    "multipart/form-data",
    "text/plain",
    "TEXT/PLAIN",
    "application/x-www-form-urlencoded",
    "x",
)


def quoted(text: str) -> str:
    return '"' + text.replace("&", "&amp;").replace('"', "&quot;") + '"'


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _often(self, share: float, text: str) -> str:
        return text if self._random.random() < share else ""

    def _one(self, texts: tuple[str, ...]) -> str:
        return self._random.choice(texts)

    def page(self) -> str:
        parts = [self._often(0.2, "<base href=/b/c>"), self._often(0.5, self._part())]
        attributes = [
            self._often(0.7, f" action={quoted(self._one(ACTIONS))}"),
            self._often(0.7, f" method={self._one(('post', 'POST', 'get', 'x', ''))}"),
            self._often(0.5, f" enctype={self._one(ENCTYPES)}"),
            self._often(
                0.2, f" accept-charset='{self._one(('utf-8', 'x latin1', 'gb18030', 'x'))}'"
            ),
        ]
        parts.append(f"<form id=f novalidate{''.join(attributes)}>")
        parts += [self._part() for _ in range(self._random.randint(1, 12))]
        return "".join(parts)

    def _part(self) -> str:
        chance = self._random.random()
        if chance < 0.25:
            return self._one(OPENED)
        return self._one(FORMS) if chance < 0.35 else self._control()

    def _control(self) -> str:
        common = [
            self._often(0.9, f" name={quoted(self._one(NAMES))}"),
            self._often(0.08, " disabled"),
            self._often(0.12, f" form={self._one(('f', 'g', 'no', quoted('')))}"),
        ]
        rest = "".join(common)
        value = self._often(0.7, f" value={quoted(self._one(TEXTS))}")
        match self._random.randrange(8):
            case 0:
                return f"<textarea{rest}>{self._one(TEXTS)}</textarea>"
            case 1:
                return self._select(rest)
            case 2:
                kind = self._often(
                    0.7, f" type={self._one(('submit', 'SUBMIT', 'button', 'reset', 'x'))}"
                )
                own = self._often(0.2, f" formaction={quoted(self._one(ACTIONS))}")
                own += self._often(0.2, f" formmethod={self._one(('post', 'get', ''))}")
                own += self._often(0.2, f" formenctype={self._one(ENCTYPES)}")
                return f"<button{rest}{kind}{own}{value}>Go</button>"
            case 3:
                kind = self._one(("submit", "image", "reset", "button", "Image"))
                return f"<input type={kind}{rest}{value}>"
            case 4:
                kind = self._one(("radio", "checkbox"))
                return f"<input type={kind}{rest}{value}{self._often(0.6, ' checked')}>"
            case _:
                kind = self._often(0.8, f" type={quoted(self._one(TYPES))}")
                return f"<input{kind}{rest}{value}{self._often(0.3, ' checked')}>"

    def _select(self, rest: str) -> str:
        parts = [f"<select{rest}{self._often(0.3, ' multiple')}{self._often(0.2, ' size=3')}>"]
        for _ in range(self._random.randrange(5)):
            parts += [
                self._often(0.2, "<optgroup>"),
                self._often(0.1, "<optgroup disabled>"),
                "<option",
                self._often(0.3, " selected"),
                self._often(0.2, " disabled"),
                self._often(0.1, " hidden"),
                self._often(0.2, " label=l"),
                self._often(0.4, f" value={quoted(self._one(TEXTS))}"),
                f">{self._one(LABELS)}",
                self._often(0.5, "</option>"),
            ]
        return "".join([*parts, self._often(0.9, "</select>")])
