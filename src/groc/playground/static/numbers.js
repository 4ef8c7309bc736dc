// Numbers as people read them.

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });
const long = { maximumSignificantDigits: 3, notation: "compact", compactDisplay: "long" };
const spelled = new Intl.NumberFormat("en", long);

export const bits = (value) => value.toFixed(value < 10 ? 2 : 1);
export const count = (value) => whole.format(value);
export const large = (value) => compact.format(value);
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A percentage, or one in so many where that would be all zeros. */
export function probability(value) {
  if (value >= 0.0005) return `${(100 * value).toPrecision(value < 0.1 ? 2 : 3)}%`;
  return value > 0 ? `1 in ${(value > 1e-6 ? short : spelled).format(1 / value)}` : "0";
}

/** How a probability changed: "12 times as likely". */
export function times(before, after) {
  const ratio = after / before;
  if (ratio > 0.95 && ratio < 1.05) return "as likely as before";
  const factor = short.format(Number(Math.max(ratio, 1 / ratio).toPrecision(2)));
  return ratio > 1 ? `${factor} times as likely` : `${factor} times less likely`;
}

/** The share of the full shade that a surprisal gets: the same bits look the same in every text. */
const HOTTEST = 20; // the legend says so, too
export const heat = (surprisal) => Math.min(1, surprisal / HOTTEST);
