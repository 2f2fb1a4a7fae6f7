import { isFinal, type JobState } from "../../core/model/job.ts";
import { isRunFinal, type RunState } from "../../core/model/run.ts";
import type { Needs } from "../engine.ts";

/**
 * Ended jobs and runs by tenant over the last minute, counted from the event feed of all processes. Counting starts with the
 * first reader and ends a while after the last one, so that it costs nothing without a reader.
 */
export class Throughput {
  readonly #engine: Needs<"world" | "events">;
  readonly #seconds = new Map<number, Map<string, Ended>>();
  #sinceMs: number | null = null;
  #unsubscribe = (): void => {};
  #stopLinger = (): void => {};

  constructor(engine: Needs<"world" | "events">) {
    this.#engine = engine;
  }

  /** Of one tenant, or of all with `null`. `measuredMs` is at most a minute; the rates of a short time are rough. */
  read(org: string | null): Rates {
    const nowMs = this.#engine.world.clock.now();
    this.#start(nowMs);
    this.#forget(nowMs);
    const total: Ended = { jobs: 0, failed: 0, runs: 0, retrying: 0 };
    for (const byOrg of this.#seconds.values()) {
      for (const [name, ended] of byOrg) if (org === null || name === org) add(total, ended);
    }
    return { ...total, measuredMs: Math.min(WINDOW_MS, nowMs - (this.#sinceMs ?? nowMs)) };
  }

  close(): void {
    this.#stopLinger();
    this.#unsubscribe();
    this.#sinceMs = null;
    this.#seconds.clear();
  }

  #start(nowMs: number): void {
    this.#stopLinger();
    this.#stopLinger = this.#engine.world.clock.after(LINGER_MS, () => this.close());
    if (this.#sinceMs !== null) return;
    this.#sinceMs = nowMs;
    const { events } = this.#engine;
    const stops = [
      events.subscribe(({ org, state }) => this.#countJob(org, state)),
      events.subscribeRuns(({ org, state }) => this.#countRun(org, state)),
    ];
    this.#unsubscribe = () => {
      for (const stop of stops) stop();
    };
  }

  #countJob(org: string, state: JobState): void {
    if (state === "RETRYING") this.#count(org, { jobs: 0, failed: 0, runs: 0, retrying: 1 });
    else if (isFinal(state)) this.#count(org, { jobs: 1, failed: state === "SUCCEEDED" ? 0 : 1, runs: 0, retrying: 0 });
  }

  #countRun(org: string, state: RunState): void {
    if (isRunFinal(state)) this.#count(org, { jobs: 0, failed: 0, runs: 1, retrying: 0 });
  }

  #count(org: string, ended: Ended): void {
    const second = Math.floor(this.#engine.world.clock.now() / 1_000);
    let byOrg = this.#seconds.get(second);
    if (byOrg === undefined) {
      byOrg = new Map();
      this.#seconds.set(second, byOrg);
      this.#forget(second * 1_000);
    }
    // Tenants beyond the limit are part of the sum of all.
    const name = byOrg.has(org) || byOrg.size < TENANTS_MAX ? org : OTHERS;
    const known = byOrg.get(name);
    if (known === undefined) byOrg.set(name, { ...ended });
    else add(known, ended);
  }

  #forget(nowMs: number): void {
    const oldest = Math.floor((nowMs - WINDOW_MS) / 1_000);
    for (const second of this.#seconds.keys()) if (second <= oldest) this.#seconds.delete(second);
  }
}

interface Ended {
  jobs: number;
  /** Of `jobs`: ended without success. */
  failed: number;
  runs: number;
  retrying: number;
}

export interface Rates extends Readonly<Ended> {
  readonly measuredMs: number;
}

function add(total: Ended, { jobs, failed, runs, retrying }: Ended): void {
  total.jobs += jobs;
  total.failed += failed;
  total.runs += runs;
  total.retrying += retrying;
}

const WINDOW_MS = 60_000;
const LINGER_MS = 120_000;
const TENANTS_MAX = 1_000;
const OTHERS = "*";
