"""Spiders without code on running nodes: the demo site is crawled by a recipe, and changes of files
and of the database go live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from crawlframe.recipes.reading import from_data
from crawlservice.models import Recipe
from crawlservice.recipes import versions
from crawlservice.tasks.submit import submit as submit_task
from examples.demo_site import DemoServer
from tests.process.conftest import Look, OddWeb, Submit
from tests.process.reload_project import NodeStarter, Project

pytestmark = pytest.mark.process

LISTINGS = """\
name = "houses"
description = "The houses of the demo site."
start_urls = ["{site}/search?city=berlin"]
start_items = false

[arguments]
site = { type = "url" }

[settings]
delay = 0
concurrency = 32

[[rules]]
restrict_css = [".districts", ".pager"]
items = false

[[rules]]
restrict_xpath = ["//a[contains(@class, 'listing')]"]
allow = ["/listing/"]

[fields]
id = { page = "url", regex = '(\\d+)$', convert = "int" }
title = "main h1"
district = ".crumbs a[href^='/district/']"
address = "address"
price = { xpath = "//dt[.='Price']/following-sibling::dd[1]", convert = "int" }
rooms = { xpath = "//dt[.='Rooms']/following-sibling::dd[1]", convert = "float" }
area = { xpath = "//dt[.='Area']/following-sibling::dd[1]", convert = "int" }
built = { xpath = "//dt[.='Built']/following-sibling::dd[1]", convert = "int" }
agent = ".agent a"
features = { css = ".features li", convert = "list" }

[detail]
xpath = "//*[@class='visits']/@data-source"
fields.visits = { jmespath = "visits" }
"""


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project", git=False)


def sorted_items(look: Look, pk: int) -> list[Any]:
    return sorted(look.items(pk), key=lambda item: item["id"])


def test_a_file_crawls_the_demo_site_and_is_reloaded(
    odd_env: dict[str, str], starter: NodeStarter, project: Project, submit: Submit, look: Look
) -> None:
    project.write("shops/houses.toml", LISTINGS)
    node = starter.node(project.env(odd_env))
    node.ready()
    with DemoServer(listings=60) as demo:
        pk = submit("houses", site=demo.url)
        assert look.wait(pk).ne == 0
        assert sorted_items(look, pk) == list(demo.site.expected_items())

        project.write("shops/houses.toml", LISTINGS.replace("address = ", "place = "))
        node.renewed(1)
        pk = submit("houses", site=demo.url)
        look.wait(pk)
        items = sorted_items(look, pk)
        expected = [item["address"] for item in demo.site.expected_items()]
    assert [item["place"] for item in items] == expected

    project.write("shops/houses.toml", LISTINGS.replace("fields.visits", "fields.visits.css"))
    node.refused("houses.toml:")


def test_a_recipe_of_the_database_runs_without_a_deploy(
    odd_env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb, look: Look
) -> None:
    nobody = AnonymousUser()
    web.pages = {"/": [f"/{n}" for n in range(40)]}
    web.latency = 0.1
    node = starter.node(project.env(odd_env))
    node.ready()

    def contents(value: str) -> Any:
        return from_data(
            {
                "name": "shop-made",
                "start_urls": [web.url],
                "rules": [{}],
                "fields": {"url": {"page": "url"}, "code": {"css": "nothing", "default": value}},
                "settings": {"delay": 0, "concurrency": 1},
            }
        )

    recipe = versions.add(contents("one"), nobody)
    pk = submit_task("shop-made", {}).pk
    node.until(lambda: len(look.items(pk)) > 5)
    versions.change(recipe.pk, contents("two"), nobody, seen=1)
    look.wait(pk)
    codes = [item["code"] for item in look.items(pk)]
    assert len(codes) == 41  # none is lost or doubled by the change
    assert codes == sorted(codes)
    assert set(codes) == {"one", "two"}
    assert Recipe.objects.get().number == 2
