import { bareTopic } from "../core/model/canonical.ts";
import { fitsWithin, jsonCopy } from "../core/model/json.ts";
import { digestIn, payloadFaultText, payloadValue, sha256Of } from "../core/model/payload.ts";
import type { Writable } from "../core/model/table.ts";
import { permanent, retryAfter } from "../core/retry/intent.ts";
import { nextDelay, parsePolicy } from "../core/retry/policies.ts";
import { BLOB_BYTES_MAX } from "../ports/blobs.ts";
import type { Cancel } from "../ports/clock.ts";
import { CONSTRAINTS_ENV } from "../protocol/constraints.ts";
import type { JobRequest, JobResult, Packet, Usage } from "../protocol/packet.ts";
import { attemptOutputKey, keyIn, toPointer } from "../protocol/pointer.ts";
import { RESULT } from "../protocol/subjects.ts";
import { AttemptItem, detailsOf, failureOf, type Outcome, UsageReport } from "./item.ts";
import { type Attempt, RunningAttempts } from "./running-attempts.ts";
import type { WorkerOptions, WorkerWorld } from "./worker.ts";

/** Runs the jobs of a worker and queues the excess. The guarantees are in `worker.ts`. */
export class WorkerRuntime {
  readonly #world: WorkerWorld;
  readonly #options: WorkerOptions;
  readonly #running: RunningAttempts;
  readonly #queued: { readonly packet: Packet; readonly returnAtMs: number }[] = [];
  #cancelQueueCheck: Cancel = () => {};
  /** Errors created by `#retry`. A handler can throw the same retry class, and that counts as a failure. */
  readonly #waits = new WeakSet<Error>();
  #active = 0;
  #idle: (() => void)[] = [];

  constructor(world: WorkerWorld, options: WorkerOptions & { readonly extendsForMs: number }) {
    this.#world = world;
    this.#options = options;
    this.#running = new RunningAttempts(world, options.id, options.extendsForMs);
  }

  /** Number of jobs, running and queued. */
  get load(): number {
    return this.#active + this.#queued.length;
  }

  accept(packet: Packet): void {
    if (packet.body.kind !== "job_request") return;
    const local = onLocalClock(packet, packet.body, this.#world.clock.now());
    this.#accept(withConstraints(local, local.body as JobRequest), local.body as JobRequest);
  }

  #accept(packet: Packet, { deadlineMs }: JobRequest): void {
    if (this.#active < this.#options.concurrency) this.#start(packet, () => this.#attempt(packet));
    else if (this.#queued.length < QUEUED_MAX) this.#queue(packet, deadlineMs);
    else this.#returnJob(packet);
  }

  cancel(jobId: string, reason: string): void {
    const at = this.#queued.findIndex(({ packet }) => (packet.body as JobRequest).jobId === jobId);
    if (at >= 0) this.#queued.splice(at, 1);
    this.#running.cancel(jobId, reason);
  }

  /** Returns queued jobs to the control plane, and resolves when all running jobs have ended. */
  async finished(): Promise<void> {
    this.#cancelQueueCheck();
    for (const { packet } of this.#queued.splice(0)) this.#returnJob(packet);
    if (this.#active > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#running.stop();
  }

  #queue(packet: Packet, deadlineMs: number | undefined): void {
    const { clock } = this.#world;
    const nowMs = clock.now();
    // After half of its time the job is returned: another worker may be free.
    const returnAtMs = deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + (deadlineMs - nowMs) / 2;
    this.#queued.push({ packet, returnAtMs });
    if (this.#queued.length === 1) this.#cancelQueueCheck = clock.after(QUEUE_CHECK_MS, () => this.#returnOverdue());
  }

  /** Jobs are queued in order of arrival, which is nearly the order of `returnAtMs`. */
  #returnOverdue(): void {
    const { clock } = this.#world;
    while ((this.#queued[0]?.returnAtMs ?? Number.POSITIVE_INFINITY) <= clock.now()) {
      const overdue = this.#queued.shift();
      if (overdue) this.#returnJob(overdue.packet);
    }
    if (this.#queued.length > 0) this.#cancelQueueCheck = clock.after(QUEUE_CHECK_MS, () => this.#returnOverdue());
  }

  /** Returns a job without running it: it waits for a worker again and uses no attempt. */
  #returnJob(packet: Packet): void {
    const delayMs = nextDelay(RETURN_POLICY, 1, () => this.#world.random.next());
    this.#start(packet, async () => ({
      ...failureOf(retryAfter(new Error("worker at capacity"), delayMs, "no_worker")),
      isWaiting: true,
    }));
  }

  #start(packet: Packet, attempt: () => Promise<Outcome | null>): void {
    this.#active++;
    void this.#work(packet, attempt);
  }

  #ended(): void {
    this.#active--;
    const next = this.#active < this.#options.concurrency ? this.#queued.shift() : undefined;
    if (next) this.#start(next.packet, () => this.#attempt(next.packet));
    else if (this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #work(packet: Packet, work: () => Promise<Outcome | null>): Promise<void> {
    const startedMs = this.#world.clock.now();
    try {
      const outcome = await work();
      if (outcome !== null) await this.#publishResult(packet, outcome, startedMs); // Null: cancelled.
    } catch (error) {
      this.#world.log.write("error", "result_publish_failed", { error: String(error) });
    }
    this.#ended();
  }

  #publishResult(packet: Packet, outcome: Outcome, startedMs: number): Promise<void> {
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
    if (outcome.usage !== undefined) body.usage = outcome.usage;
    if (output !== undefined) body.output = output;
    else Object.assign(body, outcome);
    const result: Packet = { traceId: packet.traceId, senderId: id, createdAtMs: nowMs, body };
    const message = {
      id: `result:${request.jobId}@${attempt}:${id}`,
      subject: RESULT,
      packet: packet.traceparent === undefined ? result : { ...result, traceparent: packet.traceparent },
    };
    return this.#retry(request, () => bus.publish(message));
  }

