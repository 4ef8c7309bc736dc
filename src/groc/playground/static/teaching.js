// The panel in which words are taught, imported, looked at again and removed.

import { call, isStale, latest } from "./api.js";
import { byId, element, say } from "./element.js";
import { fill, fitting } from "./fields.js";
import { ask, joined, taught, teach, unteach } from "./glossary.js";
import { decode, parseGlossary, split } from "./importing.js";
import { lesson } from "./lesson.js";

const form = byId("teach");
const place = byId("lesson");
const error = byId("teaching-error");
const newest = latest();

// Characters that form a word with those beside them; signs of these scripts are words by themselves.
const LETTER = "[[\\p{L}\\p{M}\\p{N}]--[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Hangul}]]";
const BETWEEN = `(?<!${LETTER}(?=${LETTER}))`; // anywhere but inside a word

let shown = null;
let attempts = 0; // under way
let settings;

/** `run()` and `text()` say what to explain words with; `changed()` is called when the taught words are others. */
export function startTeaching(given) {
  settings = given;
  list();
}

export function fillForm({ word, definition = "", related = [] }) {
  fill(form.elements.word, word);
  fill(form.elements.definition, definition);
  fill(form.elements.related, related.join(", "));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { word, definition, related } = form.elements;
  const term = { word: word.value.trim(), definition: definition.value.trim(), related: split(related.value, ",") };
  attempt(async () => {
    await teach([term]);
    list();
    settings.changed();
    await show(term);
  });
});

byId("import").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  if (!file) return;
  attempt(async () => {
    const content = await file.arrayBuffer();
    event.target.value = ""; // so that the same file can be chosen again once it is mended
    const terms = parseGlossary(file.name, decode(file.name, content));
    await teach(terms);
    list();
    settings.changed();
    await show(terms[0]);
  });
});

/** The word without and with the taught words. */
async function show(term) {
  shown = term; // at once: while the answer is on its way, another run may be chosen, or the word removed
  const body = { word: joined(term), context: context(term.word), run: settings.run() };
  const [before, after] = await newest((signal) =>
    Promise.all([call("POST", "api/explain", body, signal), ask("api/explain", body, signal)]),
  );
  place.replaceChildren(lesson(before, after));
}

/** The lesson on the page, by the run that is chosen now. */
export const showAgain = () => shown && attempt(() => show(shown));

/** The given one; else the text before the word's first place in it, or all of it. */
function context(word) {
  const given = form.elements.context.value;
  if (given.trim()) return fitting(given);
  const text = settings.text();
  const found = text.search(whole(word));
  return fitting(found < 0 ? text : text.slice(0, found));
}

/** A pattern of the word as a word of its own, in whatever case and with whatever white space between its parts. */
function whole(word) {
  const parts = word.trim().split(/\s+/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`${BETWEEN}${parts.join("\\s+")}${BETWEEN}`, "iv");
}

function list() {
  const terms = taught();
  byId("taught-box").hidden = !terms.length;
  byId("taught-count").textContent = String(terms.length);
  byId("taught").replaceChildren(...terms.toReversed().map(item));
}

function item(term) {
  const look = element("button", { type: "button", class: "look", dir: "auto" }, term.word);
  const remove = element("button", { type: "button", class: "quiet", "aria-label": `Remove ${term.word}` }, "Remove");
  look.addEventListener("click", () => {
    fillForm(term);
    attempt(() => show(term));
  });
  remove.addEventListener("click", () =>
    attempt(async () => {
      await unteach(term.word);
      if (shown?.word === term.word) {
        shown = null;
        newest(() => {}); // nor is its lesson to come any more
        place.replaceChildren();
      }
      list();
      settings.changed();
      (byId("taught").querySelector(".quiet") ?? form.elements.word).focus();
    }),
  );
  return element("li", {}, look, element("span", { class: "meaning", dir: "auto" }, term.definition), remove);
}

async function attempt(task) {
  say(error);
  attempts += 1;
  form.setAttribute("aria-busy", "true");
  try {
    await task();
  } catch (problem) {
    if (!isStale(problem)) say(error, problem.message);
  } finally {
    attempts -= 1;
    if (!attempts) form.removeAttribute("aria-busy");
  }
}
