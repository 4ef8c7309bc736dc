"""The web page, driven in Chromium against the real service: what people see, by mouse, keyboard and finger."""

# ruff: noqa: E402 (what the driver of the browser needs may be missing, and is asked for first)
from __future__ import annotations

import csv
import io
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from hypothesis import example, given
from hypothesis import strategies as st

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no chromium here: install Debian's package of that name", allow_module_level=True)
pytest.importorskip("playwright", reason="the playwright package is not here: pip install playwright")

from conftest import TRAIN_WORDS, shake, tiny_model
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright
from visit import PHONE, Visit, contrasts, opacity, shown_bits, underline

from groc.errors import GrocError
from groc.lexicon import Glossary
from groc.lexicon.terms import read_terms
from groc.model import LanguageModel
from groc.playground import limits
from groc.playground.app import create_app
from groc.vocabulary import Vocabulary

ARGUMENTS = """--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync
--no-first-run""".split()
TEXT = "the dog sleeps on the old boat"

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def models(vocabulary: Vocabulary, glossary: Glossary) -> dict[str, LanguageModel]:
    """Whose words differ so much that it shows in the decimals that people read."""
    models = {kind: tiny_model(kind, "ngrams", vocabulary, glossary) for kind in ("groc", "tied")}
    for model, seed in product(models.values(), range(2, 22)):
        shake(model, seed)
    return models


@pytest.fixture(scope="module")
def serve(models: dict[str, LanguageModel]) -> Iterator[Serve]:
    """A function that serves the runs it is given by name and returns the address."""
    servers = []

    def start(*runs: str, **options: Any) -> str:
        app = create_app({run: models[run] for run in runs}, **options)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(serve: Serve) -> str:
    return serve("groc", "tied")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS) as browser,
    ):
        yield browser


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    visit = Visit(browser, address)
    yield visit
    visit.page.context.close()
    assert visit.complaints == []
    assert visit.hosts == {urlsplit(address).netloc}


def ask(address: str, path: str, **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"{address}api/{path}", json=body, timeout=60)
    assert answer.is_success, answer.text
    result: dict[str, Any] = answer.json()
    return result


