/**
 * Weighted round-robin over tenants: splits a capacity of `room` jobs between the tenants with queued jobs.
 *
 * 1. No tenant with a queued job gets nothing while another gets two turns more.
 * 2. The next round continues where the last one ended, also within a tenant's weight. Over many small rounds every
 *    tenant is served by weight.
 * 3. Tenants are ordered by name.
 */
export function fairShare(
  waiting: ReadonlyMap<string, number>,
  room: number,
  turn: Turn,
  weightOf: (org: string) => number = () => 1,
): Shares {
  const names = [...waiting.keys()].sort();
  const shares = new Map<string, number>();
  const total = [...waiting.values()].reduce((sum, count) => sum + count, 0);
  let left = Math.min(room, total);
  if (left <= 0) return { shares, turn };
  let { org, taken } = turn;
  let at = firstAt(names, turn, weightOf);
  if (names[at] !== org) taken = 0;
  while (left > 0) {
    const name = names[at] ?? "";
    const share = shares.get(name) ?? 0;
    const goes = Math.min(left, weightOf(name) - taken, (waiting.get(name) ?? 0) - share);
    if (goes > 0) {
      shares.set(name, share + goes);
      left -= goes;
      org = name;
      taken += goes;
    }
    if (left === 0) break;
    at = (at + 1) % names.length;
    taken = 0;
  }
  return { shares, turn: { org, taken } };
}

/** The tenant served last, and how much of its weight is used. */
export interface Turn {
  readonly org: string;
  readonly taken: number;
}

export interface Shares {
  readonly shares: ReadonlyMap<string, number>;
  /** Pass it to the next round. */
  readonly turn: Turn;
}

/** The same tenant while it has weight left, else the next by name. */
function firstAt(names: readonly string[], { org, taken }: Turn, weightOf: (org: string) => number): number {
  const at = names.findIndex((name) => (taken < weightOf(org) ? name >= org : name > org));
  return Math.max(0, at);
}
