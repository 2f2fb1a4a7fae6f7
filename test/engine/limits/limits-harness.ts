import type { Job } from "../../../src/core/model/job.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { windowsGroup } from "../../../src/core/policy/limits/window.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { idOf } from "../harness.ts";
import { RunHarness } from "../run-harness.ts";

/** Control planes that evaluate a real policy, and a worker that records when it runs a job of the topic `pay`. */
export class LimitsHarness extends RunHarness {
  readonly ran: { readonly jobId: string; readonly atMs: number }[] = [];

  /** The rules are YAML, one per line; everything else is allowed. */
  publish(rules: string): this {
    const text = `rules:\n${rules}\n  - {id: rest, match: {}, decision: allow, reason: fine}\n`;
    const read = readPolicy({ name: "policy", text });
    if (read.kind === "bad") throw new Error(read.problems.join("; "));
    const snapshot = compile(read.document);
    this.kernel.decide = (request) => evaluate(snapshot, request);
    return this;
  }

  async open(name = "c1", safety: "local" | "remote" = "local"): Promise<Engine> {
    return (await this.control(name, safety)).engine;
  }

  /** Three control processes; the result takes them in turn. */
  async openThree(safety: "local" | "remote"): Promise<(at: number) => Engine> {
    const engines = [
      await this.open("c1", safety),
      await this.open("c2", safety),
      await this.open("c3", safety),
    ] as const;
    return (at) => engines[(at % 3) as 0 | 1 | 2];
  }

  serve(): Promise<unknown> {
    return this.worker("w1", ["pay"], async ({ jobId }) => {
      this.ran.push({ jobId, atMs: this.sim.net.time.nowMs });
      return null;
    });
  }

  async submit(engine: Engine, raw: Record<string, unknown> = {}): Promise<string> {
    return idOf(await this.admit(engine, { topic: "pay", input: {}, ...raw }));
  }

  /** The number of jobs in each state. */
  async count(ids: readonly string[]): Promise<Readonly<Partial<Record<Job["state"], number>>>> {
    const counts: Partial<Record<Job["state"], number>> = {};
    for (const id of ids) {
      const { state } = await this.job(id);
      counts[state] = (counts[state] ?? 0) + 1;
    }
    return counts;
  }

  async keys(engine: Engine, org = "default"): Promise<number> {
    const counts = await this.run(engine.world.store.counts(windowsGroup(org), 1));
    return counts.get("keys") ?? 0;
  }
}
