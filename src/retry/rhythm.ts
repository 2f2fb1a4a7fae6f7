/**
 * Keeps apart what was meant to be apart.
 *
 * Retries that a policy has spread come back each at a time of its own. A process that stands still for a tenth of a second
 * (its garbage, a slow store, a busy machine) then finds at once all whose time has come meanwhile: going together, they
 * would be the herd that the policy took apart. So they go as a player plays music that comes in bursts: a little behind.
 *
 * 1. Each goes at its time plus what the process is behind, so all keep their distances. Whoever comes later than that
 *    sets how far it is behind; who is on time, in a process that is, waits for nothing.
 * 2. One that is late by himself holds up nobody: the process falls behind by no more than it has stood still for, which
 *    is the time in which nobody went.
 * 3. It catches up a fifth of the time that passes: for that long they come denser by a fifth, and no more.
 * 4. It is never behind for more than `BEHIND_MS_MAX`. What comes even later (a process died, and another one finds all
 *    that it had claimed) has lost its distances: each goes at any moment of the next second, by chance.
 */
export interface Rhythm {
  /** How far behind it was when the last one went, at `atMs`. */
  readonly behindMs: number;
  /** How far it may have been, as it had stood still shortly before: they need not come in their order. */
  readonly stoodMs: number;
  readonly atMs: number;
}

export type Turn =
  /** Now, and the rhythm is this one. */
  | { readonly kind: "go"; readonly rhythm: Rhythm }
  /** After that, ask again: the process may have stood still once more. */
  | { readonly kind: "later"; readonly waitMs: number }
  | { readonly kind: "any_time"; readonly withinMs: number };

export const IN_TIME: Rhythm = Object.freeze({ behindMs: 0, stoodMs: 0, atMs: 0 });
/** Little enough for a process that cannot keep up to go on as fast as it can. */
export const BEHIND_MS_MAX = 500;

/** Whether it is the turn of somebody whose time was `dueMs`. */
export function turnOf(rhythm: Rhythm, dueMs: number, nowMs: number): Turn {
  const lateMs = nowMs - dueMs;
  if (lateMs > BEHIND_MS_MAX) return { kind: "any_time", withinMs: SCATTER_MS };
  // A clock that has gone back holds nobody up.
  const passedMs = nowMs - rhythm.atMs;
  const behindMs = passedMs < 0 ? 0 : Math.max(0, rhythm.behindMs - CATCH_UP * passedMs);
  // Too early is somebody who does not come because of his time.
  const isTurn = lateMs >= behindMs || lateMs < 0;
  // While he waits the process catches up.
  if (!isTurn) return { kind: "later", waitMs: Math.ceil((behindMs - lateMs) / (1 + CATCH_UP)) };
  const stoodMs = Math.min(BEHIND_MS_MAX, Math.max(rhythm.stoodMs - passedMs, behindMs + passedMs));
  const isLate = lateMs > behindMs + SLACK_MS;
  return { kind: "go", rhythm: { behindMs: isLate ? Math.min(lateMs, stoodMs) : behindMs, stoodMs, atMs: nowMs } };
}

const CATCH_UP = 0.2;
/** As long as the sweeps are apart that find what others left behind. */
const SCATTER_MS = 1_000;
/** Timers and round trips are never exact: less than this is on time. */
const SLACK_MS = 5;
