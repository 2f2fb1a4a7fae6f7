import { applyResult, requeueJob, waitForRule } from "../../core/jobs/attempt.ts";
import { exhaustBudget } from "../../core/jobs/budget.ts";
import type { DispatchTarget } from "../../core/jobs/select-target.ts";
import {
  BACKLOG_GROUP,
  backlogGroupOf,
  IN_FLIGHT_GROUP,
  JOBS,
  type Job,
  limitOfRule,
  queueOf,
} from "../../core/model/job.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Dispatched } from "../../ports/bus.ts";
import { type Committed, put, type Versioned } from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import { directSubject, workSubject } from "../../protocol/subjects.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { budgetRefusal, countExhausted, isBudgetGuard } from "../limits/index.ts";
import { openWorkPacket, workPacket } from "../packets.ts";
import { ownedByJob, readInput, storeBytes, tooLargeText } from "../payloads.ts";
import { allowedPerOrg, capacityGuards, limitOfGuard } from "./capacity-guards.ts";
import { windowOf } from "./dispatch-window.ts";
import { selectNext } from "./select-next.ts";
import { dispatchBlock, dispatched, isTopicBlocked, targetOf } from "./select-target.ts";
import { settleJob } from "./settle-job.ts";

/**
 * The backlog of a topic and the way out of it.
 *
 * 1. `drainBacklog` dispatches jobs while the topic's window has capacity, in fair-share order (`select-next.ts`). It runs
 *    after every commit that freed capacity; the sweeper repeats it for processes that died.
 * 2. Capacity is a guard of each commit. The counts read before the commit only bound the batch.
 * 3. `sendJob` publishes the work after its commit. It needs no outbox: if the message is lost, the attempt's deadline
 *    dispatches the next attempt.
 * 4. Without a responder the job returns to the backlog, and the topic is idle until a worker is seen or the `no_worker`
 *    delay ends. Then one job is tried, whatever the length of the backlog.
 */
export function drainBacklog(engine: DispatchContext, topic: string): void {
  if (engine.tasks.isClosed) return;
  engine.tasks.runExclusive(topic, async () => {
    try {
      await drainRounds(engine, topic);
    } catch (error) {
      engine.world.log.write("warn", "backlog_drain_failed", { topic, error: String(error) });
    }
  });
}

async function drainRounds(engine: DispatchContext, topic: string): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    if (
      engine.tasks.isClosed ||
      engine.jobCache.isIdle(topic, engine.world.clock.now()) ||
      isTopicBlocked(engine, topic)
    )
      return;
    const { store } = engine.world;
    const [inFlight, waiting] = await Promise.all([
      store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
      store.counts(backlogGroupOf(topic), GROUP_MAX),
    ]);
    const room = windowOf(engine, topic) - (inFlight.get(topic) ?? 0);
    if (waiting.size === 0) engine.jobCache.markNotFull(topic);
    else if (room <= 0) engine.jobCache.markFull(topic);
    if (room <= 0 || waiting.size === 0) return;
    const allowed = await allowedPerOrg(engine, waiting);
    const batchMax = engine.jobCache.idleCount(topic) > 0 ? 1 : BATCH_MAX;
    if ((await sendShares(engine, topic, allowed, Math.min(room, batchMax))) === 0) return;
    if (batchMax === 1) return;
  }
}

