import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { defaultSettings } from "../../../src/config/config.ts";
import { decideSafety, newJob } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission, type Submission } from "../../../src/core/jobs/submission.ts";
import { isFinal, JOBS, type Job } from "../../../src/core/model/job.ts";
import type { LiveSettings } from "../../../src/core/settings.ts";
import { decisionContext, NO_UNIT } from "../../../src/engine/context.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { put } from "../../../src/ports/store.ts";
import type { World } from "../../../src/ports/world.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import type { Events } from "../backend.ts";
import { type Input, TOPIC } from "../payload.ts";
import type { Role } from "../task.ts";
import { type CordumBackend, Stops } from "./cordum-backend.ts";
import { withoutKernel } from "./workflows.ts";
import { type CordumSpec, openWorld } from "./world.ts";

/**
 * Cordum as `cordum up` composes it, with the default settings.
 *
 * 1. A job ends when the commit of its final state has resolved. The commits of the store are observed.
 * 2. A separate submitter has no safety kernel, so it only commits and announces jobs. The control plane broadcasts the end
 *    of each job, as BullMQ's event stream does.
 */
export async function openCordumJobs(
  spec: CordumSpec,
  role: Role,
  events: Events,
  live: LiveSettings = { current: defaultSettings() },
): Promise<CordumBackend> {
  const opened = await openWorld(spec);
  const world = role === "submitter" ? withoutKernel(opened.world) : opened.world;
  const engine = openEngine(world, live);
  const stops = new Stops();
  if (role === "all" || role === "control") watchEnds(world, role === "all" ? events : broadcastEnds(world));
  if (role === "submitter") stops.push(await subscribeEnds(world, events));
  return {
    engine,
    submit: (input) => submit(engine, input),
    async fill(count, next) {
      await fill(engine, count, next);
      if (spec.kind === "cluster") await untilRedisIdle(spec.redisUrl);
    },
    async start() {
      if (role === "all" || role === "control") {
        const control = await startControl(engine);
        stops.push(() => control.stop());
      }
      if (role === "all" || role === "worker") stops.push(await work(world, spec.concurrency, events));
    },
    stop: () => stops.run(),
    async close() {
      await stops.run();
      await opened.close();
    },
  };
}

async function submit(engine: Engine, input: Input): Promise<void> {
  const admitted = await admitJob(engine, submissionOf(input));
  if (admitted.kind !== "accepted") throw new Error(`a job was not accepted: ${admitted.kind}`);
}

function submissionOf(input: Input): Submission {
  const checked = checkSubmission({ topic: TOPIC, input });
  if (checked.kind === "ok") return checked.submission;
  throw new Error(checked.problems.join("; "));
}

function work(world: World, concurrency: number, events: Events): Promise<() => Promise<void>> {
  return startWorker(world, {
    id: "bench",
    topics: [TOPIC],
    concurrency,
    async handle({ input, attempt }) {
      const { n } = input as Input;
      events.worked(input as Input, attempt);
      return { ok: true, n };
    },
  });
}

/** Calls back after every commit that ended or delayed a job. */
function watchEnds({ store }: World, events: Pick<Events, "ended" | "retrying">): void {
  const commit = store.commit.bind(store);
  // No async function: its overhead would be measured, too.
  store.commit = (change) =>
    commit(change).then((committed) => {
      if (committed.kind === "committed") for (const { table, value } of change.puts) report(table, value);
      return committed;
    });
  const report = (table: string, value: unknown): void => {
    if (table !== JOBS.name || value === null) return;
    const job = value as Job;
    if (isFinal(job.state)) events.ended(numberOf(job));
    else if (job.state === "RETRYING") events.retrying?.(numberOf(job), job.dueMs);
  };
}

function numberOf(job: Job): number {
  return job.input.kind === "inline" ? (job.input.value as Input).n : Number.NaN;
}

function broadcastEnds(world: World): Pick<Events, "ended"> {
  const result = { kind: "job_result", status: "succeeded", workerId: "bench" } as const;
  return {
    ended(n) {
      const packet = { traceId: "", senderId: world.name, createdAtMs: world.clock.now() };
      world.bus.broadcast(ENDED, { ...packet, body: { ...result, jobId: String(n) } });
    },
  };
}

function subscribeEnds(world: World, events: Events): Promise<() => Promise<void>> {
  return world.bus.subscribe(ENDED, ({ body }) => {
    if (body.kind === "job_result") events.ended(Number(body.jobId));
  });
}

/** Writes jobs into the backlog, many per commit, as admission would without a worker for the topic. */
async function fill(engine: Engine, count: number, next: () => Input): Promise<void> {
  for (let done = 0; done < count; ) {
    const commits: Promise<unknown>[] = [];
    for (let i = 0; i < FILL_COMMITS && done < count; i++) {
      const jobs = Array.from({ length: Math.min(FILL_PUTS, count - done) }, () => waitingJob(engine, next()));
      done += jobs.length;
      const puts = jobs.map((job) => put(JOBS, job.id, null, job));
      const org = jobs[0]?.org ?? "";
      commits.push(
        engine.world.store.commit({ org, atMs: engine.world.clock.now(), puts, guards: [], sends: [], watch: [] }),
      );
    }
    await Promise.all(commits);
  }
}

/** Waits for the AOF rewrite that a large backlog triggers. */
export async function untilRedisIdle(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl);
  while (/aof_rewrite_(in_progress|scheduled):1/.test(await redis.info("persistence"))) await delay(IDLE_POLL_MS);
  redis.disconnect();
}

function waitingJob(engine: Engine, input: Input): Job {
  const context = decisionContext(engine, NO_UNIT);
  const jobId = engine.world.random.id();
  const job = newJob(submissionOf(input), { jobId, traceId: jobId }, { kind: "inline", value: input }, context);
  const local = engine.world.safety.local;
  if (!local) throw new Error("filling the backlog needs a local safety kernel");
  return decideSafety(job, local(policyRequestOf(job, context.nowMs)), context);
}

const ENDED = "bench.ended";
const IDLE_POLL_MS = 100;
const FILL_PUTS = 50;
const FILL_COMMITS = 40;
