/**
 * Who goes next: room for `room` jobs, shared between the orgs that wait, one each in turn.
 *
 * 1. No org with a waiting job gets nothing while another gets two more than it.
 * 2. The turn goes on where it ended: over many rounds with little room everybody is served equally.
 * 3. Order is explicit: by name, beginning after the org that was served last.
 */
export function shareOut(waiting: ReadonlyMap<string, number>, room: number, last: string): Shares {
  const names = [...waiting.keys()].sort();
  const start = names.findIndex((name) => name > last);
  const turn = start <= 0 ? names : [...names.slice(start), ...names.slice(0, start)];
  const shares = new Map<string, number>();
  let left = room;
  let served = last;
  for (let round = 1; left > 0; round++) {
    const before = left;
    for (const name of turn) {
      if (left === 0) break;
      if ((waiting.get(name) ?? 0) < round) continue;
      shares.set(name, round);
      served = name;
      left--;
    }
    if (left === before) break;
  }
  return { shares, last: served };
}

export interface Shares {
  readonly shares: ReadonlyMap<string, number>;
  /** The org that was served last. */
  readonly last: string;
}
