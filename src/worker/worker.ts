import type { Stop } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import { intentOf, retryAfter, toWire } from "../retry/contract.ts";
import { nextDelay, parsePolicy } from "../retry/policies.ts";
import type { JobRequest, JobResult, Packet } from "../wire/packet.ts";
import { HANDSHAKE, RESULT, workSubject } from "../wire/subjects.ts";
import type { World } from "../world.ts";

/**
 * For those who do the work.
 *
 * 1. At most `concurrency` jobs are worked on; a bounded number waits behind them; what comes beyond is left to the
 *    control plane's deadline.
 * 2. The result is published durably and tried again until it is, or until nobody waits for it any more.
 * 3. A plain error is retried within its budget; `retryAfter` says when, `permanent` says never.
 */
export interface WorkerOptions {
  readonly id: string;
  readonly topics: readonly string[];
  readonly concurrency: number;
  readonly handle: (item: WorkItem) => Promise<unknown>;
}

export interface WorkItem {
  readonly jobId: string;
  readonly topic: string;
  readonly org: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  /** Aborts when the control plane has stopped waiting for this attempt. */
  readonly signal: AbortSignal;
}

export type WorkerWorld = Pick<World, "bus" | "blobs" | "clock" | "random" | "log">;

export async function startWorker(world: WorkerWorld, options: WorkerOptions): Promise<Stop> {
  const bench = new Workbench(world, options);
  const stops = await Promise.all(
    options.topics.map((topic) => world.bus.serve(workSubject(topic), (packet) => bench.accept(packet))),
  );
  world.bus.tell(HANDSHAKE, {
    traceId: world.random.id(),
    senderId: options.id,
    createdAtMs: world.clock.now(),
    body: { kind: "handshake", componentId: options.id, role: "worker", readyTopics: options.topics },
  });
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
    await bench.finished();
  };
}

class Workbench {
  readonly #world: WorkerWorld;
  readonly #options: WorkerOptions;
  readonly #waiting: Packet[] = [];
  #active = 0;
  #idle: (() => void)[] = [];

  constructor(world: WorkerWorld, options: WorkerOptions) {
    this.#world = world;
    this.#options = options;
  }

