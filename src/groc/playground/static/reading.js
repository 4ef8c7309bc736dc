// The text as the model reads it: shaded words, their details, the chart. Words and bars of one place are linked.

import { drawChart } from "./chart.js";
import { detailsHovered, hideDetails, onDetailsLeft, showDetails } from "./details.js";
import { byId, element } from "./element.js";
import { bits, count, heat, plural } from "./numbers.js";

const panes = byId("panes");
const chart = byId("chart");
const LINGER = 120; // milliseconds in which the pointer may cross to the details

let characters = []; // code points, since the service counts so and JavaScript's strings do not
let readings = [];
let current = null;
let leaving = 0;

/** Show what each run makes of the text. A reading: {run, words}. */
export function showReadings(text, shown) {
  leave();
  characters = Array.from(text);
  readings = shown.map(({ run, words }) => ({ run, words, byStart: new Map(words.map((word) => [word.start, word])) }));
  panes.replaceChildren(...readings.map(pane));
  const [first, rival] = readings;
  byId("unread").hidden = readings.length > 0;
  byId("legend").hidden = byId("chart-title").hidden = !readings.length;
  const key = rival ? ` · bars: ${first.run} · lines: ${rival.run}` : "";
  byId("chart-title").textContent = `Along the text${key}`;
  draw();
}

/** One sentence about the first reading. */
export function summary() {
  const [reading] = readings;
  return reading ? `${plural(reading.words.length, "word")}, ${bits(mean(reading.words))} bits a word` : "";
}

const spelling = (word) => characters.slice(word.start, word.end).join("");
const mean = (words) => words.reduce((sum, word) => sum + word.surprisal, 0) / words.length;
const draw = () => drawChart(chart, readings, (readings[0]?.words ?? []).map(spelling));

// --- the panes -----------------------------------------------------------------------------------------------------

function pane(reading) {
  const fresh = reading.words.filter((word) => !word.seen).length;
  const facts = [
    ["words", count(reading.words.length)],
    ["bits a word", bits(mean(reading.words))],
    ["perplexity", count(2 ** mean(reading.words))],
    ["never seen", count(fresh)],
  ].map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  const label = `Words as ${reading.run} reads them; arrow keys move`;
  const words = element("p", { class: "words", role: "listbox", dir: "auto", "aria-label": label });
  words.append(...pieces(reading.words));
  const name = readings.length > 1 ? [element("h3", {}, reading.run)] : [];
  return element("div", { class: "pane" }, ...name, element("dl", { class: "summary" }, ...facts), words);
}

/** The words, and between them the text as it was written. */
function* pieces(words) {
  let end = 0;
  for (const [index, word] of words.entries()) {
    yield characters.slice(end, word.start).join("");
    yield shaded(word, index === 0);
    end = word.end;
  }
  yield characters.slice(end).join("");
}

function shaded(word, first) {
  const node = element(
    "span",
    {
      class: word.seen ? "word" : "word newcomer",
      role: "option",
      tabindex: first ? 0 : -1,
      "aria-label": `${spelling(word)}, ${bits(word.surprisal)} bits`,
      "aria-describedby": "details",
      "data-start": word.start,
      "data-bits": bits(word.surprisal),
    },
    spelling(word),
  );
  node.style.setProperty("--heat", heat(word.surprisal));
  return node;
}

// --- the current word ----------------------------------------------------------------------------------------------

function enter(node) {
  const start = Number(node.dataset.start);
  const columns = readings.map(({ run, byStart }) => ({ run, score: byStart.get(start) })).filter(({ score }) => score);
  leave();
  current = start;
  mark(true);
  showDetails(node.querySelector?.(".bar") ?? node, spelling(columns[0].score), columns);
}

function leave() {
  clearTimeout(leaving);
  mark(false);
  current = null;
  hideDetails();
}

function mark(on) {
  for (const node of document.querySelectorAll(`[data-start="${current}"]`)) node.classList.toggle("current", on);
}

/** To where the pointer or else the keyboard is; if neither is on a word, to nothing. */
function rest() {
  const node = document.querySelector(":is(.word, .column):hover") ?? document.activeElement.closest(".word");
  if (node) enter(node);
  else leave();
}

/** A long chart follows the keyboard. The page itself must not move. */
function scrollChart() {
  const plot = chart.querySelector(".plot");
  const bar = plot.querySelector(".column.current .hit");
  if (bar) plot.scrollLeft = Number(bar.getAttribute("x")) - plot.clientWidth / 2;
}

function leaveSoon() {
  clearTimeout(leaving);
  leaving = setTimeout(() => detailsHovered() || rest(), LINGER);
}

for (const place of [panes, chart]) {
  place.addEventListener("pointerover", (event) => {
    const node = event.target.closest("[data-start]");
    if (node) enter(node);
  });
  place.addEventListener("pointerout", leaveSoon);
}
onDetailsLeft(leaveSoon);

panes.addEventListener("focusin", (event) => {
  const node = event.target.closest(".word");
  if (!node) return;
  for (const other of node.parentElement.querySelectorAll('.word[tabindex="0"]')) other.tabIndex = -1;
  node.tabIndex = 0;
  enter(node);
  scrollChart();
});
panes.addEventListener("focusout", leaveSoon);

panes.addEventListener("keydown", (event) => {
  const words = [...event.target.closest(".words").querySelectorAll(".word")];
  const index = words.indexOf(event.target);
  const forward = getComputedStyle(event.target).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const [before, after] = [words[index - 1], words[index + 1]];
  const target = {
    ArrowLeft: before,
    ArrowRight: before,
    ArrowUp: before,
    ArrowDown: after,
    [forward]: after,
    Home: words[0],
    End: words.at(-1),
  }[event.key];
  if (!target) return;
  event.preventDefault();
  target.focus();
});

addEventListener("keydown", (event) => event.key === "Escape" && leave());
addEventListener("scroll", () => current !== null && rest(), { capture: true, passive: true }); // of any part
addEventListener("resize", leave);
new ResizeObserver(draw).observe(byId("chart-title")); // as wide as the chart, and not resized by its drawing
byId("numbers").addEventListener("change", (event) => panes.classList.toggle("numbers", event.target.checked));
