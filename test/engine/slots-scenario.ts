import { defaultSettings } from "../../src/config/config.ts";
import { SLOT_WAITS_GROUP } from "../../src/core/model/job.ts";
import type { Settings } from "../../src/core/settings.ts";
import { RunHarness } from "./run-harness.ts";

/** Runs that need slots for their sub-workflows, where there are few of them. */
export const sub = (workflow: string, facts: object = {}) => ({ type: "subworkflow", workflow, ...facts });
export const delay = (sec: number) => ({ type: "delay", delay_sec: sec });

/** A run of it stays open until somebody decides. */
export const ASK = { id: "ask", steps: { ask: { type: "approval" } } };
export const INNER = { id: "inner", steps: { a: delay(1) } };
export const OUTER = { id: "outer", steps: { sub: sub("inner") } };
/** Its sub-workflow wants a slot when all that were started at once have theirs. */
export const LATER = { id: "later", steps: { w: delay(1), sub: sub("inner", { depends_on: ["w"] }) } };

export async function openWithRunLimit(limit: number, workflows: readonly object[], settings: Partial<Settings> = {}) {
  const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: limit }, ...settings });
  const { engine } = await harness.control("c1");
  for (const workflow of workflows) await harness.apply(engine, workflow);
  return { harness, engine };
}

export const cancelRequest = (runId: string) => ({ org: "default", runId, by: "bob", why: "enough" });
export const slotWaits = (harness: RunHarness): number => harness.sim.net.store.count(SLOT_WAITS_GROUP, "default");
