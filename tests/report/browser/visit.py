"""A page in a browser, with everything that it says, asks for and throws written down."""

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Route

TIMEOUT_S = 20
_DRAWN = """() => [...document.querySelectorAll(".plot")].map((plot) => ({
    name: plot.closest("figure").id,
    drawn: !!plot.querySelector("svg.main-svg"),
    marks: plot.querySelectorAll(".plot .point, .plot .js-line, .plot .hm image, .plot .heatmaplayer image").length,
}))"""
_BY_SCREENS = """async () => {
    const frame = () => new Promise((done) => {
        requestAnimationFrame(() => requestAnimationFrame(done));
        setTimeout(done, 500); // a page that is not on top may draw no frame
    });
    for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight + 500) { // figures near are drawn too
        scrollTo(0, y);
        await frame();
    }
}"""
_FOLLOWED = """() => [...document.querySelectorAll(".plot .legendtext")].every(
    (text) => getComputedStyle(text).fill === getComputedStyle(document.body).color)"""
_IN_VIEW = """(element) => {
    const box = element.getBoundingClientRect(), nav = document.querySelector("nav.sections").getBoundingClientRect();
    return box.height > 0 && box.top >= nav.bottom - 1 && box.top < innerHeight;
}"""


class Visit:
    """A context and a page of its own; `problems` and `asked_for` are what no page may have more of than itself."""

    def __init__(self, browser: Browser, path: Path, fragment: str, width: int, scheme: str) -> None:
        self.problems: list[str] = []
        self.asked_for: list[str] = []
        self.address = path.as_uri()
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.route("**/*", self._only_the_file)
        self.page = page = context.new_page()
        page.set_default_timeout(TIMEOUT_S * 1000)
        page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._no_dialog)
        page.on("popup", lambda popup: self.problems.append(f"window: {popup.url}"))
        page.on("request", lambda request: self.asked_for.append(request.url.partition("#")[0]))
        page.goto(self.address + fragment)
        page.evaluate("() => window.unpacked")  # what draws the figures

    def _only_the_file(self, route: Route) -> None:
        if route.request.url.partition("#")[0] == self.address:
            route.continue_()
        else:
            self.problems.append(f"request: {route.request.url}")
            route.abort()

    def _no_dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def run(self, script: str, argument: Any = None) -> Any:
        """What a function of JavaScript returns."""
        return self.page.evaluate(script, argument)

    def locate(self, selector: str) -> Locator:
        """What a selector finds."""
        return self.page.locator(selector)

    def prefer(self, scheme: str) -> None:
        """The system is light or dark from now on; figures have followed when this returns."""
        self.page.emulate_media(color_scheme=scheme)
        self.wait_until(_FOLLOWED)

    def wait_until(self, script: str) -> None:
        """Until a function of JavaScript says yes. Playwright's own way evaluates text, which the page forbids."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"never came true: {script}"
            self.page.wait_for_timeout(30)

    def scroll_through(self) -> None:
        """Every part of the page once on the screen, so that every figure is drawn."""
        self.run(_BY_SCREENS)

    def figures(self) -> list[dict[str, Any]]:
        """Each figure: its name, whether it is drawn, and how many bars, points, lines and maps it has."""
        found: list[dict[str, Any]] = self.run(_DRAWN)
        return found

    def comes_into_view(self, selector: str) -> bool:
        """Whether the top of an element comes to be seen, below the bar of sections, and stays there."""
        deadline = time.monotonic() + TIMEOUT_S
        seen = 0
        while seen < 5 and time.monotonic() < deadline:
            shown: bool = self.page.wait_for_selector(selector).evaluate(_IN_VIEW)
            seen = seen + 1 if shown else 0
            self.page.wait_for_timeout(30)
        return seen == 5
