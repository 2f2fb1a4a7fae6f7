/** Runs of `examples/workflows/every-step.yaml` with a kill after the n-th commit. */
import { isRunFinal } from "../../../src/core/model/run.ts";
import type { UpProcess } from "../../cli/run.ts";
import type { Api } from "../api.ts";
import { type LiveEvent, LiveEvents } from "../live-events.ts";
import { ORDER, SCANS } from "../runs/run-problems.ts";

/** Short waits, so that the claims of a killed process expire soon. */
export const SHORT_WAITS = {
  CORDUM_LOG_LEVEL: "error",
  CORDUM_DISPATCH_DEADLINE_MS: "2000",
  CORDUM_SWEEP_EVERY_MS: "100",
  CORDUM_SWEEP_HORIZON_MS: "200",
  CORDUM_SWEEP_LEASE_MS: "1000",
  CORDUM_SWEEP_OUTBOX_AGE_MS: "300",
  CORDUM_BUS_ACK_WAIT_MS: "2000",
  CORDUM_JOB_LOCK_TTL_MS: "1000",
  CORDUM_RUN_LOCK_TTL_MS: "1000",
  CORDUM_RETRY_NO_WORKER_POLICY: "full:50ms:500ms",
  CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "1000",
};
/** The workflow whose runs are interrupted. */
export interface KilledWorkflow {
  readonly id: string;
  readonly input: unknown;
}

export const EVERY_STEP: KilledWorkflow = { id: "every-step", input: ORDER };

export async function killHard({ child, ended }: UpProcess): Promise<void> {
  child.kill("SIGKILL");
  await ended;
}

/** Starts a run and kills the process after the n-th burst of its events, unless it ends before. Approves all approvals. */
export async function runUntilCommit(
  api: Api,
  commit: number,
  kill: () => Promise<void>,
  workflow = EVERY_STEP,
): Promise<{ readonly key: string; readonly isKilled: boolean }> {
  const key = `commit-${commit}`;
  const approver = new Approver(api);
  let bursts = 0;
  let over = (_isKilled: boolean): void => {};
  const isOver = new Promise<boolean>((resolve) => {
    over = resolve;
  });
  const mine = new Set<string>();
  const old = new Set(await listRuns(api));
  const events = await LiveEvents.open(api, (burst) => {
    approver.approveNew(burst);
    for (const { kind, data } of burst) {
      if (kind === "run" && data.workflow_id === workflow.id && !old.has(data.run_id)) mine.add(data.run_id);
    }
    const ours = burst.filter(({ data }) => mine.has(data.run_id ?? data.job_id.split(":")[0]));
    if (ours.length > 0 && !isRepetition(ours)) bursts++;
    if (bursts === commit) over(true);
    else if (ours.some(({ kind, data }) => kind === "run" && isRunFinal(data.state))) over(false);
  });
  // The reply may be lost with the process; a replay with the same key returns the run.
  const started = startWith(api, key, workflow).catch(() => null);
  const isKilled = await within(isOver, () => `run \`${[...mine]}\` is stuck after ${bursts} of ${commit} commits`);
  events.stop();
  if (isKilled) await kill();
  await started;
  return { key, isKilled };
}

/** The timeout is for a system that hangs, not for one that is slow. */
async function within<T>(promise: Promise<T>, describe: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(describe())), WAIT_MS_MAX);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

const WAIT_MS_MAX = 60_000;

/** Starts a run, or replays the start with the same key. */
export async function startWith(api: Api, key: string, { id, input } = EVERY_STEP): Promise<string> {
  const { status, body } = await api.post(`/workflows/${id}/runs`, { input, idempotency_key: key });
  if (status !== 200) throw new Error(`start failed with ${status}: ${JSON.stringify(body)}`);
  return body.run_id;
}

/** Waits until all runs have ended, and approves their approvals. */
export async function allEnded(api: Api, runIds: readonly string[]): Promise<void> {
  const approver = new Approver(api);
  const events = await LiveEvents.open(api, (burst) => approver.approveNew(burst));
  try {
    await approver.approvePending();
    for (const id of runIds) await api.until(`/workflow-runs/${id}`, ({ body }) => isRunFinal(body.state));
  } finally {
    events.stop();
  }
}

const BUSY = 503;

/** Approves all pending approvals, and new ones from the event stream, after the events that the loop waits for. */
export class Approver {
  readonly #door: Api;

  constructor(api: Api) {
    this.#door = api;
  }

  async approvePending(): Promise<void> {
    const { body } = await this.#door.get("/approvals?limit=200");
    await Promise.all(body.items.map(({ job_id }: { job_id: string }) => this.#approve(job_id)));
  }

  approveNew(burst: readonly LiveEvent[]): void {
    for (const { data } of burst) {
      if (data.state === "APPROVAL_REQUIRED" && data.job_id) void this.#approve(data.job_id);
    }
  }

  /** A lost request is repeated by the next `approvePending`. */
  async #approve(jobId: string): Promise<void> {
    const runId = jobId.split(":")[0] ?? "";
    try {
      // Before the approval: the run keeps them until the loop starts.
      for (const event of SCANS) await this.#post(`/workflow-runs/${runId}/events`, event);
      await this.#post(`/approvals/${encodeURIComponent(jobId)}/approve`);
    } catch {
      return;
    }
  }

  async #post(path: string, body: object = {}): Promise<void> {
    while ((await this.#door.post(path, body)).status === BUSY);
  }
}

/** Whether the burst only has middle items of the list, or the job of the second iteration, which behave like the others. */
function isRepetition(burst: readonly LiveEvent[]): boolean {
  const jobs = burst.filter(({ kind }) => kind === "job");
  if (jobs.length === burst.length && jobs.every(({ data }) => data.job_id.endsWith(":seen@2"))) return true;
  return jobs.length > 0 && jobs.every(({ data }) => /:reserve\.[2-8]@1$/.test(data.job_id));
}

async function listRuns(api: Api): Promise<readonly string[]> {
  const { body } = await api.get("/workflow-runs?limit=200");
  return body.items.map(({ run_id }: { run_id: string }) => run_id);
}
