import type { Bus } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { JobProgress, JobRequest, Packet } from "../protocol/packet.ts";
import { PROGRESS } from "../protocol/subjects.ts";
import { Deadline } from "./deadline.ts";
import { runtimeMsMax } from "./item.ts";

/**
 * The attempts that a worker has begun.
 *
 * 1. Long work asks for more time by itself, when a third of the time that it was given is over: of three such words two
 *    may be lost. It does so until `extendsForMs` after the beginning, or until the rule's own limit.
 * 2. One timer for all of them: most work is done before it would have to ask.
 */
export class Running {
  readonly #world: { readonly bus: Bus; readonly clock: Clock };
  readonly #workerId: string;
  readonly #extendsForMs: number;
  readonly #attempts = new Set<Attempt>();
  #cancelLook: Cancel = () => {};
  #lookMs = Number.POSITIVE_INFINITY;

  constructor(world: { readonly bus: Bus; readonly clock: Clock }, workerId: string, extendsForMs: number) {
    this.#world = world;
    this.#workerId = workerId;
    this.#extendsForMs = extendsForMs;
  }

  begin(packet: Packet, request: JobRequest): Attempt {
    const { clock } = this.#world;
    const nowMs = clock.now();
    const { deadlineMs, constraints } = request;
    // Both of these were read from the same clock, whatever ours says.
    const spanMs = deadlineMs === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadlineMs - packet.createdAtMs);
    const attempt: Attempt = {
      packet,
      request,
      spanMs,
      deadline: new Deadline(clock, deadlineMs),
      askMs: this.#extendsForMs > 0 ? (deadlineMs ?? Number.POSITIVE_INFINITY) - (spanMs * 2) / 3 : NEVER,
      untilMs: nowMs + Math.min(this.#extendsForMs, runtimeMsMax(constraints)),
    };
    this.#attempts.add(attempt);
    if (attempt.askMs < this.#lookMs) this.#lookAt(attempt.askMs);
    return attempt;
  }

  end(attempt: Attempt): void {
    attempt.deadline.over();
    this.#attempts.delete(attempt);
  }

  /** Somebody does not want the job any more. */
  cancel(jobId: string, reason: string): void {
    for (const { request, deadline } of this.#attempts) {
      if (request.jobId === jobId) deadline.end(new Error(`the job was cancelled: ${reason}`));
    }
  }

  say({ request, packet, spanMs }: Attempt, news: Pick<JobProgress, "percent" | "message">): void {
    const { bus, clock } = this.#world;
    const { jobId, attempt } = request;
    const body = {
      kind: "job_progress",
      jobId,
      ...(attempt === undefined ? {} : { attempt }),
      ...(Number.isFinite(spanMs) ? { extendMs: spanMs } : {}),
      ...news,
    } as const;
    bus.broadcast(PROGRESS, { traceId: packet.traceId, senderId: this.#workerId, createdAtMs: clock.now(), body });
  }

  stop(): void {
    this.#cancelLook();
  }

  #lookAt(atMs: number): void {
    this.#cancelLook();
    this.#lookMs = atMs;
    if (!Number.isFinite(atMs)) return;
    const { clock } = this.#world;
    this.#cancelLook = clock.after(Math.max(0, atMs - clock.now()), () => this.#look());
  }

  #look(): void {
    const nowMs = this.#world.clock.now();
    let nextMs = NEVER;
    for (const attempt of this.#attempts) {
      if (attempt.askMs <= nowMs) this.#askForMore(attempt, nowMs);
      nextMs = Math.min(nextMs, attempt.askMs);
    }
    this.#lookAt(nextMs);
  }

  #askForMore(attempt: Attempt, nowMs: number): void {
    attempt.askMs = NEVER;
    if (nowMs + attempt.spanMs > attempt.untilMs || attempt.deadline.isEnded) return;
    this.say(attempt, {});
    attempt.deadline.moveTo(nowMs + attempt.spanMs);
    attempt.askMs = nowMs + attempt.spanMs / 3;
  }
}

export interface Attempt {
  readonly packet: Packet;
  readonly request: JobRequest;
  /** How long an attempt may be without a word. */
  readonly spanMs: number;
  readonly deadline: Deadline;
  /** When to ask for more time. */
  askMs: number;
  /** From when on nothing more is asked for. */
  readonly untilMs: number;
}

const NEVER = Number.POSITIVE_INFINITY;
