import type { Bus } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { JobProgress, JobRequest, Packet } from "../protocol/packet.ts";
import { PROGRESS } from "../protocol/subjects.ts";
import { Deadline } from "./deadline.ts";
import { runtimeMsMax } from "./item.ts";

/**
 * The running attempts of a worker.
 *
 * 1. An attempt requests an extension when a third of its time has passed, so two of three requests may be lost. It does so
 *    for at most `extendsForMs`, and within the runtime limit of its constraints.
 * 2. One timer serves all attempts.
 */
export class RunningAttempts {
  readonly #world: { readonly bus: Bus; readonly clock: Clock };
  readonly #workerId: string;
  readonly #extendsForMs: number;
  readonly #attempts = new Set<Attempt>();
  #cancelTimer: Cancel = () => {};
  #timerMs = Number.POSITIVE_INFINITY;

  constructor(world: { readonly bus: Bus; readonly clock: Clock }, workerId: string, extendsForMs: number) {
    this.#world = world;
    this.#workerId = workerId;
    this.#extendsForMs = extendsForMs;
  }

  begin(packet: Packet, request: JobRequest): Attempt {
    const { clock } = this.#world;
    const nowMs = clock.now();
    const { deadlineMs, constraints } = request;
    // Both times are from the clock of the control plane, so the difference is independent of the local clock.
    const spanMs = deadlineMs === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadlineMs - packet.createdAtMs);
    const attempt: Attempt = {
      packet,
      request,
      spanMs,
      deadline: new Deadline(clock, deadlineMs),
      extendAtMs: this.#extendsForMs > 0 ? (deadlineMs ?? Number.POSITIVE_INFINITY) - (spanMs * 2) / 3 : NEVER,
      untilMs: nowMs + Math.min(this.#extendsForMs, runtimeMsMax(constraints)),
    };
    this.#attempts.add(attempt);
    if (attempt.extendAtMs < this.#timerMs) this.#setTimer(attempt.extendAtMs);
    return attempt;
  }

  end(attempt: Attempt): void {
    attempt.deadline.dispose();
    this.#attempts.delete(attempt);
  }

  /** Cancels all attempts of a job. */
  cancel(jobId: string, reason: string): void {
    for (const { request, deadline } of this.#attempts) {
      if (request.jobId === jobId) deadline.cancel(new Error(`the job was cancelled: ${reason}`));
    }
  }

  report({ request, packet, spanMs }: Attempt, progress: Pick<JobProgress, "percent" | "message">): void {
    const { bus, clock } = this.#world;
    const { jobId, attempt } = request;
    const body = {
      kind: "job_progress",
      jobId,
      ...(attempt === undefined ? {} : { attempt }),
      ...(Number.isFinite(spanMs) ? { extendMs: spanMs } : {}),
      ...progress,
    } as const;
    bus.broadcast(PROGRESS, { traceId: packet.traceId, senderId: this.#workerId, createdAtMs: clock.now(), body });
  }

  stop(): void {
    this.#cancelTimer();
  }

  #setTimer(atMs: number): void {
    this.#cancelTimer();
    this.#timerMs = atMs;
    if (!Number.isFinite(atMs)) return;
    const { clock } = this.#world;
    this.#cancelTimer = clock.after(Math.max(0, atMs - clock.now()), () => this.#onTimer());
  }

  #onTimer(): void {
    const nowMs = this.#world.clock.now();
    let nextMs = NEVER;
    for (const attempt of this.#attempts) {
      if (attempt.extendAtMs <= nowMs) this.#extend(attempt, nowMs);
      nextMs = Math.min(nextMs, attempt.extendAtMs);
    }
    this.#setTimer(nextMs);
  }

  #extend(attempt: Attempt, nowMs: number): void {
    attempt.extendAtMs = NEVER;
    if (nowMs + attempt.spanMs > attempt.untilMs || attempt.deadline.isCancelled) return;
    this.report(attempt, {});
    attempt.deadline.extendTo(nowMs + attempt.spanMs);
    attempt.extendAtMs = nowMs + attempt.spanMs / 3;
  }
}

export interface Attempt {
  readonly packet: Packet;
  readonly request: JobRequest;
  /** Length of one lease of the attempt. */
  readonly spanMs: number;
  readonly deadline: Deadline;
  /** When to request an extension. */
  extendAtMs: number;
  /** No extensions beyond this time. */
  readonly untilMs: number;
}

const NEVER = Number.POSITIVE_INFINITY;
