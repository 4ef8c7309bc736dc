// What a lesson changed: the word before and after it was taught, in a context.

import { element } from "./element.js";
import { bits, count, heat, probability, times } from "./numbers.js";

const NEAREST = 6;
const WIDEST = 48; // characters of the context that are shown

/** `before` and `after` are explanations of the same word, without and with the taught words. */
export function lesson(before, after) {
  const column = (name) => element("th", { scope: "col" }, name);
  const row = (name, value) =>
    element("tr", {}, element("th", { scope: "row" }, name), cell(value(before)), cell(value(after)));
  const table = element(
    "table",
    { class: "change" },
    element("thead", {}, element("tr", {}, element("td"), column("before"), column("after"))),
    element(
      "tbody",
      {},
      row("Probability", ({ probability: share }) => probability(share)),
      row("Surprisal", ({ probability: share }) => shade(-Math.log2(share))),
      row("Rank", ({ rank }) => count(rank)),
      row("Nearest words", ({ nearest }) => neighbours(nearest, nearest === after.nearest ? before.nearest : [])),
    ),
  );
  const parts = after.parts.length ? [contributions(after.parts)] : [];
  return element("div", { class: "lesson" }, verdict(before, after), table, ...parts);
}

function verdict(before, after) {
  const context = Array.from(after.context ?? "");
  const shown = context.length > WIDEST ? `…${context.slice(-WIDEST).join("")}` : context.join("");
  const where = shown.trim() ? element("q", { dir: "auto" }, shown.trim()) : element("span", {}, "the start");
  const change = element("strong", {}, times(before.probability, after.probability));
  const word = element("b", { dir: "auto" }, after.word);
  return element("p", { class: "verdict" }, word, " after ", where, " is now ", change, ".");
}

/** Bits in the shade that the word has in the text. */
function shade(surprisal) {
  const node = element("span", { class: "shade" }, `${bits(surprisal)} bits`);
  node.style.setProperty("--heat", heat(surprisal));
  return node;
}

/** Words that were not near before are in bold. */
function neighbours(nearest, earlier) {
  const old = new Set(earlier.map(([word]) => word));
  const items = nearest.slice(0, NEAREST).map(([word, cosine]) => {
    const isNew = earlier.length > 0 && !old.has(word);
    return element("li", { title: `cosine ${cosine.toFixed(2)}`, dir: "auto" }, isNew ? element("b", {}, word) : word);
  });
  return items.length ? element("ul", { class: "neighbours" }, ...items) : "none: it is closed to new words";
}

/** What each form of the word does: how far the vector turns, and how the bits change, where it is left out. */
function contributions(parts) {
  const column = (name) => element("th", { scope: "col" }, name);
  const rows = parts.map(({ form, word, change, bits: gained }, index) => {
    const whole = form !== parts[index - 1]?.form; // each form comes as a whole first, then by its words
    const name = whole ? WHOLE[form] : element("span", { class: "single", dir: "auto" }, word);
    const signed = gained === null ? "–" : `${gained < 0 ? "−" : "+"}${Math.abs(gained).toFixed(2)}`;
    return element("tr", {}, element("th", { scope: "row" }, name), cell(change.toFixed(2)), cell(signed));
  });
  return element(
    "details",
    {},
    element("summary", {}, "What each part contributes"),
    element("p", { class: "hint" }, "Without it, how far the word’s vector turns (0 to 2), and the bits it gains."),
    element(
      "table",
      { class: "parts" },
      element("thead", {}, element("tr", {}, column("part"), column("turn"), column("bits"))),
      element("tbody", {}, ...rows),
    ),
  );
}

const WHOLE = { surface: "its letters", relation: "all related words", definition: "the whole definition" };
const cell = (content) => element("td", {}, content);
