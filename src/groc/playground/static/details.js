// The card with everything known of a word, beside the word or its bar.

import { byId, element } from "./element.js";
import { bits, count, probability } from "./numbers.js";

const card = byId("details");
const yes = (value) => (value ? "yes" : "no");
const FACTS = [
  ["Surprisal", (score) => `${bits(score.surprisal)} bits`],
  ["Probability", (score) => probability(score.probability)],
  ["Rank", (score) => count(score.rank)],
  ["Entropy before it", (score) => `${bits(score.entropy)} bits`],
  ["Seen in training", (score) => yes(score.seen)],
  ["In lexicon", (score) => yes(score.in_lexicon)],
];
const GAP = 8;

/** `columns`: one {run, score} for each run that read the word. */
export function showDetails(anchor, spelling, columns) {
  const table = element("table");
  if (columns.length > 1) {
    const names = columns.map(({ run }) => element("th", { scope: "col" }, run));
    table.append(element("thead", {}, element("tr", {}, element("td"), ...names)));
  }
  const rows = FACTS.map(([name, format]) => {
    const cells = columns.map(({ score }) => element("td", {}, format(score)));
    return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
  });
  table.append(element("tbody", {}, ...rows));
  card.replaceChildren(element("p", { class: "spelling", dir: "auto" }, spelling), table);
  card.hidden = false;
  place(anchor.getBoundingClientRect());
}

export function hideDetails() {
  card.hidden = true;
}

export const detailsHovered = () => card.matches(":hover");

/** Call when the pointer leaves the card. */
export const onDetailsLeft = (listener) => card.addEventListener("pointerleave", listener);

/** Below the anchor, or above it where the window ends; never beyond the window's sides. */
function place(box) {
  const { offsetWidth: width, offsetHeight: height } = card;
  const { clientWidth, clientHeight } = document.documentElement;
  const below = box.bottom + GAP;
  const top = below + height <= clientHeight || box.top < height + GAP ? below : box.top - height - GAP;
  const left = Math.max(GAP, Math.min(box.left, clientWidth - width - GAP));
  card.style.top = `${top}px`;
  card.style.left = `${left}px`;
}
