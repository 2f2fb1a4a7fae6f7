/**
 * The difference between two versions of a record. Stores append it instead of writing the whole record.
 *
 * 1. `applyPatch(before, diff(before, after))` equals `after` as a JSON document.
 * 2. Values are compared by identity, because records are immutable. An equal but distinct object is written again.
 */
export interface Patch {
  /** Changed or new fields. */
  readonly s?: Fields;
  /** Deleted fields. */
  readonly d?: readonly string[];
  /** Items appended to arrays. */
  readonly p?: Readonly<Record<string, readonly unknown[]>>;
  /** Patches of nested objects. */
  readonly i?: Readonly<Record<string, Patch>>;
}

/** Null if a patch cannot express the difference: the caller writes the whole record. */
export function diff(before: unknown, after: unknown, depth = DEPTH): Patch | null {
  if (!isFields(before) || !isFields(after)) return null;
  const patch: MutablePatch = {};
  let kept = 0;
  for (const key in after) {
    const now = after[key];
    const was = fieldOf(before, key);
    if (key === "__proto__") return null;
    if (now === undefined) continue;
    if (was !== undefined) kept += 1;
    if (now === was) continue;
    const added = Array.isArray(was) && Array.isArray(now) ? appended(was, now) : null;
    const nested = added === null && depth > 0 ? diff(was, now, depth - 1) : null;
    if (added !== null) {
      if (added.length > 0) patch.p = { ...patch.p, [key]: added };
    } else if (nested !== null) {
      if (!isEmpty(nested)) patch.i = { ...patch.i, [key]: nested };
    } else if (patch.s === undefined) patch.s = { [key]: now };
    else patch.s[key] = now;
  }
  // Lookups in records of many shapes are the cost of a patch.
  if (Object.keys(before).length === kept) return patch;
  for (const key in before) {
    if (before[key] === undefined || fieldOf(after, key) !== undefined) continue;
    if (patch.d === undefined) patch.d = [key];
    else patch.d.push(key);
  }
  return patch;
}

/** Modifies `value` in place. */
export function applyPatch(value: unknown, { s, d, p, i }: Patch): unknown {
  const fields = value as Fields;
  for (const key in s) fields[key] = s[key];
  for (const key in p) fields[key] = [...(fields[key] as readonly unknown[]), ...p[key]!];
  for (const key in i) applyPatch(fields[key], i[key]!);
  for (const key of d ?? []) delete fields[key];
  return value;
}

type Fields = Record<string, unknown>;
interface MutablePatch {
  s?: Fields;
  d?: string[];
  p?: Record<string, readonly unknown[]>;
  i?: Record<string, Patch>;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEmpty(patch: Patch): boolean {
  for (const _ in patch) return false;
  return true;
}

/** Hides methods inherited from `Object.prototype`, such as `toString`. */
function fieldOf(fields: Fields, key: string): unknown {
  const value = fields[key];
  return typeof value === "function" ? undefined : value;
}

function appended(was: readonly unknown[], now: readonly unknown[]): readonly unknown[] | null {
  if (was.length > now.length) return null;
  for (let at = 0; at < was.length; at++) if (was[at] !== now[at]) return null;
  return now.slice(was.length);
}

/** Levels of a run: the run, its steps, each step. */
const DEPTH = 2;
