import { AUDIT_PENDING, type PendingAudit } from "../../core/model/audit.ts";
import { BREAKERS } from "../../core/model/breaker.ts";
import { FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import type { Breaker } from "../../core/retry/breaker.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import type { Change, Put } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Process } from "../process.ts";
import { forMsOf } from "../workload/operators.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/**
 * Looks at what lets a job out: the kernel's verdicts as the kernel gave them, approvals, fail-open leases; and at the
 * breaker before the kernel.
 */
export class SafetyChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  /** What the kernel said about each job: the effect by policy, and the policy of the last answer. */
  readonly #given = new Map<string, { readonly effects: Map<string, string>; last: string }>();
  /** Verdicts that a process was told and nobody has stored yet. */
  readonly #heard = new Map<string, Process>();
  readonly #approvals = new Set<string>();
  readonly #permitted = new Set<string>();
  /** Bypassed by the commit that is being looked at. */
  #fresh: string[] = [];
  #bypasses = 0;

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    const { kernel } = net;
    const { decide } = kernel;
    kernel.decide = (request) => this.#note(request, decide(request));
    kernel.onAnswer = ({ jobId }, checked, to) => {
      if (checked.kind === "decided") this.#heard.set(jobId, to);
    };
    net.store.observe((change, before) => {
      for (const [index, put] of change.puts.entries()) this.#see(change, put, before[index]?.value ?? null);
    });
  }

  /** Whether this attempt went out with a permission. */
  isPermitted(jobId: string, attempt: number): boolean {
    return this.#permitted.has(`${jobId}@${attempt}`);
  }

  /** Right after the tap: only here it is known whose commit it was. */
  committed(by: Process): void {
    for (const id of this.#fresh) {
      if (this.#heard.get(id) === by) this.#violations.add("verdict", id, `${by.name} had a verdict, and bypassed it`);
    }
    this.#fresh = [];
  }

  checkEnd(): void {
    const total = this.#net.store.total(FAIL_OPEN_TOTAL);
    if (total !== this.#bypasses)
      this.#violations.add("bypass", "total", `${total} counted, ${this.#bypasses} written`);
  }

  #note({ jobId }: PolicyRequest, decision: Decision): Decision {
    const known = this.#given.get(jobId);
    if (known === undefined) {
      this.#given.set(jobId, { effects: new Map([[decision.snapshot, decision.effect]]), last: decision.snapshot });
    } else {
      known.effects.set(decision.snapshot, decision.effect);
      known.last = decision.snapshot;
    }
    return decision;
  }

  #see(change: Change, put: Put, before: unknown): void {
    if (put.value === null) return;
    switch (put.table) {
      case JOBS.name:
        this.#seeJob(change, before as Job | null, put.value as Job);
        return;
      case FAIL_OPENS.name:
        this.#seeLease(before as FailOpenGrant | null, put.value as FailOpenGrant);
        return;
      case BREAKERS.name:
        this.#seeBreaker(put.value as Breaker);
    }
  }

  #seeJob(change: Change, before: Job | null, job: Job): void {
    if (job.bypass && job.bypass.atMs !== before?.bypass?.atMs) {
      this.#seeBypass(change, job);
      if (before?.safety) this.#violations.add("verdict", job.id, `${before.safety.effect} was bypassed`);
    }
    if (before?.state === "PENDING" && job.safety !== null && job.safety.snapshot !== "") {
      this.#heard.delete(job.id);
      if (this.#given.get(job.id)?.effects.get(job.safety.snapshot) !== job.safety.effect) {
        this.#violations.add("verdict", job.id, `${job.safety.effect}, which the kernel never said of it`);
      }
    }
    if (before?.state === "APPROVAL_REQUIRED" && job.state !== before.state) this.#seeApproval(before, job);
    // Who waits for another run is sent nowhere.
    const isSent = job.step === undefined || job.step.kind === "worker";
    if (isSent && job.attempt > (before?.attempt ?? 0)) this.#seeSent(job);
  }

  #seeSent(job: Job): void {
    const why = this.#objectionTo(job);
    if (why === null) this.#permitted.add(`${job.id}@${job.attempt}`);
    else this.#violations.add("permit", job.id, `attempt ${job.attempt} was sent: ${why}`);
  }

  #objectionTo(job: Job): string | null {
    const { safety, bypass, approval } = job;
    if (safety === null) return "nobody allowed it";
    if (bypass === undefined || safety.snapshot !== "") {
      const isAllowed = safety.effect === "allow" || safety.effect === "allow_with_constraints";
      if (isAllowed) return null;
      return safety.effect === "require_approval" && approval?.decidedBy ? null : `the verdict was ${safety.effect}`;
    }
    const lease = this.#net.store.load(FAIL_OPENS, bypass.leaseId)?.value;
    if (!lease) return `there is no lease ${bypass.leaseId}`;
    if (lease.ended) return `its lease was ended by ${lease.ended.by}`;
    const lateMs = (job.dispatchedMs ?? 0) - (lease.openedMs + forMsOf(lease));
    return lateMs < 0 ? null : `its lease was over for ${lateMs} ms`;
  }

  #seeBypass(change: Change, job: Job): void {
    this.#bypasses += 1;
    this.#fresh.push(job.id);
    const reason = job.bypass?.reason ?? "";
    const isLabelled =
      job.labels.safety_bypassed === "true" && reason.startsWith(job.labels.safety_bypass_reason ?? "?");
    const isRemembered = job.history.some(({ event, why }) => event === "bypassed" && why === reason);
    const isAudited = change.puts.some(
      ({ table, value }) =>
        table === AUDIT_PENDING.name && (value as PendingAudit).lines.some(({ what }) => what === "bypassed"),
    );
    if (!isLabelled || !isRemembered || !isAudited) {
      const marks = `labelled ${isLabelled}, in its history ${isRemembered}, audited ${isAudited}`;
      this.#violations.add("bypass", job.id, `went out without a verdict: ${marks}`);
    }
  }

  #seeApproval(before: Job, job: Job): void {
    if (job.state !== "SCHEDULED" && job.state !== "DISPATCHED" && job.state !== "RETRYING") return;
    const { approval } = before;
    const last = this.#given.get(job.id)?.last;
    // Decided anew, because the approval was void.
    if (job.approval === undefined && job.safety?.snapshot === last) return;
    const key = `${job.id}/${approval?.requestedMs}`;
    if (!job.approval?.decidedBy) this.#violations.add("approval", job.id, "left its approval without one");
    else if (this.#approvals.has(key)) this.#violations.add("approval", job.id, "one approval was used twice");
    else if (approval?.snapshot !== last) this.#violations.add("approval", job.id, "approved under another policy");
    this.#approvals.add(key);
  }

  #seeLease(before: FailOpenGrant | null, lease: FailOpenGrant): void {
    const longMs = lease.endsMs - lease.openedMs - forMsOf(lease);
    if (longMs > 0) this.#violations.add("lease", lease.id, `ends ${longMs} ms after its end`);
    if (before && (before.endsMs !== lease.endsMs || before.openedMs !== lease.openedMs)) {
      this.#violations.add("lease", lease.id, "its end was moved");
    }
    if (before?.ended && !lease.ended) this.#violations.add("lease", lease.id, "came back after its end");
  }

  #seeBreaker(breaker: Breaker): void {
    if (breaker.kind !== "half_open") return;
    const fromMs = serverNow(this.#net) + this.#plan.faults.process.skewMsMax;
    const live = breaker.probes.filter(({ untilMs }) => untilMs > fromMs).length;
    const { probes } = this.#plan.settings.safety.breaker;
    if (live > probes) this.#violations.add("probes", "breaker", `${live} probes under way, ${probes} may be`);
  }
}
