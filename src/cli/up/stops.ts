import type { Stop } from "../../ports/bus.ts";

/** What has to be stopped, newest first: a gateway takes nothing new before the control plane behind it goes. */
export class Stops {
  readonly #stops: Stop[] = [];

  add(stop: Stop): void {
    this.#stops.push(stop);
  }

  /** A part that cannot be stopped well keeps no other from it. */
  async stop(): Promise<void> {
    const failures: unknown[] = [];
    for (const stop of this.#stops.splice(0).reverse()) {
      await stop().catch((error: unknown) => failures.push(error));
    }
    if (failures.length === 0) return;
    throw new AggregateError(failures, `could not stop cleanly: ${failures.map(String).join("; ")}`);
  }
}
