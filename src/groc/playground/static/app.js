// The page as a whole: the text, the runs, and who is asked what when they change.

import { call, isStale, latest } from "./api.js";
import { byId, element, say } from "./element.js";
import { fill, fitting } from "./fields.js";
import { ask, taught } from "./glossary.js";
import { large } from "./numbers.js";
import * as reading from "./reading.js";
import { recall, remember } from "./session.js";
import * as suggestions from "./suggestions.js";
import { fillForm, showAgain, startTeaching } from "./teaching.js";

const TYPING = 180; // milliseconds of quiet after which the model is asked
const SPEAKING = 900; // and after which a screen reader is told
const EXAMPLES = [
  ["A plain sentence", "The dog ran along the river and came back with a stick in its"],
  ["A garden path", "The old man the boats while the young sleep at"],
  ["A new word to teach", "The house was built by a skilled flendeti with the"],
];
const NEW_WORD = {
  word: "flendeti",
  definition: "a person who builds houses of wood",
  related: ["carpenter", "builder"],
};

const area = byId("text");
const menus = { run: byId("run"), other: byId("other") };
const newestReading = latest();
const newestSuggestions = latest();
let runs = [];

// --- asking --------------------------------------------------------------------------------------------------------

/** The names of the runs that read: one, or two where they are compared. */
const readers = () => [menus.run.value, ...(menus.other.value ? [menus.other.value] : [])];
const text = () => area.value.toWellFormed();
const beforeCaret = () => area.value.slice(0, area.selectionEnd).toWellFormed();

function read() {
  const clear = () => reading.showReadings("", []);
  return attempt(byId("reading-error"), byId("panes"), clear, async () => {
    const asked = text();
    const answers = await newestReading((signal) =>
      asked.trim() ? Promise.all(readers().map((run) => ask("api/score", { text: fitting(asked), run }, signal))) : [],
    );
    const readings = answers.map(({ run, documents: [document] }) => ({ run, ...document }));
    reading.showReadings(asked, readings.filter(({ words }) => words.length));
    announce("reading", reading.summary());
  });
}

function suggest() {
  const clear = () => suggestions.showSuggestions([]);
  return attempt(byId("suggesting-error"), byId("suggestions"), clear, async () => {
    const lists = await newestSuggestions((signal) => {
      const body = { text: fitting(beforeCaret()), limit: suggestions.LIMIT };
      return Promise.all(readers().map((run) => ask("api/next", { ...body, run }, signal)));
    });
    suggestions.showSuggestions(lists);
    announce("suggestions", suggestions.summary(lists));
  });
}

/** Not before the runs are known. */
function refresh() {
  refreshSoon.cancel();
  return runs.length && Promise.all([suggest(), read()]);
}

/** Run the task; a problem takes the place of what was shown. What a newer task overtook says nothing. */
async function attempt(node, busy, clear, task) {
  busy.setAttribute("aria-busy", "true");
  try {
    await task();
    say(node);
  } catch (problem) {
    if (isStale(problem)) return;
    clear();
    say(node, problem.message);
  }
  busy.removeAttribute("aria-busy");
}

function after(quiet, task) {
  let timer = 0;
  const soon = () => {
    soon.cancel();
    timer = setTimeout(task, quiet);
  };
  soon.cancel = () => clearTimeout(timer);
  return soon;
}

const news = {};
const speak = after(SPEAKING, () => (byId("announcer").textContent = Object.values(news).filter(Boolean).join(". ")));
function announce(topic, sentence) {
  news[topic] = sentence;
  speak();
}

// --- the text ------------------------------------------------------------------------------------------------------

const refreshSoon = after(TYPING, refresh);
const suggestSoon = after(TYPING, () => runs.length && suggest());
let caret = 0;

function write(value) {
  fill(area, value);
  caret = area.selectionEnd;
  remember("text", value);
  refresh();
}

area.addEventListener("input", () => {
  caret = area.selectionEnd;
  remember("text", area.value);
  refreshSoon();
});
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== area || area.selectionEnd === caret) return;
  caret = area.selectionEnd;
  suggestSoon();
});
byId("clear").addEventListener("click", () => {
  write("");
  area.focus();
});
suggestions.onChoice(
  (word) => {
    const added = suggestions.continuation(beforeCaret(), word, taught());
    area.setRangeText(added, area.selectionEnd, area.selectionEnd, "end");
    write(area.value);
  },
  () => area.focus(),
);
byId("examples").append(
  ...EXAMPLES.map(([name, example], index) => {
    const button = element("button", { type: "button", class: "quiet" }, name);
    button.addEventListener("click", () => {
      write(example);
      if (index === EXAMPLES.length - 1) fillForm(NEW_WORD);
    });
    return button;
  }),
);

// --- the runs ------------------------------------------------------------------------------------------------------

function showRuns() {
  const options = () => runs.map(({ name }) => element("option", { value: name }, name));
  menus.run.replaceChildren(...options());
  menus.other.replaceChildren(element("option", { value: "" }, "nothing"), ...options());
  byId("menus").hidden = runs.length < 2;
  offerOthers();
  facts();
}

function facts() {
  const run = runs.find(({ name }) => name === menus.run.value);
  const kind = run.open ? "takes any word" : "closed: definitions tell it nothing";
  const name = runs.length < 2 ? `${run.name} · ` : "";
  const sentence = `${name}${large(run.words)} words · ${large(run.parameters)} parameters · ${kind}`;
  const warning = run.warning ? [element("span", { class: "warning" }, run.warning)] : [];
  byId("facts").replaceChildren(sentence, ...warning);
}

/** A run is not compared with itself. */
function offerOthers() {
  for (const option of menus.other.options) option.disabled = option.value === menus.run.value;
  if (menus.other.selectedOptions[0].disabled) menus.other.value = "";
}

for (const menu of Object.values(menus)) {
  menu.addEventListener("change", () => {
    offerOthers();
    facts();
    refresh();
    showAgain();
  });
}

async function start() {
  try {
    const [served, { groc }] = await Promise.all([call("GET", "api/runs"), call("GET", "version")]);
    byId("version").textContent = `Served by GroC ${groc}.`;
    runs = served.runs; // with no wait before they are shown: what is typed is sent as soon as there are some
  } catch (problem) {
    return say(byId("banner"), problem.message);
  }
  showRuns();
  refresh();
}

write(recall("text", EXAMPLES[0][1])); // at once: what is typed while the runs are asked for must stay
startTeaching({ run: () => menus.run.value || undefined, text, changed: refresh });
start();
