import { Queue, QueueEvents, Worker } from "bullmq";
import type { Backend, Events } from "../backend.ts";
import { type Input, TOPIC } from "../payload.ts";
import type { BackendSpec, Role } from "../task.ts";

/**
 * BullMQ as its documentation recommends: one connection per object, no retry limit per request, finished jobs are kept (its
 * default; Cordum keeps them for seven days).
 *
 * A job ends when its completion is in Redis, at the worker's `completed` event. A separate submitter uses `QueueEvents`.
 */
export async function openBullmq(
  spec: Extract<BackendSpec, { kind: "bullmq" }>,
  role: Role,
  events: Events,
): Promise<Backend> {
  const { hostname: host, port } = new URL(spec.redisUrl);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const queue = role === "worker" ? null : new Queue<Input>(TOPIC, { connection });
  // From the first event: the default position is taken some time after `waitUntilReady`.
  const stream = role === "submitter" ? new QueueEvents(TOPIC, { connection, lastEventId: "0-0" }) : null;
  stream?.on("completed", ({ returnvalue }) => events.ended((returnvalue as unknown as Answer).n));
  await Promise.all([queue?.waitUntilReady(), stream?.waitUntilReady()]);
  let worker: Worker<Input, Answer> | null = null;
  return {
    async submit(input) {
      await queue?.add("echo", input);
    },
    async fill() {
      throw new Error("the backlog is measured with Cordum only");
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
      // Without a listener an error would end the process.
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
