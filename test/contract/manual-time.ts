import type { TimeSource } from "../../src/ports/steady-clock.ts";
import { ManualClock } from "./manual-clock.ts";

/** The clocks of a system that advance only on request. The system clock can be set. */
export class ManualTime extends ManualClock implements TimeSource {
  #stepMs = 0;
  #suspendedMs = 0;

  wallMs(): number {
    return this.now() + this.#stepMs;
  }

  monotonicMs(): number {
    return this.now() - ORIGIN_MS;
  }

  uptimeMs(): number {
    return this.monotonicMs() + this.#suspendedMs;
  }

  /** Sets the system clock forwards or back. */
  step(ms: number): void {
    this.#stepMs += ms;
  }

  /** Suspends the machine: system clock and uptime advance, monotonic time does not. */
  suspend(ms: number): void {
    this.#suspendedMs += ms;
    this.#stepMs += ms;
  }
}

const ORIGIN_MS = 1_699_999_999_000;
