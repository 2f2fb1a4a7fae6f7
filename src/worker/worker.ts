import type { Stop } from "../ports/bus.ts";
import type { World } from "../ports/world.ts";
import { CANCEL, directSubject, workSubject } from "../protocol/subjects.ts";
import type { WorkItem } from "./item.ts";
import { announce } from "./presence.ts";
import { WorkerRuntime } from "./worker-runtime.ts";

/**
 * A worker on any bus.
 *
 * 1. At most `concurrency` jobs run; a bounded number is queued. Jobs beyond that, and jobs queued for half of their time,
 *    are returned: they wait for a worker again and use no attempt.
 * 2. Results are published durably. Publishing is retried until the deadline of the attempt.
 * 3. An error is retried within its budget, unless the handler throws `retryAfter` or `permanent`.
 * 4. Long-running jobs extend their deadline automatically.
 */
export interface WorkerOptions {
  readonly id: string;
  readonly topics: readonly string[];
  readonly concurrency: number;
  readonly handle: (item: WorkItem) => Promise<unknown>;
  /** The worker's pool. */
  readonly pool?: string;
  /** Matched against `requires` of jobs. */
  readonly capabilities?: readonly string[];
  /** How long an attempt is extended, to end handlers that hang; 0 disables extension. */
  readonly extendsForMs?: number;
  readonly heartbeatMs?: number;
}

export type { WorkItem } from "./item.ts";
export type WorkerWorld = Pick<World, "bus" | "blobs" | "clock" | "random" | "log">;

export async function startWorker(world: WorkerWorld, options: WorkerOptions): Promise<Stop> {
  const runtime = new WorkerRuntime(world, { extendsForMs: EXTENDS_FOR_MS, ...options });
  const subjects = options.topics.map(workSubject);
  // Ids with characters that are invalid in a subject have no direct subject.
  if (/^[A-Za-z0-9_-]+$/.test(options.id)) subjects.push(directSubject(options.id));
  const stops = await Promise.all([
    ...subjects.map((subject) => world.bus.serve(subject, (packet) => runtime.accept(packet))),
    world.bus.subscribe(CANCEL, ({ body }) => {
      if (body.kind === "job_cancel") runtime.cancel(body.jobId, body.reason ?? "no reason given");
    }),
  ]);
  const presence = announce(world, options, () => runtime.load);
  let stopping: Promise<void> | null = null;
  const stopAll = async () => {
    await presence.stop();
    presence.leave();
    await Promise.all(stops.map((stop) => stop()));
    await runtime.finished();
  };
  return () => {
    stopping ??= stopAll();
    return stopping;
  };
}

const EXTENDS_FOR_MS = 3_600_000;
