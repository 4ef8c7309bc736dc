// Surprisal along the text: a bar for each word, and a mark on it for the run compared with.

import { element, shape } from "./element.js";
import { bits, heat, plural } from "./numbers.js";

const AXIS = 34;
const TOP = 10;
const PLOT = 150; // height of the bars' space
const MIN_STEP = 5;
const MAX_STEP = 150;
const MAX_BAR = 30;

/** Draw `readings` (one or two) of the same text; `spellings` name the bars of the first. */
export function drawChart(figure, readings, spellings) {
  const words = readings[0]?.words ?? [];
  figure.hidden = !words.length;
  if (!words.length) return figure.replaceChildren();

  const values = readings.flatMap((reading) => reading.words.map((word) => word.surprisal));
  const ceiling = Math.max(5, Math.ceil(values.reduce((most, value) => Math.max(most, value)) / 5) * 5);
  const y = (value) => TOP + PLOT * (1 - value / ceiling);
  const room = figure.clientWidth - AXIS - 2;
  const step = Math.max(MIN_STEP, Math.min(MAX_STEP, room / words.length));
  const width = Math.max(room, step * words.length);
  const labels = xLabels(spellings, step, y(0));
  const height = y(0) + labels.height;

  const ticks = [];
  for (let value = 0; value <= ceiling; value += ceiling > 20 ? 10 : 5) ticks.push(value);
  const axis = shape("svg", { class: "axis", width: AXIS, height, "aria-hidden": "true" });
  axis.append(
    ...ticks.map((value) => shape("text", { x: AXIS - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))),
    shape("text", { x: AXIS - 6, y: y(0) + 18, "text-anchor": "end" }, "bits"),
  );

  const plot = shape("svg", { width, height, role: "img", "aria-label": inWords(words, spellings) });
  plot.append(...ticks.map((value) => line("grid", 0, width, y(value))));
  const bar = Math.min(MAX_BAR, step * 0.72);
  for (const [index, word] of words.entries()) {
    const x = index * step + (step - bar) / 2;
    const box = { x, y: y(word.surprisal), width: bar, height: y(0) - y(word.surprisal), rx: Math.min(3, bar / 3) };
    const column = shape("g", { class: "column", "data-start": word.start }, shape("rect", { class: "bar", ...box }));
    column.style.setProperty("--heat", heat(word.surprisal));
    const rival = readings[1]?.byStart.get(word.start);
    if (rival) column.append(line("rival", x - 2, x + bar + 2, y(rival.surprisal)));
    column.append(shape("rect", { class: "hit", x: index * step, y: 0, width: step, height }));
    plot.append(column);
  }
  plot.append(...labels.nodes);
  figure.replaceChildren(axis, element("div", { class: "plot" }, plot));
}

function line(name, x1, x2, y) {
  return shape("line", { class: name, x1, x2, y1: y, y2: y });
}

/** The words themselves where there is room, else their numbers. */
function xLabels(spellings, step, base) {
  const middle = (index) => (index + 0.5) * step;
  const level = (index, text) => shape("text", { x: middle(index), y: base + 18, "text-anchor": "middle" }, text);
  if (step >= 46) {
    return { nodes: spellings.map((word, index) => level(index, shorten(word, step / 6.6))), height: 28 };
  }
  if (step >= 15) {
    const nodes = spellings.map((word, index) => {
      const at = `translate(${middle(index) + 4} ${base + 12}) rotate(-45)`;
      return shape("text", { transform: at, "text-anchor": "end" }, shorten(word, 10));
    });
    const longest = Math.max(...spellings.map((word) => Math.min(10, word.length)));
    return { nodes, height: 24 + 4.4 * longest };
  }
  const every = [10, 20, 50, 100, 200, 500, 1000].find((size) => size * step >= 40) ?? 2000;
  const nodes = [];
  for (let number = every; number <= spellings.length; number += every) nodes.push(level(number - 1, String(number)));
  return { nodes, height: 28 };
}

function shorten(word, most) {
  const characters = Array.from(word);
  return characters.length <= most ? word : `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}

function inWords(words, spellings) {
  const top = words.reduce((best, word, index) => (word.surprisal > words[best].surprisal ? index : best), 0);
  const highest = `${bits(words[top].surprisal)} bits, is that of ${spellings[top]}`;
  return `Surprisal of ${plural(words.length, "word")}; the highest, ${highest}.`;
}
