// The words taught in this tab. The service keeps them under an id; it may forget them, so they are kept here too.

import { call } from "./api.js";
import { recall, remember } from "./session.js";

let id = recall("glossary");
let terms = new Map(recall("terms", []).map((term) => [term.word, term]));
let restoring = null;
let changes = Promise.resolve(); // settled when the last of them is through

export const taught = () => [...terms.values()];

/** A term as the one word that models take it for. */
export const joined = (term) => term.word.trim().replace(/\s+/g, "_");

export function teach(added) {
  const after = () => new Map([...terms, ...added.map((term) => [term.word, term])]);
  return change(after, () => call("POST", `${place()}/terms`, { terms: added }));
}

export function unteach(word) {
  const after = () => new Map([...terms].filter(([other]) => other !== word));
  return change(after, () => call("DELETE", `${place()}/terms/${encodeURIComponent(word)}`));
}

/** POST with the taught words, which the service is given again if it has forgotten them. */
export async function ask(path, body, signal) {
  if (!terms.size) return call("POST", path, body, signal);
  const request = () => call("POST", path, { ...body, glossary: id }, signal);
  return unlessForgotten(request, () => restore().then(request));
}

/** Tell the service, then change what is kept here: nothing changes unless the service agrees. */
function change(after, tell) {
  return inTurn(async () => {
    const changed = after(); // not earlier: the change before this one counts
    try {
      await unlessForgotten(tell, () => create(changed));
    } catch (error) {
      const refused = error.status >= 400 && error.status < 500;
      if (!refused) keep(null); // it may have been changed: what is taught here counts, and is made anew
      throw error;
    }
    terms = changed;
    remember("terms", taught());
  });
}

/** One task after the other, though one may fail. */
function inTurn(task) {
  const turn = changes.then(task);
  changes = turn.catch(() => {});
  return turn;
}

const place = () => `api/glossaries/${encodeURIComponent(id)}`;

/** Do the one where the service knows the glossary, the other where it has none by this id. */
async function unlessForgotten(request, otherwise) {
  if (!id) return otherwise();
  try {
    return await request();
  } catch (error) {
    if (error.status === 404) return otherwise();
    throw error;
  }
}

/** Once, though several requests may find at the same time that the glossary is gone. */
function restore() {
  restoring ??= inTurn(() => create(terms)).finally(() => (restoring = null));
  return restoring;
}

async function create(content) {
  const answer = await call("POST", "api/glossaries", { terms: [...content.values()] });
  keep(answer.id);
}

function keep(answered) {
  id = answered;
  remember("glossary", id);
}
