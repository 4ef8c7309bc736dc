// HTML and SVG elements. Text becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings among the children become text. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Show a sentence where it belongs, or hide it again. */
export function say(node, sentence = "") {
  if (node.textContent !== sentence) node.textContent = sentence;
  node.hidden = !sentence;
}
