/**
 * A function that returns the same string for the same parts. Most records have names in common, and stores keep the names of
 * a change until it is written: new strings of equal text would be hashed, encoded and collected for every change.
 */
export function sharedName(build: (first: string, second: string, third: string) => string) {
  const names = new Map<string, Map<string, Map<string, string>>>();
  let size = 0;
  return (first: string, second: string, third = ""): string => {
    const thirds = childOf(childOf(names, first), second);
    const known = thirds.get(third);
    if (known !== undefined) return known;
    const name = build(first, second, third);
    if (size >= NAMES_MAX) {
      names.clear();
      size = 0;
    } else {
      thirds.set(third, name);
      size += 1;
    }
    return name;
  };
}

/** Clients choose the parts. */
const NAMES_MAX = 10_000;

function childOf<T>(parent: Map<string, Map<string, T>>, key: string): Map<string, T> {
  let child = parent.get(key);
  if (child === undefined) {
    child = new Map();
    parent.set(key, child);
  }
  return child;
}
