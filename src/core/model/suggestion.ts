/** The known name with the smallest edit distance, if it is close enough. */
export function nearestName(wrong: string, known: Iterable<string>): string | undefined {
  const limit = Math.max(1, Math.floor(wrong.length / 3));
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const distance = isPartOf(wrong, name) ? 1 : editDistance(wrong.toLowerCase(), name.toLowerCase());
    if (distance <= limit && (best === undefined || distance < best.distance)) best = { name, distance };
  }
  return best?.name;
}

/** `; did you mean …?`, or an empty string. */
export function suggestion(wrong: string, known: Iterable<string>): string {
  const name = nearestName(wrong, known);
  return name === undefined ? "" : `; did you mean \`${name}\`?`;
}

/** A missing section or unit: `park_after` for `bus.park_after_ms`. */
function isPartOf(wrong: string, name: string): boolean {
  return wrong.length >= 4 && (name.endsWith(`.${wrong}`) || name === `${wrong}_ms` || name.endsWith(`.${wrong}_ms`));
}

/** Damerau–Levenshtein distance (adjacent swaps count once). Long names are cut to bound the cost. */
function editDistance(left: string, right: string): number {
  const a = left.slice(0, LENGTH_MAX);
  const b = right.slice(0, LENGTH_MAX);
  let above = Array.from({ length: b.length + 1 }, (_, index) => index);
  let twoAbove: number[] = [];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replace = (above[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwapped ? (twoAbove[j - 2] ?? 0) + 1 : replace;
      row.push(Math.min(replace, swap, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    twoAbove = above;
    above = row;
  }
  return above[b.length] ?? 0;
}

const LENGTH_MAX = 80;
