/** Runs of `examples/workflows/every-step.yaml`, each of which loses a process after so many of its commits. */
import type { Api } from "../api.ts";
import { type LiveEvent, LiveEvents } from "../live-events.ts";
import { ORDER } from "../runs/run-problems.ts";

/**
 * Starts a run, and kills after the `station`-th burst of its events. The answer: its id, and whether it came to that.
 * Meanwhile, whatever of any run waits for a human is approved.
 */
export async function runUntilStation(
  door: Api,
  messageHandler: number,
  kill: () => Promise<void>,
): Promise<{ readonly key: string; readonly isKilled: boolean }> {
  const key = `station-${messageHandler}`;
  const people = new People(door);
  let bursts = 0;
  let over = (_isKilled: boolean): void => {};
  const isOver = new Promise<boolean>((resolve) => {
    over = resolve;
  });
  const mine = new Set<string>();
  const old = new Set(await runsThere(door));
  const events = await LiveEvents.open(door, (burst) => {
    people.see(burst);
    for (const { kind, data } of burst) {
      if (kind === "run" && data.workflow_id === "every-step" && !old.has(data.run_id)) mine.add(data.run_id);
    }
    const ours = burst.filter(({ data }) => mine.has(data.run_id ?? data.job_id.split(":")[0]));
    if (ours.length > 0 && !isInTheMiddle(ours)) bursts++;
    if (bursts === messageHandler) over(true);
    else if (ours.some(({ kind, data }) => kind === "run" && data.state !== "RUNNING")) over(false);
  });
  // The answer may be lost with the process: the key finds the run.
  const started = startWith(door, key).catch(() => null);
  const isKilled = await within(isOver, () => `run \`${[...mine]}\` stands still after ${bursts} of ${messageHandler}`);
  events.stop();
  if (isKilled) await kill();
  await started;
  return { key, isKilled };
}

/** The bound is for a system that hangs, not for one that is slow. */
async function within<T>(news: Promise<T>, what: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(what())), WAIT_MS_MAX);
  });
  return Promise.race([news, tooLate]).finally(() => clearTimeout(timer));
}

const WAIT_MS_MAX = 60_000;

/** The same key is the same run, however often it is sent. */
export async function startWith(door: Api, key: string): Promise<string> {
  const { status, body } = await door.post("/workflows/every-step/runs", { input: ORDER, idempotency_key: key });
  if (status !== 200) throw new Error(`the run was answered ${status}: ${JSON.stringify(body)}`);
  return body.run_id;
}

/** Until every run has ended, however it did; people go on approving. */
export async function allEnded(door: Api, runIds: readonly string[]): Promise<void> {
  const people = new People(door);
  const events = await LiveEvents.open(door, (burst) => people.see(burst));
  try {
    await people.lookAround();
    for (const id of runIds) await door.until(`/workflow-runs/${id}`, ({ body }) => body.state !== "RUNNING");
  } finally {
    events.stop();
  }
}

/** Approve everything; they look for it when they come, and are told of what comes later. */
export class People {
  readonly #door: Api;

  constructor(door: Api) {
    this.#door = door;
  }

  async lookAround(): Promise<void> {
    const { body } = await this.#door.get("/approvals?limit=200");
    await Promise.all(body.items.map(({ job_id }: { job_id: string }) => this.#approve(job_id)));
  }

  see(burst: readonly LiveEvent[]): void {
    for (const { data } of burst) {
      if (data.state === "APPROVAL_REQUIRED" && data.job_id) void this.#approve(data.job_id);
    }
  }

  /** An answer that is lost with the process is asked for again by those who look around. */
  async #approve(jobId: string): Promise<void> {
    await this.#door.post(`/approvals/${encodeURIComponent(jobId)}/approve`).catch(() => undefined);
  }
}

/** Of a list: what comes between its first and its last items is the same again and again. */
function isInTheMiddle(burst: readonly LiveEvent[]): boolean {
  const jobs = burst.filter(({ kind }) => kind === "job");
  return jobs.length > 0 && jobs.every(({ data }) => /:reserve\.[2-8]@1$/.test(data.job_id));
}

async function runsThere(door: Api): Promise<readonly string[]> {
  const { body } = await door.get("/workflow-runs?limit=200");
  return body.items.map(({ run_id }: { run_id: string }) => run_id);
}
