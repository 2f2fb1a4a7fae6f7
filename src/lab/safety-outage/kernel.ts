/**
 * The safety kernel of `cordum lab safety-outage`: it goes away and comes back, and is slow when many ask at once.
 *
 * 1. While it is away nothing is decided: the connection is refused at once, or (`hangs`) nothing comes back in time.
 * 2. It answers one check at a time. An answer that would come later than `timeoutMs` after the question comes to nobody,
 *    but the kernel works for it all the same: that is how a herd keeps a kernel from coming back.
 */
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import type { Checked, Safety } from "../../ports/safety.ts";
import type { World } from "../../ports/world.ts";
import type { SimNet } from "../../sim/adapters/world.ts";
import { withSafety } from "../../sim/mutants/decorators.ts";
import type { Process } from "../../sim/process.ts";
import type { SeededRandom } from "../../sim/random.ts";
import { OneServer } from "../one-server.ts";

export interface KernelOrder {
  readonly net: SimNet;
  readonly random: SeededRandom;
  readonly serviceMs: number;
  readonly latencyMs: number;
  readonly timeoutMs: number;
  readonly gone: "refuses" | "hangs";
}

export class SlowKernel {
  isAway = false;
  /** When somebody asked, by the kernel's door. */
  readonly asksMs: number[] = [];
  /** Asks that were answered in time. */
  answered = 0;
  /** Asks of a kernel that was there, but too slow. */
  late = 0;
  /** The first that was answered after it had been away. */
  backMs: number | null = null;
  readonly #order: KernelOrder;
  readonly #server: OneServer;

  constructor(order: KernelOrder) {
    this.#order = order;
    this.#server = new OneServer(order.serviceMs);
  }

  /** The world of a process that asks this kernel. */
  around(world: World, process: Process): World {
    const replaced: Partial<Safety> = { check: (request) => this.#check(request, process) };
    return withSafety(() => replaced)(world);
  }

  #check(_request: PolicyRequest, process: Process): Promise<Checked> {
    const { net, random, latencyMs, timeoutMs } = this.#order;
    const { timeline } = net;
    const calledMs = timeline.nowMs;
    return new Promise((resolve) => {
      timeline.postQuiet(random.exponential(latencyMs), () => {
        const { afterMs, checked } = this.#answer(timeline.nowMs);
        const backMs = afterMs + random.exponential(latencyMs);
        const leftMs = calledMs + timeoutMs - timeline.nowMs;
        const isLate = backMs > leftMs;
        if (isLate && checked.kind === "decided") this.late += 1;
        timeline.post(Math.min(backMs, leftMs), () => {
          process.enter(() => {
            if (!isLate && checked.kind === "decided") this.#noteAnswer(timeline.nowMs);
            resolve(isLate ? { kind: "unavailable", reason: `no answer within ${timeoutMs} ms` } : checked);
          });
        });
      });
    });
  }

  #answer(nowMs: number): { readonly afterMs: number; readonly checked: Checked } {
    this.asksMs.push(nowMs);
    if (!this.isAway) return { afterMs: this.#server.take(nowMs), checked: { kind: "decided", decision: ALLOW } };
    const afterMs = this.#order.gone === "hangs" ? Number.POSITIVE_INFINITY : 0;
    return { afterMs, checked: { kind: "unavailable", reason: "connection refused" } };
  }

  #noteAnswer(nowMs: number): void {
    this.answered += 1;
    this.backMs ??= nowMs;
  }
}

const ALLOW: Decision = { effect: "allow", ruleId: null, reason: "the lab allows everything", snapshot: "lab" };
