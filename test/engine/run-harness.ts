import { RUNS, type Run } from "../../src/core/model/run.ts";
import type { Flow } from "../../src/engine/engine.ts";
import { plainWish, type RunWish, type StartOutcome, startRun } from "../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../src/engine/runs/workflows.ts";
import { Plant } from "./harness.ts";

/** A small system on virtual time, for tests of workflow runs. */
export class RunPlant extends Plant {
  async apply(flow: Flow, document: object, org = "default"): Promise<void> {
    const applied = await this.run(applyWorkflow(flow, { org, by: "test", document }));
    if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
  }

  start(flow: Flow, workflowId: string, wish: Partial<RunWish> = {}): Promise<StartOutcome> {
    return this.run(startRun(flow, { ...WISH, workflowId, ...wish }, "test"));
  }

  async started(flow: Flow, workflowId: string, wish: Partial<RunWish> = {}): Promise<string> {
    const outcome = await this.start(flow, workflowId, wish);
    if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
    return outcome.runId;
  }

  runOf(id: string): Run {
    const found = this.bench.net.store.load(RUNS, id);
    if (!found) throw new Error(`no run ${id}`);
    return found.value;
  }

  /** What became of each step. */
  states(id: string): Record<string, string> {
    return Object.fromEntries(Object.entries(this.runOf(id).steps).map(([step, { state }]) => [step, state]));
  }
}

export const WISH = plainWish("default", "", "alice");
