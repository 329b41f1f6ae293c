"""Sentences in many languages, and pages made of them that declare no encoding."""

from __future__ import annotations

import random
from collections.abc import Iterator

WESTERN = {
    "de": [
        "Die Bäckerei an der Straßenecke öffnet schon um fünf Uhr früh.",
        "Für größere Mengen gewähren wir Ihnen selbstverständlich einen Nachlass.",
        "Müller & Söhne: Türen, Fenster, Rollläden – seit über fünfzig Jahren.",
        "ÖFFNUNGSZEITEN UND PREISÜBERSICHT",
    ],
    "fr": [
        "L’été dernier, nous avons loué une maison près de la forêt, à côté d’un château.",
        "Ça coûte très cher, mais la qualité du bœuf est garantie.",
        "Les élèves de troisième ont visité le musée où l’on conserve les œuvres.",
        "« Où êtes-vous né ? » demanda-t-il à l’hôtesse.",
    ],
    "es": [
        "¿Cuándo llegará el próximo tren a la estación de Logroño?",
        "El niño comió una piña mañana y tarde; ¡qué sueño tenía después!",
        "Según el capitán, la navegación será más fácil el miércoles.",
        "La compañía no admitirá ningún reclamo después del día quince.",
    ],
    "pt": [
        "A reunião será às três horas, no salão do edifício da Câmara.",
        "Não há pão nem maçãs; amanhã voltaremos à feira.",
        "Informações sobre inscrições estão disponíveis na secção de formação.",
        "O avô pôs os óculos e leu o jornal até ao almoço.",
    ],
    "it": [
        "La città è bellissima, perché c’è ancora un po’ di verde.",
        "Così andò: prese il caffè, pagò e se ne andò più tardi.",
        "La qualità dell’attività dipende dalla velocità.",
        "Lunedì e venerdì il museo è chiuso.",
    ],
    "nl": [
        "De coördinator heeft geïnformeerd naar de financiële situatie van België.",
        "Één van de ruïnes ligt vlak bij de zeeën van weleer.",
        "De crème brûlée kost € 6,50 in het café aan de overkant.",
    ],
    "sv": [
        "Båten går från ön till hamnen klockan åtta på måndagar.",
        "Här får ni färska räkor, smör och rågbröd för sjuttio kronor.",
        "Vår förening söker någon som kan sköta trädgården.",
        "ÄLSKADE SKÄRGÅRDSÖAR",
    ],
    "da": [
        "Færgen sejler fra øen hver dag på nær søndag, også når det blæser.",
        "Vi sælger frugt, grøntsager og æg fra gården på Fyn.",
        "Smørrebrød med rødspætte og løg hører sommeren til.",
    ],
    "no": [
        "Været på fjellet kan være dårlig, så ta med klær for både sol og snø.",
        "Åpningstidene gjelder ikke på røde dager.",
        "Kjøp billetter på nett før du går ombord i båten.",
    ],
    "fi": [
        "Järven rannalla on pieni mökki, jossa yövymme heinäkuussa.",
        "Tänään sää on hyvä, mutta huomenna sataa räntää.",
        "Työpäivän jälkeen lähdemme syömään äidin luo.",
    ],
    "is": [
        "Veðrið á Íslandi breytist fljótt, og þess vegna er gott að taka með sér úlpu.",
        "Það er þögn í húsinu þegar börnin sofa í rúmunum sínum.",
        "Ég ætla að fá mér fisk og kartöflur í kvöldmat.",
    ],
    "ca": [
        "L’edifici és a la plaça, davant de l’església; l’entrada és lliure.",
        "Això passà l’any següent, quan la col·lecció ja era completa.",
        "El pròxim dijous hi haurà una reunió a l’institut de Vilafranca del Penedès.",
    ],
    "en": [
        "The café’s owner said: “We don’t take cards” – and that was that.",
        "It costs £15 or €18, plus 5½ % tax; temperatures reach 30 °C in August.",
        "© 1998–2004 Smith & Naïve Brothers, Ltd. All rights reserved ®",
    ],
}
OTHERS = {
    "ru": "Вчера вечером мы долго гуляли по набережной и смотрели, как проходят корабли.",
    "uk": "Учора ввечері ми довго гуляли набережною та дивилися, як проходять кораблі.",
    "bg": "Вчера вечерта дълго се разхождахме край реката и гледахме как минават корабите.",
    "el": "Χθες το βράδυ περπατήσαμε πολύ στην παραλία και κοιτάζαμε τα πλοία που περνούσαν.",
    "he": "אתמול בערב טיילנו זמן רב לאורך הנהר והסתכלנו על הספינות העוברות.",
    "ar": "مشينا أمس مساء طويلا على ضفة النهر وشاهدنا السفن وهي تمر من أمامنا.",
    "th": "เมื่อวานตอนเย็นเราเดินเล่นริมแม่น้ำอยู่นานและดูเรือแล่นผ่านไปมา",
    "ja": "昨日の夕方、私たちは川のほとりを長い間散歩して、船が通り過ぎるのを眺めていました。",
    "zh": "昨天晚上我们沿着河边走了很久，看着船只来来往往，非常开心。",
    "zh-tw": "昨天晚上我們沿著河邊走了很久，看著船隻來來往往，非常開心。",
    "ko": "어제 저녁에 우리는 강변을 오래 걸으며 배가 지나가는 것을 바라보았습니다.",
}
# As Python names them; the WHATWG label is another for some.
ENCODINGS = {
    "ru": ["cp1251", "koi8_r", "iso8859_5"],
    "uk": ["cp1251", "koi8_u"],
    "bg": ["cp1251"],
    "el": ["iso8859_7", "cp1253"],
    "he": ["cp1255"],
    "ar": ["cp1256"],
    "th": ["cp874"],
    "ja": ["cp932", "euc_jp", "iso2022_jp"],
    "zh": ["gb18030"],
    "zh-tw": ["big5"],
    "ko": ["cp949"],
}


def html(paragraphs: list[str]) -> str:
    body = "".join(
        f'<p class="text">{text} <a href="/next">&raquo;</a></p>\n' for text in paragraphs
    )
    return (
        "<!DOCTYPE html>\n<html><head><title>Page</title><link rel=stylesheet href=/s.css></head>\n"
        f"<body><div id=main>\n{body}</div></body></html>\n"
    )


def western(count: int = 18) -> Iterator[tuple[str, str]]:
    """``count`` pages of each language, from one sentence to several hundred, with the language."""
    for language, sentences in WESTERN.items():
        dice = random.Random(language)
        for number in range(count):
            length = (1, 2, 3, 8, 40, 300)[number % 6]
            yield language, html(dice.choices(sentences, k=length))


def others() -> Iterator[tuple[str, str]]:
    """Pages in other scripts, each with the name of its encoding."""
    for language, encodings in ENCODINGS.items():
        for encoding in encodings:
            for length in (1, 5, 60):
                yield encoding, html([OTHERS[language]] * length)
