import { defaultSettings } from "../../src/config/config.ts";
import { SLOT_WAITS_GROUP } from "../../src/core/model/job.ts";
import type { Settings } from "../../src/core/settings.ts";
import { RunHarness } from "./run-harness.ts";

/** Workflows whose sub-workflows compete for a small number of run slots. */
export const sub = (workflow: string, facts: object = {}) => ({ type: "subworkflow", workflow, ...facts });
export const delay = (sec: number) => ({ type: "delay", delay_sec: sec });

/** A run of it stays open until its approval is decided. */
export const APPROVAL = { id: "ask", steps: { ask: { type: "approval" } } };
export const INNER = { id: "inner", steps: { a: delay(1) } };
export const OUTER = { id: "outer", steps: { sub: sub("inner") } };
/** Its sub-workflow needs a slot after every run started at the same time has taken one. */
export const LATER = { id: "later", steps: { w: delay(1), sub: sub("inner", { depends_on: ["w"] }) } };

export async function openWithRunLimit(limit: number, workflows: readonly object[], settings: Partial<Settings> = {}) {
  const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: limit }, ...settings });
  const { engine } = await harness.control("c1");
  for (const workflow of workflows) await harness.apply(engine, workflow);
  return { harness, engine };
}

export const cancelRequest = (runId: string) => ({ org: "default", runId, by: "bob", why: "enough" });
export const slotWaits = (harness: RunHarness): number => harness.sim.net.store.count(SLOT_WAITS_GROUP, "default");
