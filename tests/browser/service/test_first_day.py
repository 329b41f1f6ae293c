"""The first administrator's first minutes: the link that `up` prints, another user, and logging in
again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.browser.service.conftest import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.process


def test_from_the_setup_link_to_a_user_who_logs_in(
    setup_link: str, site: str, page: Page, new_page: Callable[..., Page]
) -> None:
    page.goto(f"{site}admin/auth/user/add/")
    page.fill("[name=username]", "bob")
    page.fill("[name=password1]", PASSWORD)
    page.fill("[name=password2]", PASSWORD)
    page.check("[name=role][value=viewer]")
    page.click("[name=_save]")
    page.wait_for_url(re.compile(r"/admin/auth/user/"))

    bob = new_page()
    bob.goto(setup_link)
    assert bob.get_by_text("This link does not work").is_visible()
    bob.goto(f"{site}admin/crawlservice/task/")
    bob.fill("[name=username]", "bob")
    bob.fill("[name=password]", "wrong")
    bob.click("button[type=submit]")
    bob.get_by_text("Please enter the correct username").wait_for()
    bob.fill("[name=username]", "bob")
    bob.fill("[name=password]", PASSWORD)
    bob.click("button[type=submit]")
    bob.wait_for_url(f"{site}admin/crawlservice/task/")
    assert bob.locator("a[href='/admin/crawlservice/item/']").count()
    assert not bob.locator("a[href='/admin/auth/user/']").count()

    page.goto(f"{site}admin/crawlservice/action/")
    verbs = [one.strip() for one in page.locator(".field-shown_verb").all_inner_texts()]
    told = [word.splitlines()[-1].strip() for word in verbs if word]
    assert told[:3] == ["login", "login failed", "add user"]
    assert told[-3:] == ["login", "setup", "make setup link"]
