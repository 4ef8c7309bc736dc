// A glossary file as terms: JSON lines, or a table with tabs or commas (word, definition, related by semicolons).

const FIELDS = ["word", "definition", "related"];
const TERM = ["word", "term"];
const SEMICOLONS =
  "a semicolon stands where columns should be separated by commas (.csv) or tabs (.tsv); a term that holds one goes " +
  "into a .jsonl file";
const TABS = "a tab stands where columns should be separated by commas: name a file with tabs .tsv";

/** The text of a file; letters of another encoding would be lost. */
export function decode(name, bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${name} is not text in UTF-8: save it so, and import it again.`);
  }
}

/** Throws an Error whose message names the line that cannot be used. */
export function parseGlossary(name, content) {
  const text = content.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  const lines = text.split("\n").map((line, index) => [index + 1, line]);
  if (name.endsWith(".jsonl")) return numbered(name, lines.filter(([, line]) => line.trim()), fromJson);
  if (name.endsWith(".tsv")) return table(name, lines.map(([number, line]) => [number, line.split("\t")]));
  if (name.endsWith(".csv")) return table(name, [...commaRows(name, text)]);
  throw new Error(`${name} is not a glossary by its name: choose a .tsv, .csv or .jsonl file.`);
}

/** A table's first row may name the columns. */
function table(name, rows) {
  const trimmed = rows.map(([number, cells]) => [number, cells.map((cell) => cell.trim())]);
  const filled = trimmed.filter(([, cells]) => cells.some(Boolean));
  const semicolon = filled.find(([, cells]) => /[^;];+[^;]/.test(cells[0]));
  if (semicolon) broken(name, semicolon[0], SEMICOLONS);
  const tab = name.endsWith(".csv") && filled.find(([, cells]) => cells[0].includes("\t"));
  if (tab) broken(name, tab[0], TABS);
  if (!isHeader(filled[0]?.[1] ?? [""])) return numbered(name, filled, fromCells(FIELDS));
  const [[number, header], ...others] = filled;
  const [word, ...columns] = header.map((cell) => cell.toLowerCase());
  if (!TERM.includes(word) || columns.some((column, index) => column !== FIELDS[index + 1])) {
    broken(name, number, `the columns must be ${FIELDS.join(", ")}, in this order`);
  }
  return numbered(name, others, fromCells(FIELDS.slice(0, header.length)));
}

/** Whether a row names columns, if perhaps in a wrong order: a table of nothing but its first column is a list. */
function isHeader(cells) {
  const [first, ...others] = cells.map((cell) => cell.toLowerCase());
  return TERM.includes(first) || others.some((name) => [...FIELDS, "term"].includes(name));
}

/** One term a row. */
function numbered(name, rows, read) {
  const lines = new Map();
  const terms = [];
  for (const [number, row] of rows) {
    const fail = (problem) => broken(name, number, problem);
    const term = read(row, fail);
    if (typeof term.word !== "string" || !term.word.trim()) fail("it has no word");
    if (lines.has(term.word)) fail(`${term.word} was there before, in line ${lines.get(term.word)}`);
    lines.set(term.word, number);
    terms.push(term);
  }
  if (!terms.length) throw new Error(`${name} holds no term: give each a line, the word first.`);
  return terms;
}

function broken(name, line, problem) {
  throw new Error(`Line ${line} of ${name} cannot be used: ${problem}.`);
}

function fromJson(line, fail) {
  let record;
  try {
    record = JSON.parse(line);
  } catch {
    fail("this is not JSON");
  }
  if (record === null || typeof record !== "object") fail("this is not a JSON object");
  if ("term" in record && !("word" in record)) {
    const { term, ...others } = record; // as in the header of a table, either name will do
    record = { word: term, ...others };
  }
  const stranger = Object.keys(record).find((key) => !FIELDS.includes(key));
  if (stranger !== undefined) fail(`${stranger} is not a key of a glossary: the keys are ${FIELDS.join(", ")}`);
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null)); // null is nothing told
}

const fromCells = (columns) => (cells, fail) => {
  if (cells.length > FIELDS.length) {
    fail(`there are ${cells.length} columns, but only ${FIELDS.join(", ")} have a meaning`);
  }
  if (cells.slice(columns.length).some(Boolean)) {
    fail(`there are ${cells.length} columns, but the line of column names has only ${columns.join(", ")}`);
  }
  const [word, definition = "", related = ""] = cells;
  return { word, definition, related: split(related, ";") };
};

export const split = (text, separator) => text.split(separator).map((item) => item.trim()).filter(Boolean);

/** Rows of cells with the line each begins in; quoted cells may hold commas, line breaks and doubled quotes. */
function* commaRows(name, text) {
  const cell = /(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/gy;
  let line = 1;
  let row = [];
  for (let match; cell.lastIndex <= text.length && (match = cell.exec(text)); ) {
    row.push(match[1]?.replaceAll('""', '"') ?? match[2]);
    if (match[3] !== ",") {
      yield [line, row];
      row = [];
    }
    line += match[0].split("\n").length - 1;
    if (match[3] === "") return;
  }
  broken(name, line, "a quotation mark stands where none can");
}
