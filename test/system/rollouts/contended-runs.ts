/** Runs whose results arrive at once: a first step, which can be held, and then a list of short items. */
import { MEASURED_PER_SECOND } from "../../../src/core/rollout/measured-units.ts";
import type { Stop } from "../../../src/ports/bus.ts";
import { type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";
import type { RolloutSystem } from "./rollout-system.ts";

const ITEMS = 3;
const BEGIN = "rollout.begin";

export class ContendedRuns {
  readonly #system: RolloutSystem;
  readonly #begun = new Map<string, Begin>();
  #started = 0;
  #nextMs = 0;
  #stop: Stop = async () => undefined;
  #gate: Promise<void> = Promise.resolve();
  #open: () => void = () => {};

  constructor(system: RolloutSystem) {
    this.#system = system;
  }

  async open(): Promise<void> {
    const { api, transport, itemTopic, hasItemWorker } = this.#system;
    const each = { topic: itemTopic, for_each: "${input.items}", max_parallel: ITEMS, depends_on: ["begin"] };
    const applied = await api.post("/workflows", { id: "contended", steps: { begin: { topic: BEGIN }, each } });
    if (applied.status !== 200) throw new Error(JSON.stringify(applied.body));
    const handle = (item: WorkItem) => this.#work(item);
    const topics = hasItemWorker ? [BEGIN] : [BEGIN, itemTopic];
    this.#stop = await worker({ id: "contended", topics, concurrency: 256, transport, handle });
  }

  close(): Promise<void> {
    return this.#stop();
  }

  /** Starts runs, a few at a time, and resolves to their ids when all have begun. Requests survive a restart. */
  async run(count: number): Promise<readonly string[]> {
    const runIds: string[] = [];
    const lane = async (): Promise<void> => {
      while (runIds.length < count) {
        // Counted before the request, so that lanes do not start more.
        const at = runIds.push("") - 1;
        const runId = await this.#start();
        runIds[at] = runId;
        await this.#beginOf(runId).returned;
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return runIds;
  }

  /** Starts runs and resolves when the worker has their first jobs. None is returned before `release`. */
  async hold(count: number): Promise<readonly string[]> {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
    const runIds = await Promise.all(Array.from({ length: count }, () => this.#start()));
    await Promise.all(runIds.map((runId) => this.#beginOf(runId).received));
    return runIds;
  }

  release(): void {
    this.#open();
  }

  /** The idempotency key makes the repetition of a lost request harmless. */
  async #start(): Promise<string> {
    this.#started += 1;
    const key = `${this.#started}`;
    const nowMs = Date.now();
    this.#nextMs = Math.max(nowMs, this.#nextMs + APART_MS);
    if (this.#nextMs > nowMs) await new Promise((resolve) => setTimeout(resolve, this.#nextMs - nowMs));
    const request = {
      input: { items: Array.from({ length: ITEMS }, (_, at) => at) },
      idempotency_key: key,
    };
    for (;;) {
      await this.#system.isUp;
      const answer = await this.#system.api.post("/workflows/contended/runs", request).catch(() => null);
      if (answer?.status === 200) return answer.body.run_id;
      if (answer !== null && answer.status !== 401) throw new Error(`start failed: ${JSON.stringify(answer.body)}`);
    }
  }

  async #work({ jobId, topic }: WorkItem): Promise<null> {
    if (topic !== BEGIN) return null;
    const begin = this.#beginOf(jobId.split(":")[0] ?? "");
    begin.receive();
    await this.#gate;
    begin.return();
    return null;
  }

  #beginOf(runId: string): Begin {
    const known = this.#begun.get(runId) ?? new Begin();
    this.#begun.set(runId, known);
    return known;
  }
}

export const beginJobOf = (runId: string): string => `${runId}:begin@1`;

/** The first job of a run. */
class Begin {
  readonly received: Promise<void>;
  readonly returned: Promise<void>;
  receive: () => void = () => {};
  return: () => void = () => {};

  constructor() {
    this.received = new Promise((resolve) => {
      this.receive = resolve;
    });
    this.returned = new Promise((resolve) => {
      this.return = resolve;
    });
  }
}

const LANES = 8;
/** Every run is measured: a process measures a limited number of units per second. */
const APART_MS = Math.ceil((1.4 * 1_000) / MEASURED_PER_SECOND);