  /** Retries while the bus or the store is unavailable, until the deadline: the work should not be repeated. */
  async #retry<T>(request: JobRequest, call: () => Promise<T>): Promise<T> {
    const { clock, random } = this.#world;
    const nowMs = clock.now();
    // Past the original deadline (extended work): a grace period applies.
    const isLong = request.deadlineMs !== undefined && request.deadlineMs <= nowMs;
    const untilMs = isLong ? nowMs + RETRY_LONG_MS : (request.deadlineMs ?? nowMs + RETRY_MS_MAX);
    for (let tries = 1; ; tries++) {
      try {
        return await call();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        const delayMs = nextDelay(RETRY_POLICY, tries, () => random.next());
        // An unavailable store has its own retry class and budget.
        if (tries >= RETRY_TRIES_MAX || clock.now() + delayMs >= untilMs)
          throw this.#markAsWait(retryAfter(error, delayMs, "store_unavailable"));
        await new Promise<void>((resolve) => clock.after(delayMs, resolve));
      }
    }
  }

  #markAsWait(error: Error): Error {
    this.#waits.add(error);
    return error;
  }

  async #attempt(packet: Packet): Promise<Outcome | null> {
    const request = packet.body as JobRequest;
    const attempt = this.#running.begin(packet, request);
    const { deadline } = attempt;
    const { input, contextPtr } = request;
    const usage = new UsageReport();
    const withUsage = (outcome: Outcome): Outcome =>
      usage.total === undefined ? outcome : { ...outcome, usage: usage.total };
    try {
      const fields = {
        jobId: request.jobId,
        // Packets for any kind of worker name the subject.
        topic: bareTopic(request.topic),
        org: request.tenantId ?? "default",
        attempt: request.attempt ?? 1,
        // Packets for any kind of worker contain both the input and the pointer.
        input:
          input === undefined && contextPtr !== undefined ? await this.#fetch(request, contextPtr) : (input ?? null),
        labels: request.labels ?? {},
        constraints: request.constraints ?? null,
        traceparent: packet.traceparent ?? null,
        progress: (percent: number | null, message?: string) => this.#reportProgress(attempt, percent, message),
        reportUsage: (used: Usage) => usage.add(used),
      };
      const output = await this.#options.handle(new AttemptItem(fields, deadline, () => detailsOf(request)));
      if (deadline.isCancelled) return null;
      // A copy: the handler may modify its object later.
      if (fitsWithin(output, INLINE_BYTES_MAX)) return withUsage({ status: "succeeded", output: jsonCopy(output) });
      return withUsage(await this.#storeOutput(request, JSON.stringify(output ?? null)));
    } catch (error) {
      if (deadline.isCancelled) return null;
      return withUsage(this.#waits.has(error as Error) ? { ...failureOf(error), isWaiting: true } : failureOf(error));
    } finally {
      this.#running.end(attempt);
    }
  }

  #reportProgress(attempt: Attempt, percent: number | null, message: string | undefined): void {
    const isNumber = percent !== null && Number.isFinite(percent);
    this.#running.report(attempt, {
      ...(isNumber ? { percent: Math.round(Math.min(100, Math.max(0, percent))) } : {}),
      ...(message === undefined ? {} : { message: message.slice(0, MESSAGE_LENGTH_MAX) }),
    });
  }

  async #fetch(request: JobRequest, pointer: string): Promise<unknown> {
    const key = keyIn(pointer);
    const bytes = await this.#retry(request, () => this.#world.blobs.get(key));
    // Without the key: the error is shown with the job.
    if (!bytes) throw new Error(payloadFaultText(`the input of job \`${request.jobId}\``, "missing"));
    const sha256 = digestIn(key);
    if (sha256 !== null && sha256Of(bytes) !== sha256)
      throw permanent(new Error(payloadFaultText(`the input of job \`${request.jobId}\``, "damaged")));
    return payloadValue(bytes);
  }

  async #storeOutput(request: JobRequest, text: string): Promise<Outcome> {
    const bytes = new TextEncoder().encode(text);
    if (bytes.length <= INLINE_BYTES_MAX) return { status: "succeeded", output: JSON.parse(text) };
    if (bytes.length > BLOB_BYTES_MAX) {
      throw permanent(new Error(`the output has ${bytes.length} bytes, the limit is ${BLOB_BYTES_MAX}`));
    }
    // One key for each attempt: stored bytes are never replaced.
    const key = attemptOutputKey(request.jobId, this.#world.random.id());
    const expiresMs = this.#world.clock.now() + OUTPUT_KEPT_MS;
    await this.#retry(request, () => this.#world.blobs.put(key, bytes, expiresMs));
    return { status: "succeeded", resultPtr: toPointer(key) };
  }
}

