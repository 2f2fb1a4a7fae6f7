/**
 * The canonical spelling of the fields that a policy reads. Intake stores it, so that policy, audit and dispatch read
 * one value; the kernel applies it again to requests of other processes (L61).
 *
 * 1. `job.pay` and `pay` are dispatched on one subject and are one topic, `pay`.
 * 2. Labels, risk tags and requirements are compared in Unicode NFC. Case and white space are significant.
 * 3. Numbers are finite: JSON text such as `-1e400` has no value that a worker would receive.
 */

/** Strips the prefix that `workSubject` adds: equal exactly if the subjects are equal. */
export function bareTopic(topic: string): string {
  return topic.startsWith("job.") ? topic.slice(4) : topic;
}

/** Whether the topic has one spelling without the prefix: `job.job.pay` has none that reaches the same workers. */
export const hasBareForm = (topic: string): boolean => !topic.startsWith("job.job.");

export function nfc(text: string): string {
  return isAscii(text) ? text : text.normalize("NFC");
}

/** The same list if nothing changes. */
export function nfcList(texts: readonly string[]): readonly string[] {
  return texts.every(isAscii) ? texts : texts.map(nfc);
}

/** The same object if nothing changes. Null if two keys become equal. */
export function nfcEntries(entries: Readonly<Record<string, string>>): Readonly<Record<string, string>> | null {
  let isPlain = true;
  for (const key of Object.keys(entries)) if (!isAscii(key) || !isAscii(entries[key] ?? "")) isPlain = false;
  if (isPlain) return entries;
  const pairs = Object.entries(entries).map(([key, value]) => [nfc(key), nfc(value)] as const);
  return new Set(pairs.map(([key]) => key)).size === pairs.length ? Object.fromEntries(pairs) : null;
}

/** The path of a number without a JSON form, such as `input.items[3]`; null if there is none. */
export function nonFiniteIn(value: unknown, root: string): string | null {
  if (typeof value === "number") return Number.isFinite(value) ? null : root;
  if (typeof value !== "object" || value === null) return null;
  // Without recursion: the depth of a value is not bounded here.
  const open: Place[] = [{ value, key: root, parent: null }];
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    for (const key of Object.keys(place.value)) {
      const inner = (place.value as Readonly<Record<string, unknown>>)[key];
      if (typeof inner === "object" && inner !== null) open.push({ value: inner, key, parent: place });
      else if (typeof inner === "number" && !Number.isFinite(inner))
        return pathOf({ value: place.value, key, parent: place });
    }
  }
  return null;
}

interface Place {
  readonly value: object;
  readonly key: string;
  readonly parent: Place | null;
}

function pathOf(place: Place): string {
  const parts: string[] = [];
  for (let at: Place | null = place; at !== null; at = at.parent) {
    parts.push(at.parent === null ? at.key : Array.isArray(at.parent.value) ? `[${at.key}]` : `.${at.key}`);
  }
  const path = parts.reverse().join("");
  return path.length > PATH_LENGTH_MAX ? `${path.slice(0, PATH_LENGTH_MAX)}…` : path;
}

const PATH_LENGTH_MAX = 200;

function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}
