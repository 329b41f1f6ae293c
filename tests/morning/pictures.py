"""Pictures: the pages of a bad morning, light and dark, on a desktop and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.morning.morning import Trouble

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def take(browser: Browser, login: Any, address: str, troubles: list[Trouble], to: Path) -> None:
    """Writes PNG files such as ``host-dark-phone.png``. ``login``: the cookies of a user."""
    to.mkdir(parents=True, exist_ok=True)
    places = _places(browser, login, address, troubles)
    for scheme in SCHEMES:
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                storage_state=login,
                color_scheme=scheme,
                viewport={"width": width, "height": height},
            )
            page = context.new_page()
            for name, place in places.items():
                page.goto(place)
                _settle(page)
                page.screenshot(path=to / f"{name}-{scheme}-{size}.png", full_page=True)
            context.close()


def _places(browser: Browser, login: Any, address: str, troubles: list[Trouble]) -> dict[str, str]:
    """The pages, by name; pages of causes are the targets of the dashboard's links."""
    admin = f"{address}admin/"
    signs = {one.name: one.sign for one in troubles}
    context = browser.new_context(storage_state=login)
    page = context.new_page()
    page.goto(admin)

    def cause(name: str) -> str:
        link = page.locator("#cf-needs .cf-need-what", has_text=signs[name])
        return f"{address.rstrip('/')}{link.get_attribute('href')}"

    found = {
        "dashboard": admin,
        "quality": cause(troubles[0].name),
        "silent": cause("a task is silent"),
        "host": cause("a host refuses"),
        "node": cause("a node is gone"),
        "schedule": cause("a schedule cannot start"),
        "spider": f"{admin}spiders/shop",
        "tasks": f"{admin}crawlservice/task/",
        "alerts": f"{admin}crawlservice/alert/",
        "messages": f"{admin}crawlservice/alertmessage/",
    }
    first = page.locator("#cf-needs a[title='The alert']").first.get_attribute("href")
    found["alert"] = f"{address.rstrip('/')}{first}"
    context.close()
    return found


def _settle(page: Page) -> None:
    """Charts and fragments have come."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
