/**
 * One row of `cordum lab safety-outage` with real processes, seen from the command: control planes whose safety kernel, a
 * process of its own, stops to listen and comes back, and a burst of jobs that wait for it.
 *
 * 1. What the processes saw is put in one order by the machine's clock and shown to the same `Lag` as a simulated history;
 *    the figures are made by the same lines.
 * 2. Nothing is let out while the kernel is away, or the experiment fails.
 */
import type { LiveFigures, LiveRowRequest, ProcessGroup } from "../live.ts";
import type { OutageParams } from "./experiment.ts";
import { Lag } from "./lag.ts";
import type { AskSighting, JobSighting, KernelQuestion, ReplicaQuestion, ReplicaSeen } from "./member.ts";
import { measured, settingsOf } from "./rows.ts";
import { type OutageHistory, WINDOW_MS } from "./world.ts";

export async function conductSafetyOutage(
  crew: ProcessGroup,
  { key, params }: LiveRowRequest<OutageParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const outage = new Outage(crew, params);
  const isFinished = await Promise.race([outage.happen().then(() => true), timeUp.then(() => false)]);
  const { times } = outage;
  // Without the kernel's return there is nothing to look at.
  if (times === null) return { figures: {}, isFinished };
  const request = { policy: String(key.policy), hasBreaker: key.breaker === "on", binMs: params.binMs };
  const { timeoutMs } = settingsOf(request).safety;
  return { ...measured(historyOf(await outage.tell(), times, timeoutMs), request, 0), isFinished };
}

export interface OutageTimes {
  /** When the kernel went, when the burst came, when the kernel was back. */
  readonly fromMs: number;
  readonly loadMs: number;
  readonly toMs: number;
}

/** (1) */
export function historyOf(seen: readonly ReplicaSeen[], times: OutageTimes, timeoutMs: number): OutageHistory {
  const { fromMs, toMs } = times;
  const lag = replayed(
    seen.flatMap(({ jobs }) => jobs),
    times,
  );
  const asks = seen.flatMap((one) => one.asks.filter(({ atMs }) => atMs >= fromMs)).sort((a, b) => a.atMs - b.atMs);
  const kernel = {
    asksMs: asks.map(({ atMs }) => atMs),
    late: asks.filter((ask) => ask.atMs >= toMs && isLate(ask, timeoutMs)).length,
    backMs: leastOf(
      asks
        .flatMap(({ atMs, tookMs, isDecided }) => (isDecided && tookMs !== null ? [atMs + tookMs] : []))
        .filter((atMs) => atMs >= toMs),
    ),
  };
  const triesAway = seen.flatMap(({ triesMs }) => triesMs).filter((atMs) => atMs >= fromMs && atMs < toMs).length;
  const endMs = Math.max(lag.drainedMs ?? toMs, (kernel.backMs ?? toMs) + WINDOW_MS);
  return { kernel, lag, ...times, endMs, triesAway };
}

/** Of the jobs of the burst: those before it were there to warm up. */
function replayed(jobs: readonly JobSighting[], { fromMs, toMs }: OutageTimes): Lag {
  const sorted = jobs.toSorted((a, b) => a.atMs - b.atMs);
  const early = new Set(sorted.filter(({ atMs }) => atMs < fromMs).map(({ id }) => id));
  let nowMs = fromMs;
  const lag = new Lag(() => nowMs);
  const show = (isShown: (atMs: number) => boolean): void => {
    for (const sighting of sorted) {
      if (!isShown(sighting.atMs) || early.has(sighting.id)) continue;
      nowMs = sighting.atMs;
      lag.note(sighting);
    }
  };
  show((atMs) => atMs < toMs);
  lag.checkClosed();
  void lag.drained();
  show((atMs) => atMs >= toMs);
  return lag;
}

/** What is going on, as far as it has come. */
class Outage {
  readonly #crew: ProcessGroup;
  readonly #params: OutageParams;
  /** Only counts: news of several processes come in any order. */
  readonly #count = new Lag(() => 0);
  times: OutageTimes | null = null;

  constructor(crew: ProcessGroup, params: OutageParams) {
    this.#crew = crew;
    this.#params = params;
    crew.onEvent((news) => this.#count.note(news as JobSighting));
  }

  async happen(): Promise<void> {
    const { outageMs, waitedMs, contenders } = this.#params;
    const address = String(await this.#kernel({ do: "serve" }));
    await this.#replicas(() => ({ do: "open", address }));
    await this.#replicas(() => ({ do: "submit", jobs: WARM_UP, atMs: 0 }));
    await this.#count.drained();
    const fromMs = Number(await this.#kernel({ do: "leave" }));
    const loadMs = fromMs + Math.max(0, outageMs - waitedMs);
    const sent = this.#replicas((index) => ({ do: "submit", jobs: this.#shareOf(contenders, index), atMs: loadMs }));
    const [toMs] = await Promise.all([this.#kernel({ do: "return", atMs: fromMs + outageMs }), sent]);
    this.times = { fromMs, loadMs, toMs: Number(toMs) };
    await this.#count.drained();
  }

  async tell(): Promise<readonly ReplicaSeen[]> {
    return (await this.#replicas(() => ({ do: "tell" }))) as readonly ReplicaSeen[];
  }

  #kernel(question: KernelQuestion): Promise<unknown> {
    return this.#crew.request(this.#crew.size - 1, question);
  }

  #replicas(question: (index: number) => ReplicaQuestion): Promise<readonly unknown[]> {
    const all = Array.from({ length: this.#crew.size - 1 }, (_, index) => this.#crew.request(index, question(index)));
    return Promise.all(all);
  }

  /** As even as whole numbers can be. */
  #shareOf(count: number, index: number): number {
    const parts = this.#crew.size - 1;
    return Math.floor(((index + 1) * count) / parts) - Math.floor((index * count) / parts);
  }
}

/** A kernel that is there, but too slow: the caller has waited, and given up. One that is not there yet refuses at once. */
function isLate({ tookMs, isDecided }: AskSighting, timeoutMs: number): boolean {
  return tookMs !== null && !isDecided && tookMs >= LATE_SHARE * timeoutMs;
}

const leastOf = (values: readonly number[]): number | null => (values.length === 0 ? null : Math.min(...values));

/** Of each control plane, while the kernel is still there: what is connected on first use is so before it matters. */
const WARM_UP = 5;
const LATE_SHARE = 0.9;
