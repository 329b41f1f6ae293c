"""Languages: texts of simulated items."""

from __future__ import annotations

from random import Random

WORDS = {
    "en": "the and of with for in to a is on this that from by as at it or your are "
    "chair table lamp garden kitchen wooden steel large small blue green light quality modern "
    "handmade comfortable suitable delivered warranty years colour size easily cleaned strong",
    "de": "der die und mit für das ein eine ist von zu im auf den nicht auch aus bei oder sehr "
    "Stuhl Tisch Leuchte Garten Küche Holz Stahl groß klein blau grün leicht Qualität schön "
    "handgefertigt bequem geeignet geliefert Garantie Jahre Farbe Größe reinigen kräftig",
    "fr": "le la les et de des pour avec dans un une est sur ce cette par en au qui plus "
    "chaise table lampe jardin cuisine bois acier grand petit bleu léger qualité moderne "
    "fabriqué confortable adapté livré garantie années couleur taille nettoyer étanche élégant",
    "es": "el la los y de para con en un una es sobre este esta por del al que se más "
    "silla mesa lámpara jardín cocina madera acero grande pequeño azul ligero calidad moderno "
    "artesanal cómodo adecuado entregado garantía años color tamaño limpiar fácil español",
    "ru": "и в на с для из по от до не это как или при также стул стол лампа сад кухня дерево "
    "сталь большой маленький синий зелёный лёгкий качество современный удобный подходит "
    "гарантия лет цвет размер прочный чистить",
    "zh": "的 和 在 是 与 适合 这个 木制 钢制 椅子 桌子 台灯 花园 厨房 大号 小号 蓝色 绿色 轻便 "
    "质量 现代 手工 舒适 保修 颜色 尺寸 结实 容易 清洗",
}
WORDS_OF = {language: text.split() for language, text in WORDS.items()}


def sentence(random: Random, language: str, least: int, most: int) -> str:
    """Some words, the first ones of the language most often, as in any language."""
    words = WORDS_OF[language]
    count = random.randint(least, most)
    chosen = [words[int(len(words) * random.random() ** 1.5)] for _ in range(count)]
    text = ("" if language == "zh" else " ").join(chosen)
    if language == "en" and random.random() < 0.4:
        text += " it’s"
    return text
