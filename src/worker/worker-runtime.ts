import { fitsWithin, jsonCopy } from "../core/model/json.ts";
import type { Writable } from "../core/model/table.ts";
import { permanent, retryAfter } from "../core/retry/intent.ts";
import { nextDelay, parsePolicy } from "../core/retry/policies.ts";
import { BLOB_BYTES_MAX } from "../ports/blobs.ts";
import type { Cancel } from "../ports/clock.ts";
import type { JobRequest, JobResult, Packet } from "../protocol/packet.ts";
import { keyIn, outputKey, toPointer } from "../protocol/pointer.ts";
import { RESULT } from "../protocol/subjects.ts";
import { failureOf, type Outcome } from "./item.ts";
import { type Attempt, Running } from "./running.ts";
import type { WorkerOptions, WorkerWorld } from "./worker.ts";

/** Where a worker's jobs are: begun, or waiting for a free place. What it promises is in `worker.ts`. */
export class WorkerRuntime {
  readonly #world: WorkerWorld;
  readonly #options: WorkerOptions;
  readonly #running: Running;
  readonly #waiting: { readonly packet: Packet; readonly tiredMs: number }[] = [];
  #cancelLook: Cancel = () => {};
  /** Errors of our own making: a handler may name the same class, and has failed all the same. */
  readonly #waits = new WeakSet<Error>();
  #active = 0;
  #idle: (() => void)[] = [];

  constructor(world: WorkerWorld, options: WorkerOptions & { readonly extendsForMs: number }) {
    this.#world = world;
    this.#options = options;
    this.#running = new Running(world, options.id, options.extendsForMs);
  }

  /** Jobs that are here, begun or not. */
  get load(): number {
    return this.#active + this.#waiting.length;
  }

  accept(packet: Packet): void {
    if (packet.body.kind !== "job_request") return;
    if (this.#active < this.#options.concurrency) this.#begin(packet, () => this.#attempt(packet));
    else if (this.#waiting.length < WAITING_MAX) this.#queue(packet, packet.body.deadlineMs);
    else this.#handBack(packet);
  }

  cancel(jobId: string, reason: string): void {
    const at = this.#waiting.findIndex(({ packet }) => (packet.body as JobRequest).jobId === jobId);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#running.cancel(jobId, reason);
  }

  /** Hands back what was not begun, and resolves when nothing is being worked on. */
  async finished(): Promise<void> {
    this.#cancelLook();
    for (const { packet } of this.#waiting.splice(0)) this.#handBack(packet);
    if (this.#active > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#running.stop();
  }

  #queue(packet: Packet, deadlineMs: number | undefined): void {
    const { clock } = this.#world;
    const nowMs = clock.now();
    // After half its time somebody else may have better luck with it; waiting longer would count as a lost attempt.
    const tiredMs = deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + (deadlineMs - nowMs) / 2;
    this.#waiting.push({ packet, tiredMs });
    if (this.#waiting.length === 1) this.#cancelLook = clock.after(LOOK_EVERY_MS, () => this.#look());
  }

  /** Those that wait are in the order in which they came, and so nearly in that of their patience. */
  #look(): void {
    const { clock } = this.#world;
    while ((this.#waiting[0]?.tiredMs ?? Number.POSITIVE_INFINITY) <= clock.now()) {
      const tired = this.#waiting.shift();
      if (tired) this.#handBack(tired.packet);
    }
    if (this.#waiting.length > 0) this.#cancelLook = clock.after(LOOK_EVERY_MS, () => this.#look());
  }

  /** Not begun and not a failure: the job waits for a worker again, which uses up no attempt of its budget. */
  #handBack(packet: Packet): void {
    const delayMs = nextDelay(HAND_BACK_POLICY, 1, () => this.#world.random.next());
    this.#begin(packet, async () => ({
      ...failureOf(retryAfter(new Error("all places of the worker are taken"), delayMs, "no_worker")),
      isWaiting: true,
    }));
  }

  #begin(packet: Packet, attempt: () => Promise<Outcome | null>): void {
    this.#active++;
    void this.#work(packet, attempt);
  }

  #ended(): void {
    this.#active--;
    const next = this.#active < this.#options.concurrency ? this.#waiting.shift() : undefined;
    if (next) this.#begin(next.packet, () => this.#attempt(next.packet));
    else if (this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #work(packet: Packet, work: () => Promise<Outcome | null>): Promise<void> {
    const startedMs = this.#world.clock.now();
    try {
      const outcome = await work();
      if (outcome !== null) await this.#answer(packet, outcome, startedMs); // Else cancelled: nobody waits for it.
    } catch (error) {
      this.#world.log.write("error", "result_not_sent", { error: String(error) });
    }
    this.#ended();
  }

  #answer(packet: Packet, outcome: Outcome, startedMs: number): Promise<void> {
    const request = packet.body as JobRequest;
    const { clock, bus } = this.#world;
    const attempt = request.attempt ?? 1;
    const { id } = this.#options;
    const nowMs = clock.now();
    const executionMs = Math.max(0, Math.round(nowMs - startedMs));
    const { status, output } = outcome;
    const body: Writable<JobResult> & { kind: "job_result" } = {
      kind: "job_result",
      jobId: request.jobId,
      workerId: id,
      executionMs,
      status,
    };
    if (request.attempt !== undefined) body.attempt = request.attempt;
    if (output !== undefined) body.output = output;
    else Object.assign(body, outcome);
    const said: Packet = { traceId: packet.traceId, senderId: id, createdAtMs: nowMs, body };
    const message = {
      id: `result:${request.jobId}@${attempt}:${id}`,
      subject: RESULT,
      packet: packet.traceparent === undefined ? said : { ...said, traceparent: packet.traceparent },
    };
    return this.#persist(request, () => bus.publish(message));
  }

