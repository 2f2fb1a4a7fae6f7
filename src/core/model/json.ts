/**
 * Fast paths for values that are already plain JSON, as nearly all are. Every job's input and output pass here several
 * times. Other values (dates, cycles, NaN) fall back to JSON itself.
 */

/** Equals `JSON.parse(JSON.stringify(value))`. */
export function jsonCopy(value: unknown): unknown {
  const copy = copyOf(value, DEPTH_MAX);
  return copy === NOT_PLAIN ? JSON.parse(JSON.stringify(value ?? null)) : copy;
}

/** True only if the JSON text has at most `bytesMax` bytes. False is inconclusive. */
export function fitsWithin(value: unknown, bytesMax: number): boolean {
  return bytesAtMost(value ?? null, bytesMax, DEPTH_MAX) <= bytesMax;
}

/** Whether lists and objects of a JSON text are nested deeper than `depthMax`. Invalid text may give either result. */
export function isTooDeep(text: string, depthMax: number): boolean {
  // Each level needs an opening and a closing character.
  if (text.length <= 2 * depthMax) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1;
      if (depth > depthMax) return true;
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
  }
  return false;
}

function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at;
  }
  return text.length;
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [34, 92, 91, 93, 123, 125] as const;

function copyOf(value: unknown, depthLeft: number): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : NOT_PLAIN;
    case "object":
      if (value === null) return null;
      if (depthLeft === 0 || !isPlain(value)) return NOT_PLAIN;
      return Array.isArray(value) ? copyOfList(value, depthLeft) : copyOfObject(value, depthLeft);
    default:
      return NOT_PLAIN;
  }
}

function copyOfList(list: readonly unknown[], depthLeft: number): unknown {
  const copy: unknown[] = [];
  for (const item of list) {
    const own = copyOf(item, depthLeft - 1);
    if (own === NOT_PLAIN) return NOT_PLAIN;
    copy.push(own);
  }
  return copy;
}

function copyOfObject(object: object, depthLeft: number): unknown {
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(object)) {
    // Assigning `__proto__` would set the prototype of the copy.
    if (key === "__proto__") return NOT_PLAIN;
    const own = copyOf((object as Record<string, unknown>)[key], depthLeft - 1);
    if (own === NOT_PLAIN) return NOT_PLAIN;
    copy[key] = own;
  }
  return copy;
}

/** An upper bound; stops as soon as it exceeds `bytesMax`. */
function bytesAtMost(value: unknown, bytesMax: number, depthLeft: number): number {
  switch (typeof value) {
    case "string":
      return value.length * CHARACTER_BYTES_MAX + 2;
    case "number":
    case "boolean":
      return NUMBER_BYTES_MAX;
    case "object":
      if (value === null) return 4;
      if (depthLeft === 0 || !isPlain(value)) return Number.POSITIVE_INFINITY;
      return bytesInside(value, bytesMax, depthLeft - 1);
    default:
      return Number.POSITIVE_INFINITY;
  }
}

function bytesInside(value: object, bytesMax: number, depthLeft: number): number {
  let bytes = 2;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && bytes <= bytesMax; at++) {
      bytes += 1 + bytesAtMost(value[at], bytesMax - bytes, depthLeft);
    }
    return bytes;
  }
  for (const key of Object.keys(value)) {
    bytes += key.length * CHARACTER_BYTES_MAX + 4;
    bytes += bytesAtMost((value as Record<string, unknown>)[key], bytesMax - bytes, depthLeft);
    if (bytes > bytesMax) return bytes;
  }
  return bytes;
}

function isPlain(value: object): boolean {
  if ("toJSON" in value) return false;
  if (Array.isArray(value)) return true;
  const parent: unknown = Object.getPrototypeOf(value);
  return parent === Object.prototype || parent === null;
}

const NOT_PLAIN = Symbol("not plain");
const DEPTH_MAX = 32;
/** `\u0000`: six characters for one. */
const CHARACTER_BYTES_MAX = 6;
/** `-1.2345678901234567e+100`. */
const NUMBER_BYTES_MAX = 25;

/** Equal text for equal values: sorts object keys, keeps list order. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(canonical(value)) ?? "";
}

function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, entry]) => [key, canonical(entry)]);
}

/** Escapes line breaks, control characters and bidirectional overrides, which change what a terminal shows. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (char) => NAMED[char] ?? escaped(char));
}

export function terminalJson(value: unknown, indent?: number): string {
  return escapeJson(JSON.stringify(value, null, indent) ?? "null");
}

/** Escapes what `JSON.stringify` leaves as it is: DEL, the C1 controls and the overrides. */
export const escapeJson = (json: string): string => json.replace(JSON_CONTROLS, escaped);

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it escapes.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const JSON_CONTROLS = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
