import { JOBS, type Job } from "../core/model/job.ts";
import { RUNS } from "../core/model/run.ts";
import type { Message } from "../ports/bus.ts";
import type { Change, Committed } from "../ports/store.ts";
import type { Engine } from "./engine.ts";

/**
 * From a decision to the world: commit, then send what was committed.
 *
 * 1. Nothing is sent that was not committed: "sent but not saved" cannot happen.
 * 2. What was committed is sent: at once from here, or by the sweeper if this process dies or the bus is away.
 * 3. The caller waits for the commit only; sending goes on by itself.
 * 4. Whoever watches jobs hears of those that were changed (see `notices.ts`).
 */
export async function commit(
  engine: Engine,
  wanted: Partial<Change> & Pick<Change, "org" | "puts">,
): Promise<Committed> {
  const { clock, store } = engine.world;
  const { org, puts, guards = NONE, sends = NONE, watch = NONE, totals = NONE } = wanted;
  const atMs = wanted.atMs ?? clock.now();
  const about = aboutOf(puts);
  // Whoever has a commit under way has work here (see `pace.ts`).
  if (about !== null) engine.throttle.begin(about, atMs);
  let committed: Committed;
  try {
    committed = await store.commit({ org, atMs, puts, guards, sends, watch, totals });
  } finally {
    if (about !== null) engine.throttle.end(about, clock.now());
  }
  if (committed.kind === "committed") {
    engine.events.note(puts);
    if (sends.length > 0) sendCommitted(engine, sends);
  }
  return committed;
}

/** The run, or the job of none, that a change is about. */
function aboutOf(puts: Change["puts"]): string | null {
  for (const { table, id, value } of puts) {
    if (value === null) continue;
    if (table === RUNS.name) return id;
    if (table === JOBS.name) return (value as Job).step?.runId ?? id;
  }
  return null;
}

/** Publishes messages of the outbox and strikes them off. Never throws: what fails here is sent by the sweeper. */
function sendCommitted(engine: Engine, messages: readonly Message[]): void {
  if (engine.jobCache.sending >= SENDING_MAX) return;
  engine.jobCache.sending++;
  const sending = publishAll(engine, messages)
    .catch((error: unknown) => engine.world.log.write("warn", "send_left_to_sweeper", { error: String(error) }))
    .finally(() => engine.jobCache.sending--);
  engine.tasks.track(sending);
}

/** Strikes off what went, whatever became of the others; then says that some did not go. */
export async function publishAll(engine: Engine, messages: readonly Message[]): Promise<void> {
  const sends = await Promise.allSettled(messages.map((message) => engine.world.bus.publish(message)));
  const went = messages.filter((_, at) => sends[at]?.status === "fulfilled");
  if (went.length > 0) await engine.world.store.sent(went.map((message) => message.id));
  const failed = sends.find((send) => send.status === "rejected");
  if (failed) throw failed.reason;
}

/**
 * Reads, decides and applies again while the decision was based on an old version, a bounded number of times. `attempt`
 * answers "stale" to be called again.
 */
export async function retryOnConflict<T>(what: string, attempt: () => Promise<T | "stale"> | T | "stale"): Promise<T> {
  for (let tries = 0; tries < FRESH_TRIES_MAX; tries++) {
    const answer = await attempt();
    if (answer !== "stale") return answer;
  }
  throw new ConflictError(`${what} changed ${FRESH_TRIES_MAX} times while it was being decided on`);
}

/** Others were faster each time: nothing is broken, and trying again helps. */
export class ConflictError extends Error {
  override readonly name = "Contention";
}

const NONE = [] as const;
const SENDING_MAX = 4_096;
const FRESH_TRIES_MAX = 8;
