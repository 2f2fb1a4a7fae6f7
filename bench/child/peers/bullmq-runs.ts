import { FlowProducer, Worker } from "bullmq";
import type { Backend, Events } from "../backend.ts";
import { type Input, STEP_TOPICS, STEPS, stepOf } from "../payload.ts";
import type { BackendSpec } from "../task.ts";

/**
 * A run of three steps as a BullMQ flow.
 *
 * 1. The last step is the root of the flow. The run ends at the `completed` event of the root.
 * 2. Every step has the run's input as its data and reads no output of other steps, as with Cordum.
 * 3. One queue and worker for all steps, or for each step; both are measured.
 */
export async function openBullmqRuns(spec: Extract<BackendSpec, { kind: "bullmq" }>, events: Events): Promise<Backend> {
  const { hostname: host, port } = new URL(spec.redisUrl);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const queueOf = (step: number) => (spec.queues === "each" ? (STEP_TOPICS[step] ?? "") : "bench.steps");
  const producer = new FlowProducer({ connection });
  await producer.waitUntilReady();
  const workers: Worker[] = [];
  const startWorker = (queue: string) => {
    const worker = new Worker<Input, { ok: boolean; n: number }>(
      queue,
      async (job) => {
        events.worked(job.data, job.attemptsStarted, stepOf(job.name));
        return { ok: true, n: job.data.n };
      },
      { connection, concurrency: spec.concurrency },
    );
    worker.on("completed", (job) => {
      if (stepOf(job.name) === LAST) events.ended(job.data.n);
    });
    // Without a listener an error would end the process.
    worker.on("error", (error) => process.stderr.write(`bullmq worker: ${error.message}\n`));
    workers.push(worker);
    return worker.waitUntilReady();
  };
  return {
    async submit(data) {
      const [one, two, three] = STEP_TOPICS;
      await producer.add({
        name: three,
        queueName: queueOf(2),
        data,
        children: [{ name: two, queueName: queueOf(1), data, children: [{ name: one, queueName: queueOf(0), data }] }],
      });
    },
    async fill() {
      throw new Error("the backlog is measured with jobs only");
    },
    async start() {
      await Promise.all([...new Set(STEP_TOPICS.map((_, step) => queueOf(step)))].map(startWorker));
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()));
      await producer.close();
    },
  };
}

const LAST = STEPS - 1;