async function sendShares(
  engine: DispatchContext,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<number> {
  const { fit, asideCount, failure } = await selectNext(engine, topic, waiting, room, (job) =>
    dispatchBlock(engine, job),
  );
  const sent = await Promise.all(fit.map((job) => sendOne(engine, job)));
  if (failure !== null) throw failure;
  // Jobs set aside have left the backlog, so there may be more behind them.
  return sent.filter(Boolean).length + asideCount;
}

async function sendOne(engine: DispatchContext, taken: Versioned<Job>): Promise<boolean> {
  const job = dispatched(engine, taken.value);
  const committed = await engine.commit({
    org: job.org,
    puts: [put(JOBS, taken.id, taken, job)],
    guards: capacityGuards(job, engine.settings.current, windowOf(engine, job.topic)),
  });
  if (committed.kind === "committed") {
    sendJob(engine, { id: taken.id, version: taken.version + 1, value: job });
    return true;
  }
  return committed.kind === "refused" && (await putBack(engine, taken, committed));
}

/** Returns a claimed job that a capacity guard refused. True if the job has ended: there may be more behind it. */
export async function putBack(
  engine: DispatchContext,
  taken: Versioned<Job>,
  { guard, value }: Extract<Committed, { kind: "refused" }>,
): Promise<boolean> {
  const job = taken.value;
  const context = decisionContext(engine, job);
  const refusal = isBudgetGuard(guard) ? budgetRefusal(job, guard, value, context.nowMs) : null;
  if (refusal !== null) {
    countExhausted(engine, refusal);
    return settleJob(engine, taken, exhaustBudget(job, refusal.text, context));
  }
  if (limitOfGuard(guard, job) === "rule") {
    const waiting = waitForRule(job, limitOfRule(job) ?? 0, context);
    await engine.commit({ org: job.org, puts: [put(JOBS, taken.id, taken, waiting)] });
    return false;
  }
  if (limitOfGuard(guard, job) === "lease") engine.safety.grants.recordEnded(job);
  await engine.world.store.untake(JOBS, queueOf(job.topic, job.org), [taken.id]);
  return false;
}

export async function drainAllBacklogs(engine: DispatchContext): Promise<void> {
  for (const topic of (await backlogTopics(engine)).keys()) drainBacklog(engine, topic);
}

/** Backlog length by topic. */
export async function backlogTopics(engine: Needs<"world">): Promise<ReadonlyMap<string, number>> {
  return engine.world.store.counts(BACKLOG_GROUP, GROUP_MAX);
}

export function sendJob(engine: DispatchContext, sent: Versioned<Job>): void {
  engine.tasks.track(send(engine, sent));
}

async function send(engine: DispatchContext, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  engine.jobCache.rememberSent(sent);
  try {
    const target = targetOf(engine, job);
    // Since the commit a pool began to drain, the last eligible worker left, or a kill switch was engaged.
    const isBlocked = target.kind === "wait" || target.kind === "lease" || engine.pools.isBlocked(job.org);
    if (isBlocked) return await returnToBacklog(engine, sent);
    if (isStored(job)) {
      const input = await readInput(engine, job);
      if ("problem" in input) return await failInput(engine, sent, input.problem);
    }
    const answer = await sendTo(engine, job, job.sentTo === undefined ? target : recordedTarget(engine, job.sentTo));
    if (answer === "no_responders" && job.sentTo !== undefined) {
      await returnToBacklog(engine, sent);
      drainBacklog(engine, job.topic);
    } else if (answer === "no_responders") {
      pauseTopic(engine, job.topic);
      await returnToBacklog(engine, sent);
    }
    // A worker without heartbeats serves the topic again.
    else if (engine.jobCache.markServed(job.topic)) drainBacklog(engine, job.topic);
  } catch (error) {
    engine.registry.recordAnswer(job.id);
    engine.world.log.write("warn", "dispatch_failed", { job: job.id, error: String(error) });
  }
}

/** The worker that the record names: the results of others do not count, so the job goes to no other. */
function recordedTarget(engine: Needs<"registry">, workerId: string): DispatchTarget {
  const takesInline = engine.registry.capabilitiesOf({ id: workerId, transport: "bus" }).has("inline");
  return { kind: "direct", workerId, takesInline };
}

/** Inline inputs are part of the record; an approval binds them by hash. */
const isStored = ({ input, approval }: Job): boolean => input.kind === "pointer" || approval !== undefined;

/** The input is not the one that was decided on: the job ends without reaching a worker. */
async function failInput(engine: DispatchContext, sent: Versioned<Job>, message: string): Promise<void> {
  engine.jobCache.recallSent(sent.id);
  const result = { jobId: sent.id, workerId: engine.world.name, status: "failed_fatal" } as const;
  const error = { name: "InputLost", message };
  const next = applyResult(sent.value, { ...result, error }, null, decisionContext(engine, sent.value));
  // Stale: the attempt was answered or timed out in the meantime.
  if (next) await settleJob(engine, sent, next);
}

async function sendTo(engine: Needs<"world" | "registry">, job: Job, target: DispatchTarget): Promise<Dispatched> {
  const { bus, clock } = engine.world;
  if (target.kind === "direct") {
    engine.registry.recordSent(target.workerId, job.id, clock.now());
    const usesPointer = !target.takesInline && bus.hasThirdPartyWorkers;
    const work = usesPointer ? await pointedPacket(engine, job) : workPacket(engine.world.name, job);
    const answer = await bus.dispatch(directSubject(target.workerId), work);
    if (answer === "sent") return answer;
    engine.registry.remove(target.workerId);
    if (job.sentTo !== undefined) return answer;
  }
  // A silent third-party worker may be in the queue group, also beside workers that ask for extensions.
  const work = bus.hasThirdPartyWorkers ? await pointedPacket(engine, job) : workPacket(engine.world.name, job);
  return bus.dispatch(workSubject(job.topic), work);
}

/** Stores an inline input before the packet is sent. */
async function pointedPacket(engine: Needs<"world">, job: Job): Promise<Packet> {
  const { clock, name } = engine.world;
  if (job.input.kind === "pointer") return openWorkPacket(name, job, job.input.ptr);
  const bytes = new TextEncoder().encode(JSON.stringify(job.input.value));
  const untilMs = Math.max(job.deadlineMs, clock.now() + INPUT_KEPT_MS);
  const kept = await storeBytes(engine, bytes, () => ({ owner: ownedByJob(job), untilMs }));
  if (kept.kind === "too_large") throw new Error(tooLargeText("input", kept));
  return openWorkPacket(name, job, kept.ptr);
}

async function returnToBacklog(
  engine: Needs<"world" | "settings" | "commit" | "jobCache">,
  sent: Versioned<Job>,
): Promise<void> {
  const job = sent.value;
  engine.jobCache.recallSent(job.id);
  // Stale: the attempt was answered or timed out in the meantime.
  await engine.commit({ org: job.org, puts: [put(JOBS, job.id, sent, requeueJob(job, decisionContext(engine, job)))] });
}

function pauseTopic(engine: DispatchContext, topic: string): void {
  const { clock, random } = engine.world;
  if (engine.jobCache.isIdle(topic, clock.now())) return;
  // The pause is that of a topic, not of one unit: it is the same in both arms of a rollout.
  const policy = engine.settings.current.retry.no_worker.policy;
  const delayMs = nextDelay(policy, engine.jobCache.idleCount(topic) + 1, () => random.next());
  engine.jobCache.markIdle(topic, clock.now() + delayMs);
  engine.tasks.after(clock, delayMs, () => drainBacklog(engine, topic));
}

const ROUNDS_MAX = 1_000;
const BATCH_MAX = 256;
const GROUP_MAX = 10_000;
/** The retention that the wire protocol promises for inputs. */
const INPUT_KEPT_MS = 24 * 3_600_000;
