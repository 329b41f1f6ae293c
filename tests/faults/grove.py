"""Grove: the team's app of the campaign, with the tables of the spider's items."""

from __future__ import annotations

from pathlib import Path

from django.db import connection

NAME = "grove"
MODELS = '''"""Tables of what the maze's spider finds."""

from django.db import models


class Word(models.Model):
    word = models.TextField(unique=True)
    site = models.TextField()


class Leaf(models.Model):
    site = models.TextField()
    page = models.IntegerField()
    word = models.ForeignKey(Word, models.CASCADE)
'''

LEAVES = """
SELECT leaf.page, word.word FROM grove_leaf leaf JOIN grove_word word ON word.id = leaf.word_id
WHERE leaf.site = %s ORDER BY leaf.page
"""


def write(directory: Path) -> None:
    """Writes the app into a directory from which it can be imported; its migration is still to be
    made."""
    app = directory / NAME
    (app / "migrations").mkdir(parents=True)
    for file, text in (("__init__", ""), ("migrations/__init__", ""), ("models", MODELS)):
        (app / f"{file}.py").write_text(text)


def leaves(site: str) -> list[tuple[int, str]]:
    """Page and word of each row that was inserted for a site, by page."""
    with connection.cursor() as cursor:
        cursor.execute(LEAVES, [site])
        return [(page, word) for page, word in cursor.fetchall()]


def words(site: str) -> list[str]:
    """The words whose rows name this site, on which they were found last."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT word FROM grove_word WHERE site = %s", [site])
        return [word for (word,) in cursor.fetchall()]
