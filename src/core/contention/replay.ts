import { isBudgetExhausted } from "../retry/budget.ts";
import { actionFor, isDeliveryCapNear } from "../retry/bus-action.ts";
import { nextDelay, type Policy, type Random } from "../retry/policies.ts";
import type { Settings } from "../settings.ts";
import { CONTENTION_PATHS } from "./acquisition.ts";
import { EventQueue } from "./event-queue.ts";
import { ALONE, BATCH_MAX, PACED_BATCH_MAX, ROUNDS_MAX, WITH_OTHERS } from "./lock-turn.ts";
import { NakTimer } from "./nak-timer.ts";
import {
  type ReplayCosts,
  type Replayed,
  ReplayLimitError,
  type ReplayOptions,
  type Window,
} from "./replay-options.ts";
import type { ContentionTrace } from "./trace.ts";

/**
 * Replays recorded first attempts and hold times under other settings, on virtual time. Retries follow from the settings.
 *
 * The decisions are those of the engine: delays, budgets, parking, the delivery cap and the batches of a lock turn. The
 * lock is a holder and a queue per key; a request takes half of `lockMs` to the server and half back. Times are those of
 * the caller: what the server does at `t` is in effect half a round trip later, for all callers alike.
 *
 * 1. An event on the engine path that finds the lock busy after its wait returns after the delay of its policy, later by
 *    about `returnMs`, at a random process.
 * 2. Gateway and admission requests do not return: they are refused after their wait.
 * 3. The recorded time is a whole millisecond, so an arrival is anywhere in it.
 */
export function replay(trace: ContentionTrace, options: ReplayOptions): Replayed {
  return new Replay(trace, options).run();
}

class Replay {
  readonly #trace: ContentionTrace;
  readonly #settings: Settings;
  readonly #costs: ReplayCosts;
  readonly #random: Random;
  readonly #window: Window;
  #attemptsLeft: number;
  readonly #events = new EventQueue();
  readonly #naks: NakTimer;
  #nowMs = 0;

  readonly #arrivedMs: Float64Array;
  readonly #waitMs: Float64Array;
  readonly #latencyMs: Float64Array;
  readonly #attempts: Int32Array;
  readonly #isRefused: Uint8Array;
  readonly #arrivals: number[];
  /** First failure of an event. */
  readonly #failedMs: Float64Array;
  readonly #lastDelayMs: Float64Array;
  /** Deliveries of the current message. */
  readonly #deliveries: Int32Array;
  /** Process of the next attempt. */
  readonly #process: Uint16Array;

  /** Claims: a queue of events that acquires a lock as one. Without coalescing it has one event. */
  readonly #claims: Claim[] = [];
  readonly #freeClaims: number[] = [];
  readonly #claimOf = new Map<number, number>();
  /** Claims by process, with coalescing. */
  readonly #active: Int32Array;
  /** By key: the claim that holds the lock, or -1. */
  readonly #holder: Int32Array;
  readonly #waiters: (number[] | undefined)[];

  constructor(trace: ContentionTrace, { settings, costs, random, window, attemptsMax }: ReplayOptions) {
    const { size, keys } = trace;
    this.#trace = trace;
    this.#settings = settings;
    this.#costs = costs;
    this.#random = random;
    this.#window = window;
    this.#attemptsLeft = attemptsMax;
    this.#naks = new NakTimer(costs.nakTimerMs);
    this.#arrivedMs = trace.arrivedMs.map((atMs) => atMs + random());
    this.#waitMs = new Float64Array(size);
    this.#latencyMs = new Float64Array(size);
    this.#attempts = new Int32Array(size);
    this.#isRefused = new Uint8Array(size);
    this.#arrivals = new Array<number>(window.bins).fill(0);
    this.#failedMs = new Float64Array(size).fill(-1);
    this.#lastDelayMs = new Float64Array(size);
    this.#deliveries = new Int32Array(size);
    this.#process = trace.process.slice();
    this.#active = new Int32Array(trace.processes);
    this.#holder = new Int32Array(keys).fill(-1);
    this.#waiters = new Array<number[] | undefined>(keys);
  }