def scores(address: str, text: str, **body: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ask(address, "score", text=text, **body)["documents"][0]["words"]
    return rows


GLOSSARY = "JSON.parse(sessionStorage['groc.glossary'])"


def kept(visit: Visit, address: str) -> list[str]:
    """The words that the service keeps for the visit."""
    answer = httpx.get(f"{address}api/glossaries/{visit.page.evaluate(GLOSSARY)}", timeout=60)
    return [term["word"] for term in answer.raise_for_status().json()["terms"]]


def forget(visit: Visit, address: str) -> None:
    """Let the service forget them."""
    httpx.delete(f"{address}api/glossaries/{visit.page.evaluate(GLOSSARY)}", timeout=60).raise_for_status()


# --- reading ----------------------------------------------------------------------------------------------------------


def test_words_are_shaded_by_surprisal_and_not_by_colour_alone(visit: Visit, address: str) -> None:
    words = visit.read(TEXT, 7)
    expected = [row["surprisal"] for row in scores(address, TEXT)]
    assert words.all_text_contents() == TEXT.split()
    assert shown_bits(words) == pytest.approx(expected, abs=0.051)
    by_surprisal = sorted(range(7), key=expected.__getitem__)
    for look in (underline, opacity):
        values = [look(words.nth(index)) for index in by_surprisal]
        assert values == sorted(values)
        assert values[0] < values[-1]


def test_details_on_hover_on_focus_and_from_the_chart(visit: Visit, address: str) -> None:
    words = visit.read("the zebra sleeps", 3)
    row = scores(address, "the zebra sleeps")[1]
    bars = visit.page.locator(".column .hit")
    details = visit.page.get_by_role("tooltip")
    for reach in (words.nth(1).hover, words.nth(1).focus, bars.nth(1).hover):
        expect(details).to_be_hidden()
        reach()
        expect(details).to_contain_text("zebra")
        assert float(visit.fact("Surprisal")[0].split()[0]) == pytest.approx(row["surprisal"], abs=0.051)
        assert float(visit.fact("Entropy")[0].split()[0]) == pytest.approx(row["entropy"], abs=0.051)
        assert visit.fact("Rank") == [str(row["rank"])]
        assert visit.fact("Seen in training") == ["no"]
        assert visit.fact("In lexicon") == ["yes"]
        expect(words.nth(1)).to_have_class(re.compile("current"))
        expect(visit.page.locator(".column").nth(1)).to_have_class(re.compile("current"))
        visit.page.mouse.move(0, 0)
        visit.page.keyboard.press("Escape")
        visit.page.evaluate("document.activeElement.blur()")
    expect(details).to_be_hidden()


def test_the_chart_has_an_axis_and_a_bar_for_each_word(visit: Visit) -> None:
    words = visit.read(TEXT, 7)
    bits = shown_bits(words)
    heights = [float(bar.get_attribute("height") or 0) for bar in visit.page.locator(".bar").all()]
    assert [height / heights[0] for height in heights] == pytest.approx([value / bits[0] for value in bits], rel=0.02)
    assert visit.page.locator(".axis text").all_text_contents()[:2] == ["0", "5"]
    name = visit.page.get_by_role("img", name=re.compile("Surprisal of 7 words")).get_attribute("aria-label")
    assert TEXT.split()[bits.index(max(bits))] in (name or "")


def test_spans_are_those_of_any_script(visit: Visit) -> None:
    """The service counts code points, JavaScript half of them: a wrong count would cut the words elsewhere."""
    text = "😀 the 👩🏽‍🚀 dog\n\nשלום עולם the 東京 zebra 😀"
    visit.type(text)
    expect(visit.words().last).to_have_text("😀")
    pieces = visit.words().all_text_contents()
    assert "".join(pieces) == re.sub(r"[\s\u200d]", "", text)  # a joiner is not to be seen, and no word
    assert {"dog", "שלום", "zebra"} <= set(pieces)
    assert visit.page.locator(".words").first.evaluate("node => node.textContent") == text
    visit.read("שלום the dog", 3)
    assert visit.page.locator(".words").first.evaluate("node => getComputedStyle(node).direction") == "rtl"


def test_markup_is_shown_as_text(visit: Visit) -> None:
    attack = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    visit.type(attack)
    expect(visit.page.locator(".words").first).to_have_text(attack)
    visit.words().first.hover()
    visit.teach("<b>bold</b>", attack, "<i>, <u>", attack)
    expect(visit.page.locator("#taught")).to_contain_text("<b>bold</b>")
    expect(visit.page.locator("#lesson q")).to_contain_text("<script>")
    assert visit.page.locator("main :is(img, script, i, u), #taught b").count() == 0


def test_an_old_answer_never_takes_the_place_of_a_newer_one(visit: Visit) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if "dog" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    visit.read("the", 1)
    visit.page.route("**/api/score", hold_the_first)
    with visit.page.expect_request(lambda request: "dog" in (request.post_data or "")):  # not one of "the do"
        visit.type("the dog")
    visit.read("the old boat", 3)
    for route in held:
        route.continue_()
    visit.page.wait_for_timeout(300)
    assert visit.words().all_text_contents() == ["the", "old", "boat"]
    assert held


def test_what_was_overtaken_tells_of_no_error(visit: Visit) -> None:
    overtaken = """() => import("/static/api.js").then(async ({ latest, isStale }) => {
        const newest = latest();
        const first = newest(async (signal) => {
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            throw new Error("it failed besides");
        });
        return [await newest(() => "second"), await first.catch(isStale)];
    })"""
    assert visit.page.evaluate(overtaken) == ["second", True]


def test_a_text_is_asked_for_once(visit: Visit) -> None:
    asked: list[str] = []
    visit.read("the", 1)
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.evaluate(  # typed, to be read when no further letter has come, and overwritten before that
        f"(text) => {{ ({PASTE})(text); document.querySelector('#examples button').click(); }}", "the dog"
    )
    visit.wait_until(lambda: len(asked) >= 2)
    visit.page.wait_for_timeout(500)
    assert [url.rpartition("/")[2] for url in asked] == ["next", "score"]


@pytest.mark.parametrize("slow", ["**/api/runs", "**/version"])
def test_what_is_typed_while_the_page_starts_is_read_when_the_runs_are_known(visit: Visit, slow: str) -> None:
    asked: list[str] = []
    held: list[Route] = []
    visit.page.route(slow, lambda route: held.append(route))
    visit.page.reload()
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.type("the old boat")
    visit.wait_until(lambda: held)
    visit.page.wait_for_timeout(500)  # more than the page waits for further letters
    assert [url for url in asked if url.endswith(("/score", "/next"))] == []
    (route,) = held
    route.continue_()
    expect(visit.words()).to_have_text(["the", "old", "boat"])


def test_errors_are_sentences_near_their_place(visit: Visit) -> None:
    visit.refused_with = "413"
    visit.read(TEXT, 7)
    visit.type("the dog " * limits.TEXT)
    expect(visit.page.locator("#reading-error")).to_contain_text("at most")
    expect(visit.words()).to_have_count(0)
    visit.read(TEXT, 7)
    expect(visit.page.locator("#reading-error")).to_be_hidden()
    visit.teach("zebra", "a striped animal " * limits.DEFINITION)
    expect(visit.page.locator("#teaching-error")).to_contain_text("definition")
    expect(visit.page.locator("#taught li")).to_have_count(0)


def test_a_text_that_is_too_long_is_not_sent(visit: Visit) -> None:
    visit.read(TEXT, 7)
    asked = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.evaluate(PASTE, "the dog " * 250_000)
    for place in ("#reading-error", "#suggesting-error"):
        expect(visit.page.locator(place)).to_have_text("The text may have at most 100,000 characters: shorten it.")
    expect(visit.words()).to_have_count(0)
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#teaching-error")).to_contain_text("at most 100,000 characters")
    assert [url for url in asked if "glossaries" not in url] == []
    visit.read(TEXT, 7)
    expect(visit.page.locator("#reading-error")).to_be_hidden()


PASTE = """(text) => {
    const area = document.getElementById("text");
    area.value = text;
    area.dispatchEvent(new Event("input"));
}"""


def test_the_page_and_the_service_take_texts_of_one_length(visit: Visit) -> None:
    fits = """([sign, count]) => import("/static/fields.js").then(({ fitting }) => {
        try { return fitting(sign.repeat(count)).length > 0; } catch { return false; }
    })"""
    for sign in "a😀":
        assert visit.page.evaluate(fits, [sign, limits.TEXT])
        assert not visit.page.evaluate(fits, [sign, limits.TEXT + 1])


def test_fields_run_as_their_text_does(visit: Visit) -> None:
    for label in ("Text", "Word", "Definition", "Related words", "Text before it"):
        for text, direction in (("12 שלום dog", "rtl"), ("(dog) שלום", "ltr"), ("مرحبا", "rtl"), ("12", "ltr")):
            visit.field(label).fill(text)
            assert visit.field(label).evaluate("field => getComputedStyle(field).direction") == direction
    visit.type("שלום")
    visit.page.get_by_role("button", name="A plain sentence").click()
    assert visit.field("Text").evaluate("field => getComputedStyle(field).direction") == "ltr"


def test_a_busy_service_is_asked_again(visit: Visit) -> None:
    visit.refused_with = "429"
    refusals = iter([429, 429])

    def refuse_twice(route: Route) -> None:
        if next(refusals, None):
            route.fulfill(status=429, json={"error": "The service is busy: try again in a moment."})
        else:
            route.continue_()

    visit.read("the", 1)
    visit.page.route("**/api/score", refuse_twice)
    visit.type(TEXT)
    expect(visit.page.get_by_text("The service is busy: trying again")).to_be_visible()
    expect(visit.words()).to_have_count(7)
    expect(visit.page.get_by_text("The service is busy")).to_be_hidden()


# --- next words -------------------------------------------------------------------------------------------------------


def test_next_words_change_as_one_types(visit: Visit, address: str) -> None:
    for text in ("the dog", "the dog sleeps"):
        visit.type(text)
        best = [suggestion["word"] for suggestion in ask(address, "next", text=text, limit=9)["suggestions"]]
        expect(visit.next_words().locator(".next")).to_have_text([readable(word) for word in best])
        assert len(best) == 9


def readable(word: str) -> re.Pattern[str]:
    return re.compile(f"^{re.escape('end of line' if word == '<eos>' else word)}$")


def test_a_next_word_is_inserted_where_the_caret_is(visit: Visit, address: str) -> None:
    area = visit.field("Text")
    visit.read("the boat", 2)
    area.press("Home")
    for _ in "the":
        area.press("ArrowRight")
    words = [suggestion["word"] for suggestion in ask(address, "next", text="the", limit=9)["suggestions"]]
    best = next(word for word in words if word.isalpha())
    expect(visit.next_words().locator(".next")).to_have_text([readable(word) for word in words])
    visit.next_words().nth(words.index(best)).click()
    expect(area).to_have_value(f"the {best} boat")
    expect(visit.words()).to_have_text(["the", best, "boat"])


# --- teaching ---------------------------------------------------------------------------------------------------------


def test_a_taught_word_changes_and_a_removed_one_is_as_before(visit: Visit, address: str) -> None:
    term = {"word": "zorple", "definition": "a striped animal that barks", "related": ["dog", "puppy"]}
    words = visit.read("the old zorple sleeps", 4)
    untaught = words.nth(2).get_attribute("data-bits") or ""
    visit.teach("zorple", term["definition"], "dog, puppy")

    lesson = visit.page.locator("#lesson")
    expect(lesson).to_contain_text("zorple after the old is now")
    glossary = ask(address, "glossaries", terms=[term])["id"]
    before = ask(address, "explain", word="zorple", context="the old ")
    after = ask(address, "explain", word="zorple", context="the old ", glossary=glossary)
    assert before["probability"] != pytest.approx(after["probability"], rel=0.01)
    cells = lesson.locator(".change").get_by_role("row", name="Rank").get_by_role("cell")
    assert cells.all_text_contents() == [str(before["rank"]), str(after["rank"])]
    cells = lesson.locator(".change").get_by_role("row", name="Nearest").get_by_role("cell")
    for cell, explanation in zip(cells.all(), (before, after), strict=True):
        assert cell.get_by_role("listitem").all_text_contents() == [word for word, _ in explanation["nearest"][:6]]

    taught = scores(address, "the old zorple sleeps", glossary=glossary)[2]["surprisal"]
    expect(words.nth(2)).not_to_have_attribute("data-bits", untaught)
    assert shown_bits(words)[2] == pytest.approx(taught, abs=0.051)
    visit.page.get_by_role("button", name="Remove zorple").click()
    expect(visit.page.locator("#taught li")).to_have_count(0)
    expect(words.nth(2)).to_have_attribute("data-bits", untaught)


def test_a_term_of_several_words_is_one_word(visit: Visit) -> None:
    visit.read("the old sea dog sleeps", 5)
    visit.teach("sea dog", "an old man of the ships")
    expect(visit.words()).to_have_text(["the", "old", "sea dog", "sleeps"])
    expect(visit.page.locator("#lesson")).to_contain_text("after the old")


@pytest.mark.parametrize(
    ("text", "word", "context"),
    [
        ("the category of cats and a Cat sleeps", "cat", "the category of cats and a"),
        ("the cat and c.t", "c.t", "the cat and"),
        ("the été and et", "et", "the été and"),
        ("the dog’s 東京の boat", "東京", "the dog’s"),
        ("the $(a+b)\\[c] boat", "(a+b)\\[c]", "the $"),
        ("the seas dogs, a sea  dog", "sea dog", "the seas dogs, a"),
        ("the category", "cat", "the category"),
    ],
)
def test_a_lesson_looks_for_the_whole_word(visit: Visit, text: str, word: str, context: str) -> None:
    visit.type(text)
    visit.teach(word, "a small animal")
    expect(visit.page.locator("#lesson q")).to_have_text(context)


def test_words_taught_at_the_same_time_all_stay(visit: Visit, address: str) -> None:
    words, held, asked = ["zorple", "flimmer", "quibbet"], [], False

    def hold_until_all_are_asked_for(route: Route) -> None:
        if asked:
            route.continue_()
        else:
            held.append(route)

    visit.read("the", 1)
    visit.page.route("**/api/glossaries", hold_until_all_are_asked_for)
    for word in words:
        visit.teach(word, "a small dog")
    asked = True
    for route in held:
        route.continue_()
    expect(visit.page.locator("#taught .look")).to_have_text(words[::-1])
    assert kept(visit, address) == words
    assert held


def test_a_word_taught_as_the_service_forgets_stays(visit: Visit, address: str) -> None:
    visit.refused_with = "404"
    visit.read("the", 1)
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    forget(visit, address)
    visit.page.evaluate(TEACH_AND_ASK)
    assert kept(visit, address) == ["zorple", "flimmer"]


TEACH_AND_ASK = """() => import("/static/glossary.js").then(({ ask, teach }) => {
    const send = window.fetch;
    window.fetch = async (path, options) => {  // a glossary without the new word is slow to come
        const slow = path === "api/glossaries" && !options.body.includes("flimmer");
        await new Promise((resolve) => setTimeout(resolve, slow ? 300 : 0));
        return send(path, options);
    };
    return Promise.all([teach([{ word: "flimmer" }]), ask("api/score", { text: "the" })]);
})"""


def test_a_word_that_is_refused_keeps_none_behind_it_waiting(visit: Visit) -> None:
    visit.refused_with = "413"
    visit.read("the", 1)
    visit.teach("zorple", "a striped animal " * limits.DEFINITION)
    visit.teach("flimmer", "a small dog")
    expect(visit.page.locator("#taught .look")).to_have_text(["flimmer"])


def test_taught_words_outlive_a_reload_and_a_forgetful_service(visit: Visit, address: str) -> None:
    visit.refused_with = "404"
    words = visit.read("the zorple", 2)
    visit.teach("zorple", "a striped animal that barks")
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    taught = scores(address, "the zorple", glossary=visit.page.evaluate(GLOSSARY))[1]["surprisal"]
    forget(visit, address)
    visit.page.reload()
    expect(visit.page.locator("#taught li")).to_have_count(1)
    expect(words).to_have_count(2)
    assert shown_bits(words)[1] == pytest.approx(taught, abs=0.051)
    forget(visit, address)
    visit.page.get_by_role("button", name="Remove zorple").click()
    expect(visit.page.locator("#taught li")).to_have_count(0)


@pytest.mark.parametrize("status", [503, 504])
def test_a_word_that_the_service_took_though_it_said_otherwise_is_not_taught(
    visit: Visit, address: str, status: int
) -> None:
    def be_late(route: Route) -> None:
        route.fetch()
        route.fulfill(status=status, json={"error": "This took too long."})

    visit.refused_with = str(status)
    visit.read("the old boat", 3)
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#taught .look")).to_have_text(["zorple"])
    visit.page.route("**/api/glossaries/*/terms", be_late)
    visit.teach("old boat", "a ship")
    expect(visit.page.locator("#teaching-error")).to_have_text("This took too long.")
    expect(visit.page.locator("#taught .look")).to_have_text(["zorple"])
    visit.read("an old boat", 3)
    assert kept(visit, address) == ["zorple"]


def test_the_lesson_of_a_word_that_is_removed_does_not_come_back(visit: Visit) -> None:
    held: list[Route] = []
    visit.read("the", 1)
    visit.page.route("**/api/explain", lambda route: held.append(route))
    visit.teach("zorple", "a small dog")
    visit.wait_until(lambda: len(held) == 2)
    answers = [(route, route.fetch()) for route in held]
    visit.page.get_by_role("button", name="Remove zorple").click()
    expect(visit.page.locator("#taught li")).to_have_count(0)
    for route, answer in answers:
        route.fulfill(response=answer)
    visit.page.wait_for_timeout(300)
    expect(visit.page.locator("#lesson")).to_be_empty()


def test_a_lesson_on_its_way_outlives_the_removal_of_another_word_and_follows_the_run(visit: Visit) -> None:
    held: list[Route] = []
    visit.read("the", 1)
    visit.teach("flimmer", "a large dog")
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    visit.page.route("**/api/explain", lambda route: held.append(route))
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#taught li")).to_have_count(2)
    visit.page.get_by_role("button", name="Remove flimmer").click()
    expect(visit.page.locator("#taught li")).to_have_count(1)
    visit.page.unroute("**/api/explain")
    with visit.page.expect_request(lambda request: request.url.endswith("/explain")) as asked:
        visit.page.locator("#run").select_option("tied")
    assert asked.value.post_data_json["run"] == "tied"
    expect(visit.page.locator("#lesson")).to_contain_text("zorple")


def test_a_word_taught_while_the_page_starts_has_its_context(visit: Visit) -> None:
    held: list[Route] = []
    visit.page.route("**/version", lambda route: held.append(route))
    visit.page.reload()
    visit.type("the old boat")
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#lesson q")).to_have_text("the old boat")
    visit.wait_until(lambda: held)
    held[0].continue_()
    expect(visit.words()).to_have_count(3)


def test_a_glossary_file_is_imported_or_its_broken_line_is_named(visit: Visit, tmp_path: Path) -> None:
    broken, good = tmp_path / "broken.jsonl", tmp_path / "good.csv"
    broken.write_text('{"word": "zorple"}\n{"word": \n', encoding="utf-8")
    good.write_text('word,definition,related\nzorple,"a dog, small",dog;puppy\nflimmer,,\n', encoding="utf-8")
    visit.page.locator("#file").set_input_files(broken)
    expect(visit.page.locator("#teaching-error")).to_contain_text("Line 2 of broken.jsonl")
    expect(visit.page.locator("#taught li")).to_have_count(0)
    visit.page.locator("#file").set_input_files(good)
    expect(visit.page.locator("#taught .look")).to_have_text(["flimmer", "zorple"])
    expect(visit.page.locator("#teaching-error")).to_be_hidden()
    visit.page.get_by_role("button", name="zorple", exact=True).click()
    expect(visit.field("Definition")).to_have_value("a dog, small")


def test_a_glossary_file_of_another_encoding_is_refused(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    for encoding in ("latin-1", "utf-16"):
        file.write_text("word,definition\nzorplé,a small dog\n", encoding=encoding)
        visit.page.locator("#file").set_input_files(file)
        expect(visit.page.locator("#teaching-error")).to_contain_text("old.csv is not text in UTF-8: save it so")
    expect(visit.page.locator("#taught li")).to_have_count(0)
    file.write_text("word,definition\nzorplé,a small dog\n", encoding="utf-8")
    visit.page.locator("#file").set_input_files(file)
    expect(visit.page.locator("#taught .look")).to_have_text(["zorplé"])


CELLS = st.text(st.sampled_from('abé東😀 ",;\n\t{}:'), max_size=8) | st.sampled_from(["word", "Definition", "related"])
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=4)


@given(rows=ROWS, kind=st.sampled_from(["csv", "tsv", "jsonl"]))
@example(rows=[["Definition", "", "word"]], kind="csv")
@example(rows=[["word", "Definition"], ["a", "b", "c"]], kind="tsv")
@example(rows=[["a;b"]], kind="csv")
@example(rows=[["a\tb"]], kind="csv")
@example(rows=[["a", None], ["b"]], kind="jsonl")
def test_the_page_reads_glossaries_as_the_library_does(
    rows: list[list[str]], kind: str, reader: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("twin") / f"terms.{kind}"
    path.write_text(as_file(rows, kind), encoding="utf-8", newline="")
    try:
        expected = [[word, definition, list(related)] for word, definition, related in read_terms(path)]
    except GrocError:
        expected = []
    assert reader.evaluate(PARSE, [path.name, path.read_text(encoding="utf-8")]) == expected


def as_file(rows: list[list[str]], kind: str) -> str:
    """Not always a glossary: tables may have cells too many, JSON lines a strange key, and words may be missing."""
    if kind == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        return buffer.getvalue()
    if kind == "tsv":
        return "\n".join("\t".join(row) for row in rows)
    return "\n".join(json.dumps(dict(zip(("word", "definition", "other"), row, strict=False))) for row in rows)


PARSE = """([name, content]) => import("/static/importing.js").then(({ parseGlossary }) => {
    try {
        const terms = parseGlossary(name, content);
        return terms.map(({ word, definition = "", related = [] }) => [word, definition, related]);
    } catch {
        return [];
    }
})"""


@pytest.fixture(scope="module")
def reader(browser: Browser, address: str) -> Page:
    return Visit(browser, address).page


# --- runs -------------------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side(visit: Visit, address: str) -> None:
    visit.read(TEXT, 7)
    visit.page.get_by_label("Compare with").select_option("tied")
    for run in ("groc", "tied"):
        expect(visit.words(run)).to_have_count(7)
        expect(visit.words(run).first).to_be_visible()
    expect(visit.next_words("tied")).to_have_count(9)  # the heading of these moves the words down
    left, right = (
        visit.words(run).first.evaluate("word => word.getBoundingClientRect().toJSON()") for run in ("groc", "tied")
    )
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    expected = {run: scores(address, TEXT, run=run) for run in ("groc", "tied")}
    for run, rows in expected.items():
        assert shown_bits(visit.words(run)) == pytest.approx([row["surprisal"] for row in rows], abs=0.051)
        best = ask(address, "next", text=TEXT, run=run, limit=1)["suggestions"][0]["word"]
        expect(visit.next_words(run).first.locator(".next")).to_have_text(readable(best))
    expect(visit.page.locator(".rival")).to_have_count(7)
    visit.words("tied").nth(2).hover()
    assert visit.fact("Rank") == [str(rows[2]["rank"]) for rows in expected.values()]
    visit.page.get_by_label("Compare with").select_option("nothing")
    expect(visit.words("tied")).to_have_count(0)


def test_one_run_needs_no_menu(browser: Browser, serve: Serve) -> None:
    visit = Visit(browser, serve("groc"))
    visit.read(TEXT, 7)
    expect(visit.page.get_by_label("Compare with")).to_be_hidden()
    assert visit.complaints == []


def test_the_token_of_the_address_opens_the_service(browser: Browser, serve: Serve) -> None:
    address = serve("groc", token="open sesame")
    assert httpx.get(address, timeout=60).status_code == 401
    visit = Visit(browser, f"{address}?token=open%20sesame")
    visit.read(TEXT, 7)
    visit.teach("zorple", "a dog")
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    assert visit.complaints == []


# --- everybody --------------------------------------------------------------------------------------------------------


def test_all_of_it_by_keyboard(visit: Visit, address: str) -> None:
    press, focused = visit.page.keyboard.press, visit.page.locator(":focus")

    def tab_to(target: Locator) -> None:
        for _ in range(12):
            if target.evaluate("node => node === document.activeElement"):
                return
            press("Tab")
        raise AssertionError(f"The keyboard does not reach {target}")

    expect(visit.words().first).to_be_visible()
    area = visit.field("Text")
    press("Tab")
    expect(focused).to_have_text("Skip to the text")
    press("Enter")
    expect(area).to_be_focused()
    press("Control+A")
    visit.page.keyboard.type("the dog")
    expect(visit.words()).to_have_text(["the", "dog"])

    best = [s["word"] for s in ask(address, "next", text="the dog", limit=9)["suggestions"]]
    number = next(index for index, word in enumerate(best, 1) if word.isalpha())
    expect(visit.next_words().locator(".next")).to_have_text([readable(word) for word in best])
    tab_to(visit.next_words().first)
    press("ArrowDown")
    expect(visit.next_words().nth(1)).to_be_focused()
    press(str(number))
    expect(area).to_have_value(f"the dog {best[number - 1]}")
    expect(visit.words()).to_have_count(3)
    expect(visit.next_words().first).to_be_focused()
    press("Escape")
    expect(area).to_be_focused()

    tab_to(visit.words().first)
    press("ArrowRight")
    expect(visit.words().nth(1)).to_be_focused()
    expect(visit.page.get_by_role("tooltip")).to_contain_text("dog")
    press("Escape")
    expect(visit.page.get_by_role("tooltip")).to_be_hidden()

    tab_to(visit.field("Word"))
    visit.page.keyboard.type("zorple")
    press("Tab")
    visit.page.keyboard.type("a small dog")
    press("Tab")
    press("Enter")
    expect(visit.page.locator("#taught li")).to_have_count(1)
    tab_to(visit.page.get_by_role("button", name="Remove zorple"))
    press("Enter")
    expect(visit.page.locator("#taught li")).to_have_count(0)
    expect(visit.field("Word")).to_be_focused()
    expect(visit.page.locator("#announcer")).to_contain_text("3 words")


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport=PHONE, has_touch=True, is_mobile=True)
    width = "document.documentElement.scrollWidth"
    for text in (TEXT, "dog" * 100, " ".join(TRAIN_WORDS) * 4):
        visit.type(text)
        expect(visit.words().first).to_contain_text(text[:3])
        assert visit.page.evaluate(width) == PHONE["width"]
    visit.page.get_by_label("Compare with").select_option("tied")
    visit.teach("zorple" * 30, "a small dog", "dog" * 60)
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    visit.page.locator("#lesson summary").tap()
    visit.read("dog " * 20, 20).nth(2).tap()
    expect(visit.page.get_by_role("tooltip")).to_contain_text("Surprisal")
    box = visit.page.get_by_role("tooltip").bounding_box() or {}
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    assert visit.page.evaluate(width) == PHONE["width"]
    assert visit.complaints == []


def test_shown_numbers_are_not_broken(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport=PHONE)
    visit.page.get_by_label("Show bits").check()
    number, *words = visit.read("zorple", 1).evaluate(LAST_WIDTHS)
    assert min(words) >= number
    assert max(words) > number
    assert visit.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


LAST_WIDTHS = """(word) => Array.from({ length: 120 }, (_, length) => {  // of its last line, with no letter, one, two
    word.textContent = "i".repeat(length);
    return Math.round([...word.getClientRects()].at(-1).width);
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser: Browser, address: str, scheme: str) -> None:
    """Contrast of at least 4.5 to 1, of words at full shade too."""
    visit = Visit(browser, address, color_scheme=scheme)
    visit.read(TEXT, 7)
    visit.teach("zorple", "a small dog")
    expect(visit.page.locator("#lesson .change")).to_be_visible()
    visit.words().first.evaluate("word => word.style.setProperty('--heat', 1)")
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
    assert (int(ground) < 64) == (scheme == "dark")
    assert {node: value for node, value in contrasts(visit.page) if value < 4.5} == {}
    assert visit.complaints == []
