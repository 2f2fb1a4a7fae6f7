import type { Job } from "../model/job.ts";
import type { Blocked, Surroundings } from "./explain.ts";
import { MORE_WINDOW, SEE_POOLS, SEE_RULES, SEE_WORKERS, span } from "./explain-text.ts";

/** Why a job in the backlog is not sent: what has to go first is named first. */
export function explainBacklog(job: Job, around: Surroundings): Blocked {
  const { nowMs, window, tenant, rule, backlog } = around;
  const wait = `of \`${job.topic}\` wait`;
  const [all, own] = backlog.topic === null ? ["", wait] : [`${backlog.topic} ${wait}, `, "of them"];
  const ahead = `${all}${backlog.tenant} ${own} of tenant \`${job.org}\``;
  const at = { sinceMs: job.updatedMs, untilMs: job.deadlineMs, setBy: null };
  const since = `for ${span(nowMs - job.updatedMs)}`;
  const { workers, killed } = around;
  if (killed !== null) {
    const whose = killed.scope === job.org ? `tenant \`${job.org}\`` : "all tenants";
    const sentence = `the kill switch of ${whose} was engaged by \`${killed.by}\`: ${killed.reason}; ${ahead}`;
    const release = { what: "release it, if you may", command: `cordum kill release --scope '${killed.scope}'` };
    return { ...at, reason: "killed", sentence, unblocks: [release] };
  }
  if (workers.serving === 0 && (around.isIdle || window.isEmpty)) {
    const sentence = `no worker that serves \`${job.topic}\` has been heard of; it has waited ${since}; ${ahead}`;
    return { ...at, reason: "no_worker", sentence, unblocks: [SEE_WORKERS] };
  }
  if (around.unfit !== null) {
    const sentence = `${around.unfit}; it has waited ${since}; ${ahead}`;
    return { ...at, reason: "no_fit_worker", sentence, unblocks: [SEE_WORKERS, SEE_POOLS] };
  }
  if (tenant && tenant.used >= tenant.max) {
    const sentence = `tenant \`${job.org}\` has ${tenant.used} jobs with workers and may have ${tenant.max}; ${ahead}`;
    const what = `raise \`orgs.${job.org}.limits.max_concurrent_jobs\``;
    return { ...at, reason: "tenant_limit", sentence, unblocks: [{ what, command: "cordum config explain" }] };
  }
  if (window.isFull) {
    const many = window.use === null ? "the window is full: jobs" : `${window.use.used} jobs`;
    const sentence = `${many} of \`${job.topic}\` are with workers, as many as its window has; ${ahead}`;
    return { ...at, reason: "window_full", sentence, unblocks: [SEE_WORKERS, MORE_WINDOW] };
  }
  if (rule && rule.used >= rule.max) {
    const sentence = `rule \`${job.safety?.ruleId}\` lets ${rule.max} of its jobs run at once, and ${rule.used} do`;
    return { ...at, reason: "rule_limit", sentence, unblocks: [SEE_RULES] };
  }
  const free = workers.free === 0 && workers.serving > 0 ? "; no worker that was heard of has a place free" : "";
  const out = window.use === null ? "" : `; ${window.use.used} of ${window.use.max} are with workers`;
  const sentence = `it waits for its turn ${since}: ${ahead}${out}${free}`;
  return { ...at, reason: "turn", sentence, unblocks: [SEE_WORKERS] };
}
