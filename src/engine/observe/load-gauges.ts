import type { Labels } from "../../ports/metrics.ts";
import type { Needs } from "../engine.ts";
import { readAllBudgets, shareOf } from "../limits/index.ts";
import { readLoad } from "./load.ts";

/** Gauges of the load, set when the metrics are read: every process has them, also one without background loops. */
export class LoadGauges {
  #tenants: readonly string[] = [];
  #budgets: readonly Labels[] = [];

  /** The most used first: of several keys of a rule, the highest share stays. */
  async #showBudgets(engine: Needs<"world" | "kernel">): Promise<void> {
    const { metrics } = engine.world;
    const uses = await readAllBudgets(engine).catch(() => []);
    for (const labels of this.#budgets) metrics.set("cordum_budget_used_ratio", 0, labels);
    this.#budgets = uses.toReversed().map((use) => {
      const labels = { tenant: use.org, rule: use.ruleId };
      metrics.set("cordum_budget_used_ratio", shareOf(use), labels);
      return labels;
    });
  }

  /** A store that fails or does not answer in time leaves the gauges of the records as they were. */
  async show(engine: Needs<"world" | "kernel">): Promise<void> {
    const { metrics } = engine.world;
    const { records, storeDown, disk, kernelDown } = await readLoad(engine);
    metrics.set("cordum_store_up", storeDown === null ? 1 : 0);
    metrics.set("cordum_safety_kernel_up", kernelDown === null ? 1 : 0);
    if (disk !== null) {
      metrics.set("cordum_disk_free_bytes", disk.freeBytes, { path: disk.path });
      metrics.set("cordum_disk_size_bytes", disk.totalBytes, { path: disk.path });
    }
    if (records === null) return;
    metrics.set("cordum_approvals_waiting", records.approvals);
    metrics.set("cordum_runs_open", records.runs);
    for (const tenant of this.#tenants) metrics.set("cordum_tenant_open_jobs", 0, { tenant });
    // The most last: tenants beyond the limit of labels share one series, which keeps the last value.
    for (const [tenant, count] of records.openJobs.toReversed()) {
      metrics.set("cordum_tenant_open_jobs", count, { tenant });
    }
    this.#tenants = records.openJobs.map(([tenant]) => tenant);
    await this.#showBudgets(engine);
  }
}
