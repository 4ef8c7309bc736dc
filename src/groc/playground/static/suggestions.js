// The words that may come next. A click, Enter or a number key inserts one.

import { byId, element } from "./element.js";
import { joined } from "./glossary.js";
import { probability } from "./numbers.js";

export const LIMIT = 9; // as many as there are number keys
const END = "<eos>";
const CLINGS = /^([.,;:!?)\]}%…”]|['’]\w*$|n['’]t$)/u; // no space before these
const place = byId("suggestions");

/** What choosing a word adds to the text before it. A taught term of several words is spelled as it was given. */
export function continuation(before, word, terms) {
  if (word === END) return "\n";
  const spelled = terms.find((term) => joined(term).toLowerCase() === word.toLowerCase())?.word ?? word;
  return before === "" || /\s$/u.test(before) || CLINGS.test(word) ? spelled : ` ${spelled}`;
}

/** Show lists, one a run: {run, suggestions}. The keyboard's place in them is kept. */
export function showSuggestions(lists) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset : null;
  place.replaceChildren(...lists.map((list, number) => column(list, number, lists.length > 1)));
  const highest = Math.max(...lists.map(({ suggestions: [best] }) => best?.probability ?? 0));
  place.style.setProperty("--highest", highest);
  place.classList.toggle("two", lists.length > 1);
  if (focused) choices(focused.list)[0]?.focus();
}

export function summary([{ suggestions }]) {
  return `Next: ${suggestions.slice(0, 3).map(({ word }) => readable(word)).join(", ")}`;
}

const readable = (word) => (word === END ? "end of line" : word);
const choices = (list) => [...place.querySelectorAll(`[data-list="${list}"]`)];

function column({ run, suggestions }, list, named) {
  const items = suggestions.map((suggestion, index) => element("li", {}, choice(suggestion, index, list)));
  const name = named ? [element("h3", {}, run)] : [];
  return element("div", {}, ...name, element("ol", { "aria-label": `Next words, by ${run}` }, ...items));
}

function choice({ word, probability: share, seen, nearest }, index, list) {
  const why = nearest.length ? [element("span", { class: "why", dir: "auto" }, `near ${nearest.join(", ")}`)] : [];
  const data = { "data-list": list, "data-word": word };
  const button = element(
    "button",
    { type: "button", class: "choice", tabindex: index ? -1 : 0, "aria-describedby": "suggesting-hint", ...data },
    element("span", { class: "key", "aria-hidden": "true" }, String(index + 1)),
    element("span", { class: seen ? "next" : "next newcomer", dir: "auto" }, readable(word)),
    ...why,
    element("span", { class: "share" }, probability(share)),
  );
  button.style.setProperty("--share", share);
  return button;
}

/** Call `insert(word)` when one is chosen, and `back()` when the keyboard leaves for the text. */
export function onChoice(insert, back) {
  place.addEventListener("click", (event) => {
    const chosen = event.target.closest(".choice");
    if (chosen) insert(chosen.dataset.word);
  });
  place.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return back();
    const list = choices(event.target.dataset.list);
    const index = list.indexOf(event.target);
    const target = { ArrowDown: list[index + 1], ArrowUp: list[index - 1], Home: list[0], End: list.at(-1) }[event.key];
    if (target) {
      event.preventDefault();
      move(list, target);
    } else if (/^[1-9]$/.test(event.key) && !event.ctrlKey && !event.altKey && !event.metaKey) {
      list[Number(event.key) - 1]?.click();
    }
  });
}

function move(list, target) {
  for (const other of list) other.tabIndex = other === target ? 0 : -1;
  target.focus();
}
