import { requeueJob } from "../../core/jobs/attempt.ts";
import type { DispatchTarget } from "../../core/jobs/select-target.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Dispatched } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import { directSubject, workSubject } from "../../protocol/subjects.ts";
import { commit } from "../commit.ts";
import { decisionContext, type Engine } from "../engine.ts";
import { inputKeyOf, openWorkPacket, workPacket } from "../packets.ts";
import { drainBacklog } from "./drain-backlog.ts";
import { needsPointer, targetOf } from "./select-target.ts";

/**
 * Station 5: the work is sent to a worker. The commit came before; this is the message.
 *
 * 1. It needs no outbox: if the process dies here, or the message is lost, the job's deadline sends the next attempt.
 * 2. To a worker of its own if one is known to listen there; if nobody does any more, to the topic at once.
 * 3. Nobody there: the job goes back to its place, and the topic is left alone until a worker is heard of, or for the
 *    delay of `no_worker`. Then one job is tried: a hundred thousand that wait cost one try, not all of them.
 * 4. Never throws: nobody waits for it.
 */
export function sendJob(engine: Engine, sent: Versioned<Job>): void {
  engine.jobCache.track(send(engine, sent));
}

async function send(engine: Engine, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  engine.jobCache.rememberSent(sent);
  try {
    const aim = targetOf(engine, job);
    // A pool is being drained, the last fit worker has gone, or a switch was engaged since it was committed as sent.
    const isBack = aim.kind === "wait" || aim.kind === "lease" || engine.pools.killOf(job.org) !== null;
    if (isBack) return await takeBack(engine, sent);
    const answer = await sendTo(engine, job, aim);
    if (answer === "no_responders") {
      restTopic(engine, job.topic);
      await takeBack(engine, sent);
    }
    // Somebody is there again, who did not say so: the rest need not wait for the next probe.
    else if (engine.jobCache.markServed(job.topic)) drainBacklog(engine, job.topic);
  } catch (error) {
    engine.registry.recordAnswer(job.id);
    engine.world.log.write("warn", "dispatch_left_to_deadline", { job: job.id, error: String(error) });
  }
}

async function sendTo(engine: Engine, job: Job, aim: DispatchTarget): Promise<Dispatched> {
  const { bus, clock } = engine.world;
  if (aim.kind === "direct") {
    engine.registry.recordSent(aim.workerId, job.id, clock.now());
    const isPointed = !aim.takesInline && bus.workers.mayBeOthers;
    const work = isPointed ? await pointedPacket(engine, job) : workPacket(engine.world.name, job);
    const answer = await bus.dispatch(directSubject(aim.workerId), work);
    if (answer === "sent") return answer;
    engine.registry.remove(aim.workerId);
  }
  const work = needsPointer(engine, job.topic) ? await pointedPacket(engine, job) : workPacket(engine.world.name, job);
  return bus.dispatch(workSubject(job.topic), work);
}

/** For anybody's worker. What it points at is there before it is sent. */
async function pointedPacket(engine: Engine, job: Job): Promise<Packet> {
  const { blobs, clock, name } = engine.world;
  if (job.input.kind === "inline") {
    const bytes = new TextEncoder().encode(JSON.stringify(job.input.value));
    await blobs.put(inputKeyOf(job), bytes, Math.max(job.deadlineMs, clock.now() + INPUT_KEPT_MS));
  }
  return openWorkPacket(name, job);
}

async function takeBack(engine: Engine, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  engine.jobCache.recallSent(job.id);
  // Stale: the attempt was answered or has timed out in the meantime.
  await commit(engine, { org: job.org, puts: [put(JOBS, job.id, sent, requeueJob(job, decisionContext(engine)))] });
}

/** Leaves the topic alone for a while, then tries again: one job of it, whatever the length of its backlog. */
function restTopic(engine: Engine, topic: string): void {
  const { clock, random } = engine.world;
  if (engine.jobCache.isIdle(topic, clock.now())) return;
  const policy = engine.settings.current.retry.no_worker.policy;
  const delayMs = nextDelay(policy, engine.jobCache.idleCount(topic) + 1, () => random.next());
  engine.jobCache.markIdle(topic, clock.now() + delayMs);
  engine.jobCache.later(clock, delayMs, () => drainBacklog(engine, topic));
}

/** As long as the wire protocol says. */
const INPUT_KEPT_MS = 24 * 3_600_000;
