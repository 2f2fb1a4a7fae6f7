/** What the simulated and the live cells of `cordum lab admission` have in common: the workflows, the limit, the onlooker. */

import { RUNS_GROUP } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { admissionLockOf } from "../../engine/intake/index.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import type { Change } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import { BESIDE, ORG, WORKFLOWS } from "./clients.ts";

/** How many runs of the busy org may be open. */
export const LIMIT = 2;

/** Each org's own. */
export async function applyWorkflows(engine: Engine, holdMs: number): Promise<void> {
  const hold = { id: WORKFLOWS.hold, steps: { hold: { type: "delay", delay_sec: holdMs / 1_000 } } };
  const pass = { id: WORKFLOWS.pass, steps: { pass: { type: "transform", input: "done" } } };
  for (const [org, document] of [
    [ORG, hold],
    [BESIDE, pass],
  ] as const) {
    const applied = await applyWorkflow(engine, { org, by: "lab", document });
    if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  }
}

/** Tells when somebody asks for the org's lock or, without one, for its slot. */
export function noted(world: World, isPolled: boolean, note: () => void): World {
  const locks = withLocks((inner) => ({
    acquire: (request) => {
      if (isPolled && request.key === KEY) note();
      return inner.acquire(request);
    },
  }));
  const store = withStore((inner) => ({
    commit: (change) => {
      if (!isPolled && asksForSlot(change)) note();
      return inner.commit(change);
    },
  }));
  return locks(store(world));
}

function asksForSlot({ guards }: Change): boolean {
  return guards.some(
    (guard) => guard.kind === "counter" && guard.counter.group === RUNS_GROUP && guard.counter.name === ORG,
  );
}

const KEY = admissionLockOf(ORG);
