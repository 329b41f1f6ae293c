"""Lessons about templates, in Redis."""

from __future__ import annotations

import pytest

from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.render.knowledge import LIFE, STREAK, Knowledge, Lesson, URLTemplate
from crawlframe.render.yielded import Taught

PAGE = URLTemplate("parse", "shop.example/product/*")
OTHER = URLTemplate("parse_list", "shop.example/product/*")


def teach(bench, *lessons, template=PAGE, items=True, spider="shop"):
    for lesson in lessons:
        bench.frontier.renders.learn(spider, [Taught(template, lesson, items)])


def known(bench, template=PAGE, spider="shop"):
    found = bench.frontier.renders.of(spider).get(template)
    return found and found._replace(since=0, used=0)


def test_nothing_is_known_of_a_template_at_first(bench):
    assert bench.frontier.renders.of("shop") == {}


def test_pages_that_needed_the_browser_are_counted_until_one_did_not(bench):
    teach(bench, *[Lesson.NEEDED] * 3)
    assert known(bench) == Knowledge(browser=3, streak=3, items=1)
    teach(bench, Lesson.STATIC)
    assert known(bench) == Knowledge(static=1, browser=3, items=1)


def test_pages_without_a_plain_fetch_are_counted_until_the_next_one(bench):
    teach(bench, *[Lesson.NEEDED] * STREAK, *[Lesson.DIRECT] * 4)
    assert known(bench) == Knowledge(browser=STREAK + 4, streak=STREAK, skipped=4, items=1)
    assert not known(bench).leaves_out_plain()
    teach(bench, Lesson.NEEDED)
    assert known(bench).streak == STREAK + 1
    assert known(bench).leaves_out_plain()


def test_a_plain_page_that_is_complete_ends_it_at_once(bench):
    teach(bench, *[Lesson.NEEDED] * 20, Lesson.STATIC)
    assert not known(bench).renders


def test_what_was_rendered_in_vain_says_nothing_about_the_need(bench):
    teach(bench, *[Lesson.NEEDED] * STREAK, Lesson.DIRECT, Lesson.VAIN)
    assert known(bench) == Knowledge(browser=STREAK + 2, vain=1, streak=STREAK, items=1)


def test_pages_without_items_are_counted_apart(bench):
    teach(bench, *[Lesson.BARE_VAIN] * 5, *[Lesson.BARE] * 2, items=False)
    assert known(bench) == Knowledge(static=2, browser=5, vain=5, bare=5, accepted=2)
    teach(bench, Lesson.BARE_VAIN, items=False)
    assert known(bench) == Knowledge(static=2, browser=6, vain=6, bare=6)
    teach(bench, Lesson.NEEDED)
    assert known(bench) == Knowledge(static=2, browser=7, vain=6, streak=1, items=1)


def test_several_pages_of_one_call_count_each(bench):
    pages = [Taught(PAGE, Lesson.NEEDED, True)] * 3 + [Taught(OTHER, Lesson.STATIC, False)]
    bench.frontier.renders.learn("shop", pages)
    assert known(bench) == Knowledge(browser=3, streak=3, items=1)
    assert known(bench, OTHER) == Knowledge(static=1)


def test_a_call_that_is_repeated_teaches_nothing_more(make_bench):
    class Repeating(PartitionedStore):
        def run(self, verb, partition, *args):
            super().run(verb, partition, *args)
            return super().run(verb, partition, *args)

    bench = make_bench(store=Repeating)
    bench.frontier.renders.learn("shop", [Taught(PAGE, Lesson.NEEDED, True)] * 2)
    assert known(bench).browser == 2


