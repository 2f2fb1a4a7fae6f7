/**
 * What has changed between two versions of a record, as a document: most changes touch a few fields of many, and writing
 * down the rest again is most of what a write costs.
 *
 * 1. `patched(before, patchOf(before, after))` is `after`, as documents.
 * 2. What is the same object was not changed: values are never changed in place. So what is alike but another object
 *    is written down again, and what is large and stays what it is never.
 */
export interface Patch {
  /** Fields that are other than before, or new. */
  readonly s?: Fields;
  /** Fields that are gone. */
  readonly d?: readonly string[];
  /** Lists that have grown: what came behind. */
  readonly p?: Readonly<Record<string, readonly unknown[]>>;
  /** Objects that have changed within. */
  readonly i?: Readonly<Record<string, Patch>>;
}

/** Null where the two cannot be told apart by fields: then the whole has to be written. */
export function patchOf(before: unknown, after: unknown, depth = DEPTH): Patch | null {
  if (!isFields(before) || !isFields(after)) return null;
  const patch: Growing = {};
  for (const key in after) {
    const now = after[key];
    const was = fieldOf(before, key);
    if (key === "__proto__") return null;
    if (now === was || now === undefined) continue;
    const came = Array.isArray(was) && Array.isArray(now) ? cameBehind(was, now) : null;
    const within = came === null && depth > 0 ? patchOf(was, now, depth - 1) : null;
    if (came !== null) {
      if (came.length > 0) patch.p = { ...patch.p, [key]: came };
    } else if (within !== null) {
      if (!isNothing(within)) patch.i = { ...patch.i, [key]: within };
    } else if (patch.s === undefined) patch.s = { [key]: now };
    else patch.s[key] = now;
  }
  for (const key in before) {
    if (before[key] === undefined || fieldOf(after, key) !== undefined) continue;
    if (patch.d === undefined) patch.d = [key];
    else patch.d.push(key);
  }
  return patch;
}

/** Changes `value`, which is the caller's own. */
export function patched(value: unknown, { s, d, p, i }: Patch): unknown {
  const fields = value as Fields;
  for (const key in s) fields[key] = s[key];
  for (const key in p) fields[key] = [...(fields[key] as readonly unknown[]), ...p[key]!];
  for (const key in i) patched(fields[key], i[key]!);
  for (const key of d ?? []) delete fields[key];
  return value;
}

type Fields = Record<string, unknown>;
interface Growing {
  s?: Fields;
  d?: string[];
  p?: Record<string, readonly unknown[]>;
  i?: Record<string, Patch>;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNothing(patch: Patch): boolean {
  for (const _ in patch) return false;
  return true;
}

/** Objects answer to some names that they do not have, with functions: no document has any. */
function fieldOf(fields: Fields, key: string): unknown {
  const value = fields[key];
  return typeof value === "function" ? undefined : value;
}

function cameBehind(was: readonly unknown[], now: readonly unknown[]): readonly unknown[] | null {
  if (was.length > now.length) return null;
  for (let at = 0; at < was.length; at++) if (was[at] !== now[at]) return null;
  return now.slice(was.length);
}

/** Of a run: itself, its steps, each of them. */
const DEPTH = 2;