  run(): Replayed {
    const { size } = this.#trace;
    const order = Array.from({ length: size }, (_, at) => at).sort((a, b) => this.#arrivedMs[a]! - this.#arrivedMs[b]!);
    let next = 0;
    for (;;) {
      const arrivalMs = next < size ? this.#arrivedMs[order[next]!]! : Number.POSITIVE_INFINITY;
      const eventMs = this.#events.nextMs;
      const nakMs = this.#naks.fireMs;
      if (arrivalMs <= eventMs && arrivalMs <= nakMs) {
        if (next >= size) break;
        this.#nowMs = arrivalMs;
        this.#attempt(order[next]!);
        next += 1;
      } else if (nakMs < eventMs) {
        this.#nowMs = nakMs;
        for (const event of this.#naks.fire()) this.#schedule(nakMs + this.#lateMs() / 2, ATTEMPT, event);
      } else {
        this.#nowMs = eventMs;
        this.#handle(this.#events.pop());
      }
    }
    return {
      ...{ waitMs: this.#waitMs, latencyMs: this.#latencyMs, attempts: this.#attempts },
      ...{ isRefused: this.#isRefused, arrivals: this.#arrivals },
    };
  }

  #schedule(timeMs: number, kind: number, index: number): void {
    this.#events.push(timeMs, index * KINDS + kind);
  }

  #handle(event: number): void {
    const index = Math.floor(event / KINDS);
    switch (event % KINDS) {
      case ATTEMPT:
        this.#attempt(index);
        return;
      case TIMEOUT:
        this.#timeOut(index);
        return;
      case COMMIT:
        this.#commit(index);
        return;
      default:
        this.#naks.add(index, this.#nowMs + this.#lastDelayMs[index]!, this.#nowMs);
    }
  }

  #attempt(event: number): void {
    this.#attemptsLeft -= 1;
    if (this.#attemptsLeft < 0) throw new ReplayLimitError("too many attempts");
    const { fromMs, binMs, bins } = this.#window;
    const bin = Math.floor((this.#nowMs - fromMs) / binMs);
    if (bin >= 0 && bin < bins) this.#arrivals[bin]! += 1;
    this.#attempts[event]! += 1;
    this.#deliveries[event]! += 1;
    const { key, path, processes } = this.#trace;
    const isShared = this.#settings.runLock.coalesce && path[event] !== ADMISSION;
    if (!isShared) {
      // The usual case in a burst, without a claim.
      if (this.#isBusy(key[event]!) && this.#queueWaitMs(path[event]!) === 0) this.#failEvent(event, path[event]!);
      else this.#request(this.#newClaim(key[event]!, path[event]!, -1, event));
      return;
    }
    const slot = (key[event]! * processes + this.#process[event]!) * CONTENTION_PATHS.length + path[event]!;
    const found = this.#claimOf.get(slot);
    if (found !== undefined) {
      this.#claims[found]!.events.push(event);
      return;
    }
    const claim = this.#newClaim(key[event]!, path[event]!, slot, event);
    this.#claimOf.set(slot, claim);
    this.#active[this.#process[event]!]! += 1;
    this.#request(claim);
  }

  #newClaim(key: number, path: number, slot: number, event: number): number {
    const at = this.#freeClaims.pop() ?? this.#claims.length;
    const process = this.#process[event]!;
    this.#claims[at] = {
      key,
      path,
      slot,
      process,
      isAlone: true,
      events: [event],
      applied: [],
      grantedMs: 0,
      rounds: 0,
      untilMs: 0,
    };
    return at;
  }

  #endClaim(at: number): void {
    const { slot, process } = this.#claims[at]!;
    if (slot >= 0) {
      this.#claimOf.delete(slot);
      this.#active[process]! -= 1;
    }
    this.#freeClaims.push(at);
  }

  #request(at: number): void {
    const claim = this.#claims[at]!;
    const { key } = claim;
    if (!this.#isBusy(key)) {
      this.#grant(at);
      return;
    }
    const waitMs = this.#queueWaitMs(claim.path);
    if (waitMs === 0) {
      this.#fail(at);
      return;
    }
    const waiters = this.#waiters[key];
    if (waiters === undefined) this.#waiters[key] = [at];
    else waiters.push(at);
    claim.untilMs = this.#nowMs + waitMs;
    this.#schedule(claim.untilMs, TIMEOUT, at);
  }

  #isBusy(key: number): boolean {
    return this.#holder[key] !== -1 || (this.#waiters[key]?.length ?? 0) > 0;
  }

  #queueWaitMs(path: number): number {
    const { engineWaitMs, gatewayWaitMs, gatewayPoll } = this.#settings.runLock;
    if (path === ENGINE) return engineWaitMs;
    return path === GATEWAY && gatewayPoll === null ? gatewayWaitMs : 0;
  }

