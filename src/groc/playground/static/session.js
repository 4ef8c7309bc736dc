// What this tab remembers until it is closed. A browser that forbids storing forgets at once, and all else works.

export function recall(key, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(`groc.${key}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(key, value) {
  try {
    sessionStorage.setItem(`groc.${key}`, JSON.stringify(value));
  } catch {
    // Full or forbidden.
  }
}