  accept(packet: Packet): void {
    if (packet.body.kind !== "job_request") return;
    if (this.#active < this.#options.concurrency) this.#begin(packet);
    else if (this.#waiting.length < WAITING_MAX) this.#waiting.push(packet);
    else this.#world.log.write("warn", "worker_overflow", { job: packet.body.jobId });
  }

  /** Resolves when nothing is being worked on. */
  async finished(): Promise<void> {
    this.#waiting.length = 0;
    if (this.#active > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #begin(packet: Packet): void {
    this.#active++;
    this.#work(packet)
      .catch((error: unknown) => this.#world.log.write("error", "result_not_sent", { error: String(error) }))
      .finally(() => {
        this.#active--;
        const next = this.#waiting.shift();
        if (next) this.#begin(next);
        else if (this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
  }

  async #work(packet: Packet): Promise<void> {
    const request = packet.body as JobRequest;
    const { clock, bus } = this.#world;
    const startedMs = clock.now();
    const outcome = await this.#attempt(request);
    const attempt = request.attempt ?? 1;
    const result: JobResult = {
      jobId: request.jobId,
      workerId: this.#options.id,
      executionMs: Math.max(0, Math.round(clock.now() - startedMs)),
      ...(request.attempt === undefined ? {} : { attempt: request.attempt }),
      ...outcome,
    };
    const message = {
      id: `result:${request.jobId}@${attempt}:${this.#options.id}`,
      subject: RESULT,
      packet: {
        traceId: packet.traceId,
        senderId: this.#options.id,
        createdAtMs: clock.now(),
        body: { kind: "job_result", ...result } as const,
      },
    };
    await this.#persist(request, () => bus.publish(message));
  }

  /** Tries again while somebody waits for this attempt: the work was done, and should not be done again for a hiccup. */
  async #persist<T>(request: JobRequest, call: () => Promise<T>): Promise<T> {
    const { clock, random } = this.#world;
    const untilMs = request.deadlineMs ?? clock.now() + PERSIST_MS_MAX;
    for (let tries = 1; ; tries++) {
      try {
        return await call();
      } catch (error) {
        const delayMs = nextDelay(PERSIST_POLICY, tries, () => random.next());
        // Waiting for a store is not a failure of the work: it has a class, and a budget, of its own.
        if (tries >= PERSIST_TRIES_MAX || clock.now() + delayMs >= untilMs)
          throw retryAfter(error, delayMs, "store_unavailable");
        await new Promise<void>((resolve) => clock.after(delayMs, resolve));
      }
    }
  }

  async #attempt(request: JobRequest): Promise<Outcome> {
    const deadline = new Deadline(this.#world.clock, request.deadlineMs);
    try {
      const output = await this.#options.handle({
        jobId: request.jobId,
        topic: request.topic,
        org: request.tenantId ?? "default",
        attempt: request.attempt ?? 1,
        input: await this.#inputOf(request),
        labels: request.labels ?? {},
        get signal() {
          return deadline.signal;
        },
      });
      return await this.#outputOf(request, output ?? null);
    } catch (error) {
      return failureOf(error);
    } finally {
      deadline.over();
    }
  }

  async #inputOf(request: JobRequest): Promise<unknown> {
    if (request.contextPtr === undefined) return request.input ?? null;
    const { contextPtr } = request;
    const bytes = await this.#persist(request, () => this.#world.blobs.get(contextPtr));
    if (!bytes) throw new Error(`the input \`${contextPtr}\` is not in the blob store`);
    return JSON.parse(new TextDecoder().decode(bytes));
  }

  async #outputOf(request: JobRequest, output: unknown): Promise<Outcome> {
    const text = JSON.stringify(output);
    if (text.length * 3 <= INLINE_BYTES_MAX) return { status: "succeeded", output };
    const bytes = new TextEncoder().encode(text);
    if (bytes.length <= INLINE_BYTES_MAX) return { status: "succeeded", output };
    const resultPtr = `res:${request.jobId}`;
    const expiresMs = this.#world.clock.now() + OUTPUT_KEPT_MS;
    await this.#persist(request, () => this.#world.blobs.put(resultPtr, bytes, expiresMs));
    return { status: "succeeded", resultPtr };
  }
}

/** The end of an attempt as a signal, made for those who look at it: most work is done long before. */
class Deadline {
  readonly #clock: Clock;
  readonly #atMs: number | undefined;
  #abort: AbortController | null = null;
  #cancel: Cancel = () => {};

  constructor(clock: Clock, atMs: number | undefined) {
    this.#clock = clock;
    this.#atMs = atMs;
  }

  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#atMs !== undefined) {
      const passed = () => abort.abort(new Error("the attempt's deadline has passed"));
      this.#cancel = this.#clock.after(this.#atMs - this.#clock.now(), passed);
    }
    return abort.signal;
  }

  over(): void {
    this.#cancel();
  }
}

type Outcome = Omit<JobResult, "jobId" | "workerId">;

function failureOf(thrown: unknown): Outcome {
  const intent = intentOf(thrown);
  const error = toWire(thrown);
  const facts = { errorCode: error.name, errorMessage: error.message, error };
  switch (intent.kind) {
    case "permanent":
      return { status: "failed_fatal", ...facts };
    case "retry":
      return { status: "failed_retryable", ...facts, retryAfterMs: intent.delayMs, retryClass: intent.retryClass };
    case "unclassified":
      return { status: "failed_retryable", ...facts };
    default:
      return intent satisfies never;
  }
}

const WAITING_MAX = 10_000;
const PERSIST_TRIES_MAX = 100;
const PERSIST_MS_MAX = 600_000;
const PERSIST_POLICY = parsePolicy("full:200ms:5s");
const INLINE_BYTES_MAX = 256 * 1024;
const OUTPUT_KEPT_MS = 7 * 24 * 3_600_000;