  /** Tries again while somebody waits for this attempt: the work was done, and should not be done again for a hiccup. */
  async #persist<T>(request: JobRequest, call: () => Promise<T>): Promise<T> {
    const { clock, random } = this.#world;
    const nowMs = clock.now();
    // Work that took longer has asked for more time; it gets a while to say what came of it.
    const isLong = request.deadlineMs !== undefined && request.deadlineMs <= nowMs;
    const untilMs = isLong ? nowMs + PERSIST_LONG_MS : (request.deadlineMs ?? nowMs + PERSIST_MS_MAX);
    for (let tries = 1; ; tries++) {
      try {
        return await call();
      } catch (error) {
        if (!isAway(error)) throw error;
        const delayMs = nextDelay(PERSIST_POLICY, tries, () => random.next());
        // Waiting for a store is not a failure of the work: it has a class, and a budget, of its own.
        if (tries >= PERSIST_TRIES_MAX || clock.now() + delayMs >= untilMs)
          throw this.#noteWait(retryAfter(error, delayMs, "store_unavailable"));
        await new Promise<void>((resolve) => clock.after(delayMs, resolve));
      }
    }
  }

  #noteWait(error: Error): Error {
    this.#waits.add(error);
    return error;
  }

  async #attempt(packet: Packet): Promise<Outcome | null> {
    const request = packet.body as JobRequest;
    const attempt = this.#running.begin(packet, request);
    const { deadline } = attempt;
    const { input, contextPtr } = request;
    try {
      const output = await this.#options.handle({
        jobId: request.jobId,
        topic: request.topic,
        org: request.tenantId ?? "default",
        attempt: request.attempt ?? 1,
        // Some packets are for anybody's worker: then it is in them both ways.
        input:
          input === undefined && contextPtr !== undefined ? await this.#fetch(request, contextPtr) : (input ?? null),
        labels: request.labels ?? {},
        constraints: request.constraints ?? null,
        traceparent: packet.traceparent ?? null,
        get signal() {
          return deadline.signal;
        },
        progress: (percent, message) => this.#say(attempt, percent, message),
      });
      if (deadline.isEnded) return null;
      // A copy: what the handler does with its object afterwards is its own business.
      if (fitsWithin(output, INLINE_BYTES_MAX)) return { status: "succeeded", output: jsonCopy(output) };
      return await this.#storeOutput(request, JSON.stringify(output ?? null));
    } catch (error) {
      if (deadline.isEnded) return null;
      return this.#waits.has(error as Error) ? { ...failureOf(error), isWaiting: true } : failureOf(error);
    } finally {
      this.#running.end(attempt);
    }
  }

  #say(attempt: Attempt, percent: number | null, message: string | undefined): void {
    const isNumber = percent !== null && Number.isFinite(percent);
    this.#running.say(attempt, {
      ...(isNumber ? { percent: Math.round(Math.min(100, Math.max(0, percent))) } : {}),
      ...(message === undefined ? {} : { message: message.slice(0, MESSAGE_LENGTH_MAX) }),
    });
  }

  async #fetch(request: JobRequest, pointer: string): Promise<unknown> {
    const key = keyIn(pointer);
    const bytes = await this.#persist(request, () => this.#world.blobs.get(key));
    if (!bytes) throw new Error(`the input \`${key}\` is not in the blob store`);
    return JSON.parse(new TextDecoder().decode(bytes));
  }

  async #storeOutput(request: JobRequest, text: string): Promise<Outcome> {
    const bytes = new TextEncoder().encode(text);
    if (bytes.length <= INLINE_BYTES_MAX) return { status: "succeeded", output: JSON.parse(text) };
    if (bytes.length > BLOB_BYTES_MAX) {
      throw permanent(new Error(`the output has ${bytes.length} bytes; at most ${BLOB_BYTES_MAX} are taken`));
    }
    const key = outputKey(request.jobId);
    const expiresMs = this.#world.clock.now() + OUTPUT_KEPT_MS;
    await this.#persist(request, () => this.#world.blobs.put(key, bytes, expiresMs));
    return { status: "succeeded", resultPtr: toPointer(key) };
  }
}

/** By shape: an adapter says so with a code. Anything else does not get better by being tried again. */
function isAway(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === "STORE_UNAVAILABLE" || code === "BUS_UNAVAILABLE";
}

const WAITING_MAX = 10_000;
const LOOK_EVERY_MS = 1_000;
const HAND_BACK_POLICY = parsePolicy("full:1s:30s");
const PERSIST_TRIES_MAX = 100;
const PERSIST_MS_MAX = 600_000;
const PERSIST_LONG_MS = 60_000;
const PERSIST_POLICY = parsePolicy("full:200ms:5s");
const INLINE_BYTES_MAX = 256 * 1024;
/** A net only: a result leaves with its job. */
const OUTPUT_KEPT_MS = 60 * 24 * 3_600_000;
const MESSAGE_LENGTH_MAX = 1_000;
