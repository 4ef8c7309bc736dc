// Fields that may be given long texts: the direction of what stands in them, and what is too long to send.

const LONGEST = 100_000; // characters of a text, for the service
const HEAD = 300; // characters that decide the direction
const FIELDS = "input:not([type]), textarea";

/** The text, if the service takes one as long. */
export function fitting(text) {
  // The service counts code points, of which each is one or two here.
  if (Array.from(text.slice(0, 2 * LONGEST + 1)).length <= LONGEST) return text;
  throw new Error(`The text may have at most ${LONGEST.toLocaleString("en")} characters: shorten it.`);
}

export function fill(field, value) {
  field.value = value;
  turn(field);
}

/** As dir="auto" would, for which Chromium reads a long text again and again. */
function turn(field) {
  const head = document.createElement("bdi");
  head.textContent = field.value.slice(0, HEAD);
  field.dir = head.matches(":dir(rtl)") ? "rtl" : "ltr";
}

for (const field of document.querySelectorAll(FIELDS)) field.addEventListener("input", () => turn(field));
