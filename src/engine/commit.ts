import { JOBS, type Job } from "../core/model/job.ts";
import { RUNS } from "../core/model/run.ts";
import type { Message } from "../ports/bus.ts";
import type { Change, Committed } from "../ports/store.ts";
import type { World } from "../ports/world.ts";
import type { Needs } from "./engine.ts";
import { commitNotified } from "./notifications.ts";

/** A change; what is left out is empty, and `atMs` is now. */
export type Commit = (change: Partial<Change> & Pick<Change, "org" | "puts">) => Promise<Committed>;

/**
 * Commits a change, then publishes its outbox messages.
 *
 * 1. A message is published only after its commit: "sent but not saved" cannot happen.
 * 2. A committed message is published by this process, or by the outbox relay if this process dies or the bus is away.
 * 3. The caller waits for the commit, not for the publishing.
 * 4. Subscribers of the event feed receive every committed job and run.
 * 5. With a notifier, notifications about approvals are part of the commit that requests or decides them.
 */
export function createCommit({
  world,
  tasks,
  events,
  throttle,
}: Needs<"world" | "tasks" | "events" | "throttle">): Commit {
  let publishing = 0;

  /** Never throws: the outbox relay publishes what fails here. */
  const publishCommitted = (messages: readonly Message[]): void => {
    if (publishing >= PUBLISHING_MAX) return;
    publishing += 1;
    const published = publishAll(world, messages)
      .catch((error: unknown) => world.log.write("warn", "outbox_publish_deferred", { error: String(error) }))
      .finally(() => {
        publishing -= 1;
      });
    tasks.track(published);
  };

  return async ({ org, puts, atMs = world.clock.now(), guards = NONE, sends = NONE, watch = NONE, totals = NONE }) => {
    const subject = subjectOf(puts);
    if (subject !== null) throttle.begin(subject, atMs);
    let committed: Committed;
    try {
      const change = { org, atMs, puts, guards, sends, watch, totals };
      committed = await (world.notifier ? commitNotified(world, world.notifier, change) : world.store.commit(change));
    } finally {
      if (subject !== null) throttle.end(subject, world.clock.now());
    }
    if (committed.kind === "committed") {
      events.record(puts);
      if (sends.length > 0) publishCommitted(sends);
    }
    return committed;
  };
}

/** The run that a change is about, or the job if it has no run. */
function subjectOf(puts: Change["puts"]): string | null {
  for (const { table, id, value } of puts) {
    if (value === null) continue;
    if (table === RUNS.name) return id;
    if (table === JOBS.name) return (value as Job).step?.runId ?? id;
  }
  return null;
}

/** Publishes outbox messages and removes those that were published. Throws the first failure afterwards. */
export async function publishAll({ bus, store }: World, messages: readonly Message[]): Promise<void> {
  const sends = await Promise.allSettled(messages.map((message) => bus.publish(message)));
  const published = messages.filter((_, at) => sends[at]?.status === "fulfilled");
  if (published.length > 0) await store.sent(published.map((message) => message.id));
  const failed = sends.find((send) => send.status === "rejected");
  if (failed) throw failed.reason;
}

/** Repeats `attempt` (load, decide, commit) while it returns "stale", a bounded number of times. */
export async function retryOnConflict<T>(what: string, attempt: () => Promise<T | "stale"> | T | "stale"): Promise<T> {
  for (let tries = 0; tries < ATTEMPTS_MAX; tries++) {
    const answer = await attempt();
    if (answer !== "stale") return answer;
  }
  throw new ConflictError(`${what} changed ${ATTEMPTS_MAX} times during the decision; retry the request`);
}

/** Every attempt lost a race against another commit. Retrying later helps. */
export class ConflictError extends Error {
  override readonly name = "Contention";
}

const NONE = [] as const;
const PUBLISHING_MAX = 4_096;
const ATTEMPTS_MAX = 8;
