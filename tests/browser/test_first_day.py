"""The first administrator's first minutes: the link that `up` prints, logging out and in again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PASSWORD = "correct horse 9"


def test_from_the_setup_link_to_a_user_who_logs_in(start_manage, manage_env, browser: Browser):
    running = start_manage("up", "--bind", "127.0.0.1:0", "--workers", "1")
    running.wait_for("Ctrl-C stops everything.", 60)
    found = re.search(r"first administrator: (http://\S+/)setup/\S+", running.output)
    assert found
    link, site = found[0].split(": ")[1], found[1]

    page = browser.new_context().new_page()
    page.goto(link)
    page.fill("[name=username]", "ada")
    for password, problem in (("12345", "too short"), (PASSWORD, "")):
        page.fill("[name=password1]", password)
        page.fill("[name=password2]", password)
        page.click("#setup-form button[type=submit]")
        if problem:
            page.get_by_text(problem).first.wait_for()
    page.wait_for_url(f"{site}admin/")

    page.goto(f"{site}admin/auth/user/add/")
    page.fill("[name=username]", "bob")
    page.fill("[name=password1]", PASSWORD)
    page.fill("[name=password2]", PASSWORD)
    page.check("[name=role][value=viewer]")
    page.click("[name=_save]")
    page.wait_for_url(re.compile(r"/admin/auth/user/"))

    bob = browser.new_context().new_page()
    bob.goto(link)
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
    assert told == ["login", "login failed", "add user", "login", "setup", "make setup link"]