  #grant(at: number): void {
    const claim = this.#claims[at]!;
    this.#holder[claim.key] = at;
    claim.grantedMs = this.#nowMs + this.#costs.lockMs;
    claim.rounds = 0;
    claim.isAlone = this.#isAlone(claim);
    this.#startRound(at, claim.grantedMs);
  }

  /** No other run is active in the process. */
  #isAlone({ process }: Claim): boolean {
    return this.#active[process]! <= 1;
  }

  #startRound(at: number, fromMs: number): void {
    const claim = this.#claims[at]!;
    claim.rounds += 1;
    claim.applied = claim.events.splice(0, this.#isAlone(claim) ? BATCH_MAX : PACED_BATCH_MAX);
    let holdMs = 0;
    for (const event of claim.applied) {
      holdMs = Math.max(holdMs, this.#trace.holdMs[event]!);
      this.#waitMs[event] = fromMs - this.#arrivedMs[event]!;
    }
    this.#schedule(fromMs + holdMs, COMMIT, at);
  }

  #commit(at: number): void {
    const claim = this.#claims[at]!;
    for (const event of claim.applied) this.#latencyMs[event] = this.#nowMs - this.#arrivedMs[event]!;
    const { holdMs, roundsMin } = claim.isAlone ? ALONE : WITH_OTHERS;
    const isInTime = claim.rounds < roundsMin || this.#nowMs < claim.grantedMs + holdMs;
    if (claim.events.length > 0 && isInTime && claim.rounds < ROUNDS_MAX) this.#startRound(at, this.#nowMs);
    else this.#release(at);
  }

  #release(at: number): void {
    const { key, events } = this.#claims[at]!;
    this.#holder[key] = -1;
    const next = this.#waiters[key]?.shift();
    if (next !== undefined) this.#grant(next);
    if (events.length > 0) this.#request(at);
    else this.#endClaim(at);
  }

  #timeOut(at: number): void {
    const claim = this.#claims[at]!;
    const waiters = this.#waiters[claim.key];
    const place = claim.untilMs === this.#nowMs && this.#holder[claim.key] !== at ? (waiters?.indexOf(at) ?? -1) : -1;
    if (place < 0) return;
    waiters?.splice(place, 1);
    this.#fail(at);
  }

  /** Every event of the claim returns on its own. */
  #fail(at: number): void {
    const { events, path } = this.#claims[at]!;
    for (const event of events) this.#failEvent(event, path);
    this.#endClaim(at);
  }

  #failEvent(event: number, path: number): void {
    const failedMs = this.#nowMs + this.#costs.lockMs;
    if (path === ENGINE) this.#retry(event, failedMs);
    else this.#poll(event, path, failedMs);
  }

  #retry(event: number, failedMs: number): void {
    const { retry, bus } = this.#settings;
    const { policy, budget } = retry.lock_busy;
    const count = this.#attempts[event]!;
    const delayMs = nextDelay(policy, count, this.#random);
    if (this.#failedMs[event]! < 0) this.#failedMs[event] = failedMs;
    const usage = { count, sinceMs: this.#failedMs[event]!, lastDelayMs: delayMs };
    const action = actionFor(
      {
        kind: "retryable",
        retryClass: "lock_busy",
        delayMs,
        isBudgetExhausted: isBudgetExhausted(budget, usage, failedMs, null),
        isDeliveryCapNear: isDeliveryCapNear(this.#deliveries[event]!, bus.deliverMax, bus.parkAfterMs !== null),
      },
      { parkAfterMs: bus.parkAfterMs, poisonMax: 0, poisonDelayMs: 0 },
    );
    if (action.kind === "deadLetter") {
      this.#refuse(event, failedMs);
      return;
    }
    if (this.#trace.processes > 1) this.#process[event] = Math.floor(this.#random() * this.#trace.processes);
    const waitMs = action.kind === "nakDelay" || action.kind === "park" ? action.delayMs : 0;
    if (action.kind === "park") this.#deliveries[event] = 0;
    const lateMs = this.#lateMs();
    if (action.kind === "nakDelay" && this.#costs.nakTimerMs > 0) {
      const nakMs = failedMs + lateMs / 2;
      this.#schedule(nakMs, NAK, event);
      this.#lastDelayMs[event] = waitMs;
    } else this.#schedule(failedMs + waitMs + lateMs, ATTEMPT, event);
  }

  #lateMs(): number {
    const { returnMs, returnSpread } = this.#costs;
    // The sum of three uniform numbers is close to normal; its standard deviation is 1/2.
    const normal = 2 * (this.#random() + this.#random() + this.#random() - 1.5);
    return Math.abs(returnMs * (1 + returnSpread * normal));
  }

  #poll(event: number, path: number, failedMs: number): void {
    const { admission, runLock } = this.#settings;
    const policy: Policy | null = path === ADMISSION ? admission.polled.policy : runLock.gatewayPoll;
    const maxWaitMs = path === ADMISSION ? admission.polled.maxWaitMs : runLock.gatewayWaitMs;
    if (policy === null) {
      this.#refuse(event, failedMs);
      return;
    }
    const delayMs = nextDelay(policy, this.#attempts[event]!, this.#random, this.#lastDelayMs[event] || undefined);
    this.#lastDelayMs[event] = delayMs;
    if (failedMs - this.#arrivedMs[event]! + delayMs > maxWaitMs) this.#refuse(event, failedMs);
    else this.#schedule(failedMs + delayMs, ATTEMPT, event);
  }

  #refuse(event: number, atMs: number): void {
    this.#isRefused[event] = 1;
    this.#waitMs[event] = atMs - this.#arrivedMs[event]!;
    this.#latencyMs[event] = this.#waitMs[event]!;
  }
}

/** A queue of events that acquires a lock as one. Without coalescing it has one event. */
interface Claim {
  readonly key: number;
  readonly path: number;
  /** Number of the queue that events of the same process join; -1 without coalescing. */
  readonly slot: number;
  readonly process: number;
  /** When the lock was acquired. */
  isAlone: boolean;
  readonly events: number[];
  /** In the current commit. */
  applied: readonly number[];
  grantedMs: number;
  rounds: number;
  /** End of the wait in the lock queue. */
  untilMs: number;
}

const [ENGINE, GATEWAY, ADMISSION] = [
  CONTENTION_PATHS.indexOf("engine"),
  CONTENTION_PATHS.indexOf("gateway"),
  CONTENTION_PATHS.indexOf("admission"),
];
/** Kinds of scheduled events. */
const [ATTEMPT, TIMEOUT, COMMIT, NAK, KINDS] = [0, 1, 2, 3, 4];
