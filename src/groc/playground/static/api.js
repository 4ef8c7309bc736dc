// The HTTP API: the token, errors as sentences, patience while the service is busy, stale answers discarded.

import { byId, say } from "./element.js";
import { recall, remember } from "./session.js";

const WAITS = [300, 700, 1500, 3000, 5000]; // milliseconds before each further try

const given = new URLSearchParams(location.search).get("token");
if (given) remember("token", given);

export class ServiceError extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** The answer to one request. Rejects with a ServiceError whose message is a sentence to show. */
export async function call(method, path, body, signal) {
  for (const wait of [...WAITS, null]) {
    const response = await send(method, path, body, signal);
    if (response.ok) return response.status === 204 ? null : response.json();
    if (response.status !== 429 || wait === null) throw new ServiceError(await sentence(response), response.status);
    await pause(wait, signal);
  }
}

async function send(method, path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const token = given ?? recall("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    return await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (isStale(error)) throw error;
    throw new ServiceError("The service does not answer: see whether groc serve is still running.", 0);
  }
}

async function sentence(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string") return error;
  } catch {
    // Not the service's own answer: a proxy's, perhaps.
  }
  return `The service answered with an error (${response.status}): try again.`;
}

async function pause(milliseconds, signal) {
  say(byId("busy"), "The service is busy: trying again");
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  say(byId("busy"));
  signal?.throwIfAborted();
}

/** A runner of tasks of which only the latest counts: the one before is aborted, and rejects as stale. */
export function latest() {
  let controller = new AbortController();
  return async (task) => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      return await task(signal);
    } finally {
      signal.throwIfAborted(); // also in place of an error: nobody asks any more why it failed
    }
  };
}

export const isStale = (error) => error.name === "AbortError";