def test_spiders_callbacks_and_partitions_are_apart(make_bench):
    bench = make_bench(partitions=3)
    forms = [URLTemplate("parse", f"{name}.example/*") for name in "abcdefgh"]
    for form in forms:
        teach(bench, Lesson.STATIC, template=form)
    teach(bench, Lesson.NEEDED, template=forms[0], spider="other")
    found = bench.frontier.renders.of("shop")
    assert found.keys() == {*forms}
    assert {one.static for one in found.values()} == {1}
    assert known(bench, forms[0], "other") == Knowledge(browser=1, streak=1, items=1)


def test_since_is_when_it_began_or_changed(bench):
    teach(bench, Lesson.STATIC)
    began = bench.frontier.renders.of("shop")[PAGE].since
    assert began <= bench.now()
    bench.after(bench.now())
    teach(bench, Lesson.STATIC, *[Lesson.NEEDED] * (STREAK - 1))
    assert bench.frontier.renders.of("shop")[PAGE].since == began
    teach(bench, Lesson.NEEDED)
    changed = bench.frontier.renders.of("shop")[PAGE].since
    assert changed > began
    bench.after(bench.now())
    teach(bench, Lesson.STATIC)
    assert bench.frontier.renders.of("shop")[PAGE].since > changed


@pytest.mark.parametrize(("ago", "streak"), [(LIFE - 60_000, 10), (LIFE + 1000, 1)])
def test_what_has_not_been_used_for_long_begins_anew(bench, ago, streak):
    teach(bench, *[Lesson.NEEDED] * 9)
    key, field = bench.key("RENDER", "shop"), f"{PAGE.callback} {PAGE.form}"
    row = bench.redis.hget(key, field).decode()
    numbers, name = row.split()
    numbers = [*numbers.split(",")[:-1], str(bench.now() - ago)]
    bench.redis.hset(key, field, f"{','.join(numbers)} {name}")
    teach(bench, Lesson.NEEDED)
    assert known(bench).streak == streak
    assert bench.frontier.renders.of("shop")[PAGE].used > bench.now() - 60_000
    assert LIFE - 60_000 < bench.redis.pttl(key) <= LIFE


def test_the_templates_used_last_are_kept(make_bench):
    bench = make_bench(store=PartitionedStore)
    forms = [URLTemplate("parse", f"shop.example/{n}/*") for n in range(501)]
    order = [*forms[400:500], *forms[:400]]
    for some in (order[:100], order[100:]):
        pages = [Taught(form, Lesson.STATIC, True) for form in some]
        bench.frontier.renders.learn("shop", pages)
        bench.after(bench.now())
    assert bench.frontier.renders.of("shop").keys() == {*order}
    key = bench.key("RENDER", "shop")
    bench.redis.hdel(key, f"parse {order[0].form}", f"parse {order[1].form}")
    bench.redis.hset(key, "parse junk", "junk")
    bench.redis.hset(key, "parse short", "1,2,3 abc")
    teach(bench, Lesson.STATIC, template=forms[500])
    found = bench.frontier.renders.of("shop").keys()
    assert len(found) == 450
    assert found > {*order[100:], forms[500]}


@pytest.mark.parametrize("row", ["junk", "1,2,3 abc", ""])
def test_a_row_that_cannot_be_read_is_replaced(bench, row):
    bench.redis.hset(bench.key("RENDER", "shop"), f"{PAGE.callback} {PAGE.form}", row)
    teach(bench, Lesson.NEEDED)
    assert known(bench) == Knowledge(browser=1, streak=1, items=1)


def test_one_or_all_can_be_forgotten(bench):
    teach(bench, Lesson.STATIC)
    teach(bench, Lesson.STATIC, template=OTHER)
    bench.frontier.renders.forget("shop", PAGE)
    assert bench.frontier.renders.of("shop").keys() == {OTHER}
    bench.frontier.renders.forget("shop")
    assert bench.frontier.renders.of("shop") == {}


def test_a_new_era_keeps_it(bench):
    teach(bench, Lesson.STATIC)
    bench.frontier.eras.wipe()
    assert known(bench) == Knowledge(static=1, items=1)
