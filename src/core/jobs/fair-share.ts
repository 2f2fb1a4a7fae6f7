/**
 * Who goes next: room for `room` jobs, shared between the orgs that wait. Each in turn sends as many as its weight.
 *
 * 1. No org with a waiting job gets nothing while another gets two turns more than it.
 * 2. The turn goes on where it ended, within an org's weight too: over many rounds with little room everybody is served
 *    by weight, however little the room.
 * 3. Order is explicit: by name.
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

/** Who was served last, and how many of the turns that its weight gives it are used. */
export interface Turn {
  readonly org: string;
  readonly taken: number;
}

export interface Shares {
  readonly shares: ReadonlyMap<string, number>;
  /** To be handed in with the next round. */
  readonly turn: Turn;
}

/** The org whose turn it is: the same again while it has turns left, else the next by name. */
function firstAt(names: readonly string[], { org, taken }: Turn, weightOf: (org: string) => number): number {
  const at = names.findIndex((name) => (taken < weightOf(org) ? name >= org : name > org));
  return Math.max(0, at);
}
