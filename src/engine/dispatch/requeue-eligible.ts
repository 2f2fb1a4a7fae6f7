import { resume } from "../../core/jobs/attempt.ts";
import { canDo, worksFor } from "../../core/jobs/select-target.ts";
import { JOBS } from "../../core/model/job.ts";
import { type Flow, given } from "../engine.ts";
import type { Known, Sign } from "../workers/worker-registry.ts";
import { place } from "./place-job.ts";
import { aimOf } from "./select-target.ts";

/**
 * Jobs for which no worker was fit, when that has changed.
 *
 * 1. Only those that have somewhere to go now leave their wait: whoever keeps changing what it says of itself moves
 *    nobody else's jobs.
 * 2. A bounded number of them at a time. Who is missed here comes back at its own time.
 */
export async function placeFitting(flow: Flow, sign: Sign): Promise<void> {
  const nowMs = flow.world.clock.now();
  for (const topic of flow.roster.unfitSubjects()) {
    const worker = flow.roster.serving(topic, nowMs).find((known) => isOf(known, sign));
    if (worker) await placeAll(flow, topic, worker);
  }
}

/** A pool takes work again. */
export async function placeAllFitting(flow: Flow): Promise<void> {
  for (const topic of flow.roster.unfitSubjects()) await placeAll(flow, topic, null);
}

/** `by`: the only worker of whom there is news; the others were not fit before. */
async function placeAll(flow: Flow, topic: string, by: Known | null): Promise<void> {
  const ids = flow.roster.recallUnfit(topic, (work) => {
    if (by && !(worksFor(by, work.org) && canDo(by.capabilities, work.requires))) return false;
    return aimOf(flow, { ...work, topic }).kind !== "wait";
  });
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    await Promise.all(ids.slice(at, at + BATCH_MAX).map((id) => placeAgain(flow, id)));
  }
}

async function placeAgain(flow: Flow, id: string): Promise<void> {
  if (flow.desk.isClosed) return;
  try {
    const found = await flow.world.store.load(JOBS, id);
    if (found?.value.state !== "RETRYING" || found.value.wait?.retryClass !== "no_worker") return;
    await place(flow, found, resume(found.value, given(flow)));
  } catch (error) {
    flow.world.log.write("warn", "wake_left_to_sweeper", { id, error: String(error) });
  }
}

const isOf = (known: Known, { id, transport, org }: Sign): boolean =>
  known.id === id && known.transport === transport && (transport === "bus" || known.org === (org ?? null));

const BATCH_MAX = 64;
