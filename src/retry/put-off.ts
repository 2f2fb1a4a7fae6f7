/**
 * Keeps apart what was meant to be apart.
 *
 * Retries that a policy has spread come back each at a time of its own. A process that stands still for a tenth of a second
 * (its garbage, a slow store, a busy machine) then finds at once all whose time has come meanwhile: going together, they
 * would be the herd that the policy took apart.
 *
 * 1. Who is on time goes. Who is late goes at any moment of the next second, by chance: those of a tenth of a second that
 *    was lost come on top of the others, denser by a tenth, and no more.
 * 2. Each for himself: what chance has spread stays spread when each is put off by chance. Holding up everybody equally,
 *    so that all keep their distances, does not: a process that is behind then meets another one that is not, and for as
 *    long as it is behind both send.
 * 3. Nobody is put off again and again: a process that cannot keep up goes on as fast as it can.
 */
export const PUT_OFF = { withinMs: 1_000, timesMax: 3 } as const;

/** For how long somebody is put off who comes `lateMs` late; `share` is drawn, from 0 (included) to 1 (excluded). */
export function putOffMs(lateMs: number, timesBefore: number, share: number): number {
  if (lateMs <= SLACK_MS || timesBefore >= PUT_OFF.timesMax) return 0;
  return Math.ceil(PUT_OFF.withinMs * share);
}

/** Timers and round trips are never exact: so little is on time. */
const SLACK_MS = 10;
