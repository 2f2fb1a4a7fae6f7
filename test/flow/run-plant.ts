import type { Flow } from "../../src/flow/flow.ts";
import { plainWish, type RunWish, type StartOutcome, startRun } from "../../src/flow/start-run.ts";
import { applyWorkflow } from "../../src/flow/workflows.ts";
import { RUNS, type Run } from "../../src/model/run.ts";
import { Plant } from "./plant.ts";

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
