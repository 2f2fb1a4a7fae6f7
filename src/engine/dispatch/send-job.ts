import { giveBack } from "../../core/jobs/attempt.ts";
import type { Aim } from "../../core/jobs/select-target.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Dispatched } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import { directSubject, workSubject } from "../../protocol/subjects.ts";
import { apply } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { inputKeyOf, openWorkPacket, workPacket } from "../packets.ts";
import { drain } from "./drain-backlog.ts";
import { aimOf, needsPointer } from "./select-target.ts";

/**
 * Station 5: the work is sent to a worker. The commit came before; this is the message.
 *
 * 1. It needs no outbox: if the process dies here, or the message is lost, the job's deadline sends the next attempt.
 * 2. To a worker of its own if one is known to listen there; if nobody does any more, to the topic at once.
 * 3. Nobody there: the job goes back to its place, and the topic is left alone until a worker is heard of, or for the
 *    delay of `no_worker`. Then one job is tried: a hundred thousand that wait cost one try, not all of them.
 * 4. Never throws: nobody waits for it.
 */
export function dispatch(flow: Flow, sent: Versioned<Job>): void {
  flow.desk.track(send(flow, sent));
}

async function send(flow: Flow, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  flow.desk.rememberSent(sent);
  try {
    const aim = aimOf(flow, job);
    // A pool is being drained, the last fit worker has gone, or a switch was engaged since it was committed as sent.
    const isBack = aim.kind === "wait" || aim.kind === "lease" || flow.pools.killOf(job.org) !== null;
    if (isBack) return await takeBack(flow, sent);
    const answer = await sendTo(flow, job, aim);
    if (answer === "no_responders") {
      restTopic(flow, job.topic);
      await takeBack(flow, sent);
    }
    // Somebody is there again, who did not say so: the rest need not wait for the next probe.
    else if (flow.desk.markServed(job.topic)) drain(flow, job.topic);
  } catch (error) {
    flow.roster.answered(job.id);
    flow.world.log.write("warn", "dispatch_left_to_deadline", { job: job.id, error: String(error) });
  }
}

async function sendTo(flow: Flow, job: Job, aim: Aim): Promise<Dispatched> {
  const { bus, clock } = flow.world;
  if (aim.kind === "direct") {
    flow.roster.sent(aim.workerId, job.id, clock.now());
    const isPointed = !aim.takesInline && bus.workers.mayBeOthers;
    const work = isPointed ? await pointedPacket(flow, job) : workPacket(flow.world.name, job);
    const answer = await bus.dispatch(directSubject(aim.workerId), work);
    if (answer === "sent") return answer;
    flow.roster.lost(aim.workerId);
  }
  const work = needsPointer(flow, job.topic) ? await pointedPacket(flow, job) : workPacket(flow.world.name, job);
  return bus.dispatch(workSubject(job.topic), work);
}

/** For anybody's worker. What it points at is there before it is sent. */
async function pointedPacket(flow: Flow, job: Job): Promise<Packet> {
  const { blobs, clock, name } = flow.world;
  if (job.input.kind === "inline") {
    const bytes = new TextEncoder().encode(JSON.stringify(job.input.value));
    await blobs.put(inputKeyOf(job), bytes, Math.max(job.deadlineMs, clock.now() + INPUT_KEPT_MS));
  }
  return openWorkPacket(name, job);
}

async function takeBack(flow: Flow, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  flow.desk.recallSent(job.id);
  // Stale: the attempt was answered or has timed out in the meantime.
  await apply(flow, { org: job.org, puts: [put(JOBS, job.id, sent, giveBack(job, given(flow)))] });
}

/** Leaves the topic alone for a while, then tries again: one job of it, whatever the length of its backlog. */
function restTopic(flow: Flow, topic: string): void {
  const { clock, random } = flow.world;
  if (flow.desk.isIdle(topic, clock.now())) return;
  const policy = flow.settings.current.retry.no_worker.policy;
  const delayMs = nextDelay(policy, flow.desk.idleCount(topic) + 1, () => random.next());
  flow.desk.markIdle(topic, clock.now() + delayMs);
  flow.desk.later(clock, delayMs, () => drain(flow, topic));
}

/** As long as the wire protocol says. */
const INPUT_KEPT_MS = 24 * 3_600_000;
