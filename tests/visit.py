"""A visit to the web page: a tab of its own, the words for what is on it, and how things look."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

expect.set_options(timeout=60_000)  # a machine may be slow
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


class Visit:
    """A tab of its own, in which nothing may go wrong unseen."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.page: Page = browser.new_context(**{"viewport": WIDE, **options}).new_page()
        self.complaints: list[str] = []
        self.refused_with = ""  # the status that a test is about, said first: the browser may tell of it at any time
        self.hosts: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.goto(address)
        expect(self.page.locator("#facts")).not_to_be_empty()  # the runs are known

    def _hear(self, message: ConsoleMessage) -> None:
        told = f"responded with a status of {self.refused_with} "
        about_it = self.refused_with and told in message.text and "/api/" in message.location["url"]
        if message.type == "error" and not about_it:
            self.complaints.append(f"{message.text}: {message.location['url']}")

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Let the browser tell what it does until the condition holds."""
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            self.page.wait_for_timeout(10)

    def field(self, label: str) -> Locator:
        return self.page.get_by_role("textbox", name=re.compile(f"^{label}( with| if|$)"))

    def type(self, text: str) -> None:
        self.field("Text").fill(text)

    def words(self, run: str = "groc") -> Locator:
        return self.page.get_by_label(f"Words as {run} reads them").get_by_role("option")

    def read(self, text: str, count: int) -> Locator:
        """Type the text and wait until it is read."""
        self.type(text)
        expect(self.page.locator(".words").first).to_have_text(text)
        expect(self.words()).to_have_count(count)
        return self.words()

    def next_words(self, run: str = "groc") -> Locator:
        return self.page.get_by_role("list", name=f"Next words, by {run}").get_by_role("button")

    def teach(self, word: str, definition: str = "", related: str = "", context: str = "") -> None:
        fields = {"Word": word, "Definition": definition, "Related words": related, "Text before it": context}
        for label, value in fields.items():
            self.field(label).fill(value)
        self.page.get_by_role("button", name="Teach", exact=True).click()

    def fact(self, name: str) -> list[str]:
        """What the card of details says of a fact, by run."""
        row = self.page.get_by_role("tooltip").get_by_role("row", name=name)
        return row.get_by_role("cell").all_text_contents()


def shown_bits(words: Locator) -> list[float]:
    return [float(word.get_attribute("data-bits") or "nan") for word in words.all()]


def underline(word: Locator) -> float:
    """Its thickness in pixels."""
    size: str = word.evaluate("word => getComputedStyle(word).backgroundSize")
    return float(size.removeprefix("100% ").removesuffix("px"))


def opacity(word: Locator) -> float:
    """Of its shade, from 0 to 1."""
    colour: str = word.evaluate("word => getComputedStyle(word).backgroundColor")
    return float(re.findall(r"[\d.]+", colour)[-1]) if "/" in colour else 1.0


def contrasts(page: Page) -> list[tuple[str, float]]:
    """Of each visible element with text of its own: a name, and the contrast of text and ground (1 to 21)."""
    return [(name, value) for name, value in page.evaluate(CONTRASTS)]


CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const paint = (...colours) => {  // colours over each other, as red, green and blue from 0 to 1
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => value / 255);
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const grounds = (node) => node ? [...grounds(node.parentElement), getComputedStyle(node).backgroundColor] : [];
    const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    return [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && hasText(node)
        && !node.ownerSVGElement).map((node) => {
        const behind = grounds(node);
        const values = [paint(...behind), paint(...behind, getComputedStyle(node).color)].map(luminance);
        return [node.tagName + "." + node.className + ": " + node.textContent.slice(0, 20),
            (Math.max(...values) + 0.05) / (Math.min(...values) + 0.05)];
    });
}"""
