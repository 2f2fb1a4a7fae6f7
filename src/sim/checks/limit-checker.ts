import { budgetName } from "../../core/model/budgets/hold.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { type Limit, windowId } from "../../core/policy/limits/limit.ts";
import type { SimNet } from "../adapters/world.ts";
import { METERED_TOKENS, RATE, VELOCITY } from "../workload/limits.ts";
import { ORGS, type Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Checks the limits and budgets of the policy against sums over all jobs. */
export class LimitChecker {
  readonly #violations: Violations;
  /** The uses of each window, with the job. */
  readonly #uses = new Map<string, { readonly jobId: string; readonly atMs: number }[]>();
  readonly #limits = new Map<string, { readonly max: number; readonly withinMs: number }>();
  /** What each job adds to each budget. */
  readonly #spending = new Map<string, Map<string, number>>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#violations = violations;
    for (const limit of [RATE, VELOCITY]) {
      for (const org of ORGS) this.#limits.set(windowId(org, { ...limit, isSum: false } as Limit, ""), limit);
    }
    // A process whose clock is wrong by more than a window counts at that time.
    const isTimed = plan.faults.process.clockStepEveryMs === null;
    net.store.observeTable(JOBS, ({ before, after }) => {
      if (after === null) return;
      if (isTimed) this.#checkWindows(before, after);
      this.#checkBudgets(before, after);
    });
  }

  #checkWindows(before: Job | null, job: Job): void {
    for (const { id, atMs } of job.counted ?? []) {
      if (before?.counted?.some((use) => use.id === id && use.atMs === atMs)) continue;
      const limit = this.#limits.get(id);
      const uses = this.#uses.get(id) ?? [];
      uses.push({ jobId: job.id, atMs });
      this.#uses.set(id, uses);
      if (limit === undefined) this.#violations.add("limit", job.id, `counts for an unknown limit ${id}`);
      else if (isExceeded(uses, limit)) {
        this.#violations.add("limit", job.id, `more than ${limit.max} within ${limit.withinMs} ms`);
      }
    }
    // A job that ends before its slot gives it back.
    if (!isFinal(job.state) || before?.state !== "PENDING") return;
    for (const [id, uses] of this.#uses) {
      this.#uses.set(
        id,
        uses.filter(({ jobId }) => jobId !== job.id),
      );
    }
  }

  #checkBudgets(before: Job | null, job: Job): void {
    const isWithWorker = job.state === "DISPATCHED" || job.state === "RUNNING";
    for (const hold of job.budgets ?? []) {
      const name = `${job.org} ${budgetName(hold)}`;
      const spent = hold.spent.tokens ?? 0;
      const earlier = before?.budgets?.find((one) => budgetName(one) === budgetName(hold))?.spent.tokens ?? 0;
      if (spent !== earlier && job.state !== "SUCCEEDED") {
        this.#violations.add("spend", job.id, `${job.state} spent ${spent - earlier} tokens that no worker reported`);
      }
      const jobs = this.#spending.get(name) ?? new Map<string, number>();
      jobs.set(job.id, spent + (isWithWorker ? (hold.reserved.tokens ?? 0) : 0));
      this.#spending.set(name, jobs);
      const total = [...jobs.values()].reduce((sum, tokens) => sum + tokens, 0);
      // A late result spends what is no longer reserved; the next dispatch has to see it.
      const isDispatch = isWithWorker && job.attempt > (before?.attempt ?? 0);
      if (isDispatch && total > METERED_TOKENS) {
        this.#violations.add("spend", job.id, `dispatched with ${total} of ${METERED_TOKENS} tokens in use`);
      }
    }
  }
}

function isExceeded(
  uses: readonly { readonly atMs: number }[],
  { max, withinMs }: { readonly max: number; readonly withinMs: number },
): boolean {
  return uses.some(
    ({ atMs: fromMs }) => uses.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + withinMs).length > max,
  );
}
