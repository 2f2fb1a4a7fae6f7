import type { Stop } from "../ports/bus.ts";
import type { World } from "../ports/world.ts";
import { CANCEL, directSubject, workSubject } from "../protocol/subjects.ts";
import type { WorkItem } from "./item.ts";
import { appear } from "./presence.ts";
import { WorkerRuntime } from "./worker-runtime.ts";

/**
 * For those who do the work, on any bus.
 *
 * 1. At most `concurrency` jobs are worked on; a bounded number waits behind them. What comes beyond, and what has waited
 *    for half its time, is handed back: it waits for a worker again and has lost no attempt.
 * 2. The result is published durably and tried again until it is, or until nobody waits for it any more.
 * 3. A plain error is retried within its budget; `retryAfter` says when, `permanent` says never.
 * 4. Work that takes longer than the control plane waits for a word asks for more time by itself.
 */
export interface WorkerOptions {
  readonly id: string;
  readonly topics: readonly string[];
  readonly concurrency: number;
  readonly handle: (item: WorkItem) => Promise<unknown>;
  /** The pool that it belongs to. */
  readonly pool?: string;
  /** What it can do, for jobs that require something. */
  readonly capabilities?: readonly string[];
  /** For how long an attempt goes on asking for more time; 0 for never. A handler that hangs must end some day. */
  readonly extendsForMs?: number;
  readonly heartbeatMs?: number;
}

export type { WorkItem } from "./item.ts";
export type WorkerWorld = Pick<World, "bus" | "blobs" | "clock" | "random" | "log">;

export async function startWorker(world: WorkerWorld, options: WorkerOptions): Promise<Stop> {
  const bench = new WorkerRuntime(world, { extendsForMs: EXTENDS_FOR_MS, ...options });
  const subjects = options.topics.map(workSubject);
  // Only an id that can stand in a subject has one of its own.
  if (/^[A-Za-z0-9_-]+$/.test(options.id)) subjects.push(directSubject(options.id));
  const stops = await Promise.all([
    ...subjects.map((subject) => world.bus.serve(subject, (packet) => bench.accept(packet))),
    world.bus.subscribe(CANCEL, ({ body }) => {
      if (body.kind === "job_cancel") bench.cancel(body.jobId, body.reason ?? "no reason was given");
    }),
  ]);
  const presence = appear(world, options, () => bench.load);
  let stopping: Promise<void> | null = null;
  const stopAll = async () => {
    await presence.stop();
    presence.leave();
    await Promise.all(stops.map((stop) => stop()));
    await bench.finished();
  };
  return () => {
    stopping ??= stopAll();
    return stopping;
  };
}

const EXTENDS_FOR_MS = 3_600_000;
