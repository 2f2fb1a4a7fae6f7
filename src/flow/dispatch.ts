import { giveBack } from "../jobs/life.ts";
import { JOBS, type Job } from "../model/job.ts";
import { put, type Versioned } from "../ports/store.ts";
import { nextDelay } from "../retry/policies.ts";
import { workSubject } from "../wire/subjects.ts";
import { apply } from "./apply.ts";
import { drain } from "./drain.ts";
import { type Flow, given } from "./flow.ts";
import { workPacket } from "./packets.ts";

/**
 * Station 5: the work is sent to a worker. The commit came before; this is the message.
 *
 * 1. It needs no outbox: if the process dies here, or the message is lost, the job's deadline sends the next attempt.
 * 2. Nobody there: the job goes back to its place, and the topic is left alone until a worker is heard of, or for the
 *    delay of `no_worker`. A hundred thousand waiting jobs cost a batch of tries, not all of them.
 * 3. Never throws: nobody waits for it.
 */
export function dispatch(flow: Flow, sent: Versioned<Job>): void {
  flow.desk.track(send(flow, sent));
}

async function send(flow: Flow, sent: Versioned<Job>): Promise<void> {
  const { bus, log, name } = flow.world;
  const job = sent.value;
  flow.desk.rememberSent(sent);
  try {
    const answer = await bus.dispatch(workSubject(job.topic), workPacket(name, job));
    if (answer === "no_responders") await takeBack(flow, sent);
  } catch (error) {
    log.write("warn", "dispatch_left_to_deadline", { job: job.id, error: String(error) });
  }
}

async function takeBack(flow: Flow, sent: Versioned<Job>): Promise<void> {
  const job = sent.value;
  restTopic(flow, job.topic);
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
