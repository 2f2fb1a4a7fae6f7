/**
 * What clients and workers saw during a fault campaign, and the check of it. It uses nothing of the control plane: only
 * acknowledged submissions, executions that workers received, and jobs that clients read.
 *
 * 1. Lost: an acknowledged job is unknown, does not end, or does not succeed although its worker never fails.
 * 2. Duplicated: one idempotency key has two jobs, or a job shows two different ends.
 * 3. Silent: a job succeeded without an execution or with a result that no execution returned, or damage was not reported.
 */
export interface JobView {
  readonly state: string;
  readonly result: unknown;
}

export interface Verdict {
  readonly acknowledged: number;
  readonly executions: number;
  readonly lost: readonly string[];
  readonly duplicated: readonly string[];
  readonly silent: readonly string[];
}

export class History {
  /** The jobs of each idempotency key; a correct system has one. */
  readonly #jobsOf = new Map<string, Set<string>>();
  readonly #keyOf = new Map<string, string>();
  /** The results that executions of a job returned. */
  readonly #returned = new Map<string, Set<string>>();
  /** The different ends that readers saw. */
  readonly #ends = new Map<string, Set<string>>();
  readonly #last = new Map<string, JobView | null>();
  readonly #silent: string[] = [];
  #executions = 0;

  acknowledged(key: string, jobId: string): void {
    const jobs = this.#jobsOf.get(key) ?? new Set();
    this.#jobsOf.set(key, jobs.add(jobId));
    const known = this.#keyOf.get(jobId) ?? key;
    if (known !== key) this.#silent.push(`${jobId} was returned for ${known} and for ${key}`);
    this.#keyOf.set(jobId, key);
  }

  executed(jobId: string, result: unknown): void {
    this.#executions += 1;
    this.#returned.set(jobId, (this.#returned.get(jobId) ?? new Set()).add(JSON.stringify(result)));
  }

  /** `null`: the job is unknown. */
  read(jobId: string, view: JobView | null): void {
    this.#last.set(jobId, view);
    const end = view === null ? "unknown" : isEnd(view) ? `${view.state} ${JSON.stringify(view.result)}` : null;
    if (end !== null) this.#ends.set(jobId, (this.#ends.get(jobId) ?? new Set()).add(end));
  }

  /** Damage that the control plane did not report. */
  undetected(problem: string): void {
    this.#silent.push(problem);
  }

  get jobs(): readonly string[] {
    return [...this.#keyOf.keys()];
  }

  /** Jobs that no reader has seen end. */
  get open(): readonly string[] {
    return this.jobs.filter((id) => !this.#ends.has(id));
  }

  check(): Verdict {
    const lost: string[] = [];
    const duplicated: string[] = [];
    const silent = [...this.#silent];
    for (const [key, jobs] of this.#jobsOf) {
      if (jobs.size > 1) duplicated.push(`${key} created ${[...jobs].join(" and ")}`);
    }
    for (const id of this.jobs) {
      const [end = "no end", ...others] = this.#ends.get(id) ?? [];
      if (others.length > 0) duplicated.push(`${id} ended as ${[end, ...others].join(", then as ")}`);
      const last = this.#last.get(id);
      if (last?.state !== "SUCCEEDED") lost.push(`${id}: ${last?.state ?? end}`);
      else if (!this.#returned.get(id)?.has(JSON.stringify(last.result)))
        silent.push(`${id} succeeded with ${JSON.stringify(last.result)}, which no execution returned`);
    }
    return { acknowledged: this.jobs.length, executions: this.#executions, lost, duplicated, silent };
  }
}

const isEnd = ({ state }: JobView): boolean => ENDS.includes(state);
const ENDS = ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"];
