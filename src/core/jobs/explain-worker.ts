/**
 * Explains why a worker gets jobs, or why it gets none. The reasons that stop all jobs come first; then what the jobs wait
 * for that it could get.
 */
export interface WorkerContext {
  /** Without another sign of life it is not listed after this. */
  readonly silentAtMs: number;
  readonly isDraining: boolean;
  /** The kill switch that covers its tenant, or all tenants. */
  readonly killed: { readonly scope: string; readonly by: string; readonly reason: string } | null;
  /** Why no job is checked; null if they are, or if the caller may not see it. */
  readonly breaker: string | null;
  /** Queued jobs by topic that it serves, without topics that have none. */
  readonly waiting: readonly (readonly [topic: string, count: number])[];
}

export interface ExplainedWorker {
  readonly pool: string | null;
  readonly topics: readonly string[];
  /** Topics that the settings of its pool give it. */
  readonly poolTopics: readonly string[];
  readonly activeJobs: number;
  readonly maxParallelJobs: number | null;
  /** For how long it is silent; null while it is there. */
  readonly silentMs: number | null;
  /** When the leases end that it holds. */
  readonly leasesEndMs: readonly number[];
  readonly isLeaving: boolean;
  readonly isUnsupported: boolean;
}

export interface WorkerReason {
  readonly reason: string;
  /** A command. */
  readonly unblocks?: string;
}

export interface WorkerExplanation {
  readonly state: "blocked" | "silent" | "leaving" | "full" | "working" | "idle";
  readonly reasons: readonly WorkerReason[];
}

export function explainWorker(worker: ExplainedWorker, context: WorkerContext): WorkerExplanation {
  const { activeJobs, maxParallelJobs, isLeaving, silentMs } = worker;
  if (silentMs !== null) return { state: "silent", reasons: [silence(worker, silentMs)] };
  const blocks = blocksOf(worker, context);
  const isFull = maxParallelJobs !== null && activeJobs >= maxParallelJobs;
  const silentAt = new Date(context.silentAtMs).toISOString();
  const listed = { reason: `without another heartbeat or poll it is not listed after ${silentAt}` };
  const reasons = [...blocks, ...(isLeaving ? [] : demandOf(worker, context, isFull)), listed];
  if (isLeaving) return { state: "leaving", reasons };
  if (blocks.length > 0) return { state: "blocked", reasons };
  if (isFull) return { state: "full", reasons };
  return { state: activeJobs > 0 ? "working" : "idle", reasons };
}

function silence({ leasesEndMs }: ExplainedWorker, silentMs: number): WorkerReason {
  const seconds = Math.round(silentMs / 1_000);
  const lastEnd =
    leasesEndMs.length === 0 ? "" : ` at ${new Date(Math.max(...leasesEndMs)).toISOString()} at the latest`;
  const reason = `silent for ${seconds} s: it gets no jobs until it polls again, and is listed until its leases end${lastEnd}`;
  return { reason };
}

/** Why it gets no job at all. */
function blocksOf(worker: ExplainedWorker, { isDraining, killed, breaker }: WorkerContext): readonly WorkerReason[] {
  const { pool, topics, poolTopics, isLeaving, isUnsupported } = worker;
  const reasons: WorkerReason[] = [];
  if (isLeaving) reasons.push({ reason: "it shuts down: it finishes its jobs and gets no new ones" });
  if (isUnsupported) {
    reasons.push({
      reason: "it supports only other protocol versions: update its SDK, or stop it",
      unblocks: "cordum doctor",
    });
  }
  if (isDraining) {
    const reason = `its pool \`${pool}\` is draining: it finishes its jobs and gets no new ones`;
    reasons.push({ reason, unblocks: `cordum pool resume ${pool}` });
  }
  if (killed !== null) {
    const whose = killed.scope === "*" ? "all tenants" : `tenant \`${killed.scope}\``;
    const reason = `the kill switch of ${whose} is engaged by ${killed.by}: ${killed.reason}`;
    reasons.push({ reason, unblocks: `cordum kill release --scope '${killed.scope}'` });
  }
  if (breaker !== null) {
    reasons.push({
      reason: `new jobs are not checked, and none is sent unchecked: ${breaker}`,
      unblocks: "cordum doctor",
    });
  }
  if (topics.length === 0 && poolTopics.length === 0) {
    const where = pool === null ? "it names no pool" : `\`pools.${pool}.topics\` names none`;
    reasons.push({ reason: `it declares no topics, and ${where}`, unblocks: "cordum pool list" });
  }
  return reasons;
}

function demandOf(
  { activeJobs, maxParallelJobs }: ExplainedWorker,
  { waiting }: WorkerContext,
  isFull: boolean,
): readonly WorkerReason[] {
  const reasons: WorkerReason[] = [];
  if (isFull) reasons.push({ reason: `all of its slots are in use: ${activeJobs} of ${maxParallelJobs}` });
  if (waiting.length === 0) {
    reasons.push({ reason: "no job waits for a topic that it serves" });
  }
  for (const [topic, count] of waiting.slice(0, TOPICS_MAX)) {
    const jobs = count === 1 ? "1 job waits" : `${count} jobs wait`;
    const why = isFull ? "" : "; `cordum job explain` names what each waits for, such as a capability or a limit";
    const list = `cordum job list --topic ${topic} --state SCHEDULED`;
    reasons.push({ reason: `${jobs} for \`${topic}\`${why}`, unblocks: list });
  }
  return reasons;
}

const TOPICS_MAX = 10;