/** Converts the times if the clocks of worker and control plane differ by more than a message is under way. */
function onLocalClock(packet: Packet, request: JobRequest, nowMs: number): Packet {
  const { createdAtMs } = packet;
  const aheadMs = nowMs - createdAtMs;
  if (request.deadlineMs === undefined || createdAtMs <= 0 || Math.abs(aheadMs) < CLOCK_TOLERANCE_MS) return packet;
  const body = { kind: "job_request", ...request, deadlineMs: request.deadlineMs + aheadMs } as const;
  return { ...packet, createdAtMs: nowMs, body };
}

/** A packet for any CAP worker has the constraints in its environment. */
function withConstraints(packet: Packet, request: JobRequest): Packet {
  const text = request.constraints === undefined ? request.env?.[CONSTRAINTS_ENV] : undefined;
  if (text === undefined) return packet;
  try {
    return { ...packet, body: { kind: "job_request", ...request, constraints: JSON.parse(text) as unknown } };
  } catch {
    return packet;
  }
}

/** Checks the error codes of the adapters, by shape. Other errors are not retried. */
function isUnavailable(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === "STORE_UNAVAILABLE" || code === "BUS_UNAVAILABLE";
}

const QUEUED_MAX = 10_000;
const CLOCK_TOLERANCE_MS = 60_000;
const QUEUE_CHECK_MS = 1_000;
const RETURN_POLICY = parsePolicy("full:1s:30s");
const RETRY_TRIES_MAX = 100;
const RETRY_MS_MAX = 600_000;
const RETRY_LONG_MS = 60_000;
const RETRY_POLICY = parsePolicy("full:200ms:5s");
const INLINE_BYTES_MAX = 256 * 1024;
/** Upper bound: the control plane copies an output when it accepts the result, and deletes this one. */
const OUTPUT_KEPT_MS = 60 * 24 * 3_600_000;
const MESSAGE_LENGTH_MAX = 1_000;
