import { AUDIT_PENDING, type PendingAudit } from "../../core/model/audit.ts";
import { BREAKERS } from "../../core/model/breaker.ts";
import { FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { compile } from "../../core/policy/compile.ts";
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import type { Breaker } from "../../core/retry/breaker.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import type { Change } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import type { Process } from "../process.ts";
import { referenceVerdict } from "../reference/policy-reference.ts";
import { LIMITED_TOPICS } from "../workload/limits.ts";
import { forMsOf } from "../workload/operators.ts";
import { type Plan, POLICIES, THROTTLE_RULE } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Checks that each dispatch has a permission: the kernel's verdict, an approval, or a fail-open lease. Checks the breaker, too. */
export class SafetyChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  /** The kernel's verdicts of each job: the effect by policy snapshot and time, and the snapshot of the last verdict. */
  readonly #verdicts = new Map<string, { readonly effects: Map<string, readonly string[]>; last: string }>();
  /** Whether the policy has the throttle, by snapshot. */
  readonly #throttles = new Map(POLICIES.map((policy) => [compile(policy).hash, policy.rules.includes(THROTTLE_RULE)]));
  /** Processes that received a verdict that is not stored yet, by job. */
  readonly #received = new Map<string, Process>();
  readonly #approvals = new Set<string>();
  readonly #permitted = new Set<string>();
  /** Jobs bypassed by the current commit. */
  #bypassed: string[] = [];
  #bypassCount = 0;

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    const { kernel } = net;
    const { decide } = kernel;
    kernel.decide = (request) => this.#record(request, decide(request));
    kernel.onAnswer = ({ jobId }, checked, to) => {
      if (checked.kind === "decided") this.#received.set(jobId, to);
    };
    net.store.observeTable(JOBS, ({ change, before, after }) => {
      if (after) this.#checkJob(change, before, after);
    });
    net.store.observeTable(FAIL_OPENS, ({ before, after }) => {
      if (after) this.#checkLease(before, after);
    });
    net.store.observeTable(BREAKERS, ({ after }) => {
      if (after) this.#checkBreaker(after);
    });
  }

  /** Whether the attempt was dispatched with a permission. */
  isPermitted(jobId: string, attempt: number): boolean {
    return this.#permitted.has(`${jobId}@${attempt}`);
  }

  /** Called after the observers of a commit, which do not know the process. */
  committed(by: Process): void {
    for (const id of this.#bypassed) {
      if (this.#received.get(id) === by)
        this.#violations.add("verdict", id, `${by.name} received a verdict and bypassed it`);
    }
    this.#bypassed = [];
  }

  checkEnd(): void {
    const total = this.#net.store.total(FAIL_OPEN_TOTAL);
    if (total !== this.#bypassCount)
      this.#violations.add("bypass", "total", `the total is ${total}, ${this.#bypassCount} were written`);
  }

  #record({ jobId }: PolicyRequest, decision: Decision): Decision {
    const known = this.#verdicts.get(jobId);
    // The engine applies the limits; a separate checker verifies how.
    const effects = [decision.effect, ...(decision.limits ?? []).map(({ exceeded }) => exceeded.effect)];
    if (known === undefined) {
      this.#verdicts.set(jobId, { effects: new Map([[keyOf(decision), effects]]), last: decision.snapshot });
    } else {
      known.effects.set(keyOf(decision), effects);
      known.last = decision.snapshot;
    }
    return decision;
  }

  #checkJob(change: Change, before: Job | null, job: Job): void {
    if (job.bypass && job.bypass.atMs !== before?.bypass?.atMs) {
      this.#checkBypass(change, job);
      if (before?.safety) this.#violations.add("verdict", job.id, `${before.safety.effect} was bypassed`);
    }
    if (before?.state === "PENDING" && job.safety !== null && job.safety.snapshot !== "") {
      this.#received.delete(job.id);
      if (!this.#verdicts.get(job.id)?.effects.get(keyOf(job.safety))?.includes(job.safety.effect)) {
        this.#violations.add("verdict", job.id, `${job.safety.effect} is not the kernel's verdict`);
      }
      this.#checkPolicy(job, job.safety);
    }
    // A redriven job is checked again: verdicts of its earlier attempts are void.
    if (before && isFinal(before.state) && !isFinal(job.state)) this.#received.delete(job.id);
    if (before?.state === "APPROVAL_REQUIRED" && job.state !== before.state) this.#checkApproval(before, job);
    // A job that waits for a sub-run is not dispatched.
    const isDispatched = job.step === undefined || job.step.kind === "worker";
    if (isDispatched && job.attempt > (before?.attempt ?? 0)) this.#checkDispatch(job);
  }

  #checkPolicy({ id, topic }: Job, decision: Decision): void {
    const { snapshot, effect, ruleId, atMs = 0, shadow = [] } = decision;
    const hasThrottle = this.#throttles.get(snapshot);
    // Tests of other parts replace the kernel. What limits decide depends on their counts.
    if (hasThrottle === undefined || LIMITED_TOPICS.includes(topic)) return;
    const stored = JSON.stringify({ effect, ruleId, shadow: shadow.map((verdict) => verdict.ruleId) });
    const expected = JSON.stringify(referenceVerdict(hasThrottle, topic, atMs));
    if (stored !== expected) {
      const about = `${stored} for ${new Date(atMs).toISOString()}`;
      this.#violations.add("policy", id, `${about}, the policy says ${expected}`);
    }
  }

  #checkDispatch(job: Job): void {
    const why = this.#refusalOf(job);
    if (why === null) this.#permitted.add(`${job.id}@${job.attempt}`);
    else this.#violations.add("permit", job.id, `attempt ${job.attempt} was dispatched: ${why}`);
  }

  #refusalOf(job: Job): string | null {
    const { safety, bypass, approval } = job;
    if (safety === null) return "it has no verdict";
    if (bypass === undefined || safety.snapshot !== "") {
      const isAllowed = safety.effect === "allow" || safety.effect === "allow_with_constraints";
      if (isAllowed) return null;
      return safety.effect === "require_approval" && approval?.decidedBy ? null : `the verdict was ${safety.effect}`;
    }
    const lease = this.#net.store.load(FAIL_OPENS, bypass.leaseId)?.value;
    if (!lease) return `there is no lease ${bypass.leaseId}`;
    if (lease.ended) return `its lease was ended by ${lease.ended.by}`;
    const lateMs = (job.dispatchedMs ?? 0) - (lease.openedMs + forMsOf(lease));
    return lateMs < 0 ? null : `its lease had expired for ${lateMs} ms`;
  }

  #checkBypass(change: Change, job: Job): void {
    this.#bypassCount += 1;
    this.#bypassed.push(job.id);
    const reason = job.bypass?.reason ?? "";
    const isLabelled =
      job.labels.safety_bypassed === "true" && reason.startsWith(job.labels.safety_bypass_reason ?? "?");
    const isRecorded = job.history.some(({ event, why }) => event === "bypassed" && why === reason);
    const isAudited = change.puts.some(
      ({ table, value }) =>
        table === AUDIT_PENDING.name && (value as PendingAudit).lines.some(({ what }) => what === "bypassed"),
    );
    if (!isLabelled || !isRecorded || !isAudited) {
      const marks = `labelled ${isLabelled}, in its history ${isRecorded}, audited ${isAudited}`;
      this.#violations.add("bypass", job.id, `dispatched without a verdict: ${marks}`);
    }
  }

  #checkApproval(before: Job, job: Job): void {
    if (job.state !== "SCHEDULED" && job.state !== "DISPATCHED" && job.state !== "RETRYING") return;
    const { approval } = before;
    const last = this.#verdicts.get(job.id)?.last;
    // The job was checked again, because the approval was void.
    if (job.approval === undefined && job.safety?.snapshot === last) return;
    const key = `${job.id}/${approval?.requestedMs}`;
    if (!job.approval?.decidedBy)
      this.#violations.add("approval", job.id, "left APPROVAL_REQUIRED without an approval");
    else if (this.#approvals.has(key)) this.#violations.add("approval", job.id, "the approval was used twice");
    else if (approval?.snapshot !== last) this.#violations.add("approval", job.id, "approved under another policy");
    this.#approvals.add(key);
  }

  #checkLease(before: FailOpenGrant | null, lease: FailOpenGrant): void {
    const longMs = lease.endsMs - lease.openedMs - forMsOf(lease);
    if (longMs > 0) this.#violations.add("lease", lease.id, `ends ${longMs} ms too late`);
    if (before && (before.endsMs !== lease.endsMs || before.openedMs !== lease.openedMs)) {
      this.#violations.add("lease", lease.id, "its end was changed");
    }
    if (before?.ended && !lease.ended) this.#violations.add("lease", lease.id, "reopened after its end");
  }

  #checkBreaker(breaker: Breaker): void {
    if (breaker.kind !== "half_open") return;
    const fromMs = serverNow(this.#net) + clockToleranceMs(this.#plan.faults.process);
    const live = breaker.probes.filter(({ untilMs }) => untilMs > fromMs).length;
    const { probes } = this.#plan.settings.safety.breaker;
    if (live > probes) this.#violations.add("probes", "breaker", `${live} probes in flight, the limit is ${probes}`);
  }
}

const keyOf = ({ snapshot, atMs }: Decision): string => `${snapshot}@${atMs}`;
