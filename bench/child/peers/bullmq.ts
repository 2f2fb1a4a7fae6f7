import { Queue, QueueEvents, Worker } from "bullmq";
import { type Input, TOPIC } from "../ours/payload.ts";
import type { Events, Side } from "../side.ts";
import type { Role, SideSpec } from "../task.ts";

/**
 * BullMQ as its documentation recommends it: a connection for each object, no limit of retries per request, finished
 * jobs kept (its default; ours are kept for seven days).
 *
 * A job has ended when its completion is in Redis: in one process the worker's own event says so; where the submitter
 * is alone, BullMQ's event stream does.
 */
export async function openBullmq(
  spec: Extract<SideSpec, { kind: "bullmq" }>,
  role: Role,
  events: Events,
): Promise<Side> {
  const { hostname: host, port } = new URL(spec.redisUrl);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const queue = role === "worker" ? null : new Queue<Input>(TOPIC, { connection });
  // From the beginning, because it would otherwise begin to read a moment after it says that it is ready.
  const stream = role === "submitter" ? new QueueEvents(TOPIC, { connection, lastEventId: "0-0" }) : null;
  stream?.on("completed", ({ returnvalue }) => events.ended((returnvalue as unknown as Answer).n));
  await Promise.all([queue?.waitUntilReady(), stream?.waitUntilReady()]);
  let worker: Worker<Input, Answer> | null = null;
  return {
    async submit(input) {
      await queue?.add("echo", input);
    },
    async fill() {
      throw new Error("the backlog is measured of ours alone");
    },
    async start() {
      if (role === "submitter") return;
      worker = new Worker<Input, Answer>(
        TOPIC,
        async (job) => {
          events.worked(job.data, job.attemptsStarted);
          return { ok: true, n: job.data.n };
        },
        { connection, concurrency: spec.concurrency },
      );
      worker.on("completed", (job) => events.ended(job.data.n));
      // Without a listener an error would end the process before it could be reported.
      worker.on("error", (error) => process.stderr.write(`bullmq worker: ${error.message}\n`));
      await worker.waitUntilReady();
    },
    async close() {
      await worker?.close();
      await Promise.all([queue?.close(), stream?.close()]);
    },
  };
}

interface Answer {
  readonly ok: boolean;
  readonly n: number;
}
