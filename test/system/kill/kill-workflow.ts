/** Runs of `examples/workflows/every-step.yaml` with a kill after the n-th commit. */
import type { Api } from "../api.ts";
import { type LiveEvent, LiveEvents } from "../live-events.ts";
import { ORDER } from "../runs/run-problems.ts";

/** Starts a run and kills the process after the n-th burst of its events, unless it ends before. Approves all approvals. */
export async function runUntilCommit(
  api: Api,
  commit: number,
  kill: () => Promise<void>,
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
      if (kind === "run" && data.workflow_id === "every-step" && !old.has(data.run_id)) mine.add(data.run_id);
    }
    const ours = burst.filter(({ data }) => mine.has(data.run_id ?? data.job_id.split(":")[0]));
    if (ours.length > 0 && !isMiddleOfList(ours)) bursts++;
    if (bursts === commit) over(true);
    else if (ours.some(({ kind, data }) => kind === "run" && data.state !== "RUNNING")) over(false);
  });
  // The reply may be lost with the process; a replay with the same key returns the run.
  const started = startWith(api, key).catch(() => null);
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
export async function startWith(api: Api, key: string): Promise<string> {
  const { status, body } = await api.post("/workflows/every-step/runs", { input: ORDER, idempotency_key: key });
  if (status !== 200) throw new Error(`start failed with ${status}: ${JSON.stringify(body)}`);
  return body.run_id;
}

/** Waits until all runs have ended, and approves their approvals. */
export async function allEnded(api: Api, runIds: readonly string[]): Promise<void> {
  const approver = new Approver(api);
  const events = await LiveEvents.open(api, (burst) => approver.approveNew(burst));
  try {
    await approver.approvePending();
    for (const id of runIds) await api.until(`/workflow-runs/${id}`, ({ body }) => body.state !== "RUNNING");
  } finally {
    events.stop();
  }
}

/** Approves all pending approvals, and new ones from the event stream. */
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
    await this.#door.post(`/approvals/${encodeURIComponent(jobId)}/approve`).catch(() => undefined);
  }
}

/** Whether the burst only has middle items of the list, which all behave alike. */
function isMiddleOfList(burst: readonly LiveEvent[]): boolean {
  const jobs = burst.filter(({ kind }) => kind === "job");
  return jobs.length > 0 && jobs.every(({ data }) => /:reserve\.[2-8]@1$/.test(data.job_id));
}

async function listRuns(api: Api): Promise<readonly string[]> {
  const { body } = await api.get("/workflow-runs?limit=200");
  return body.items.map(({ run_id }: { run_id: string }) => run_id);
}
