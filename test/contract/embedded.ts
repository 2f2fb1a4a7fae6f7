import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BusOptions } from "../../src/ports/bus.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { LogLevel } from "../../src/ports/log.ts";
import type { Metrics } from "../../src/ports/metrics.ts";
import type { Safety } from "../../src/ports/safety.ts";
import { type EmbeddedWorld, openEmbedded } from "../../src/worlds/embedded.ts";
import { isolatedBlobs, isolatedStore } from "./isolated.ts";

/** An embedded world in a directory of its own, which can be closed and opened again. Store and blobs are isolated. */
export class EmbeddedBench {
  readonly dir = mkdtempSync(join(tmpdir(), "cordum-embedded-"));
  readonly logged: { readonly level: LogLevel; readonly event: string }[] = [];
  readonly #clock: Clock | undefined;
  readonly #bus: BusOptions;
  #opened: EmbeddedWorld | null = null;

  constructor(options: { readonly clock?: Clock; readonly bus?: BusOptions } = {}) {
    this.#clock = options.clock;
    this.#bus = options.bus ?? { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };
  }

  async open(): Promise<EmbeddedWorld["world"]> {
    this.#opened = await openEmbedded({
      dir: this.dir,
      name: "test",
      log: { write: (level, event) => void this.logged.push({ level, event }) },
      metrics: NO_METRICS,
      safety: NO_SAFETY,
      bus: this.#bus,
      ...(this.#clock ? { clock: this.#clock } : {}),
    });
    const { world } = this.#opened;
    return { ...world, store: isolatedStore(world.store), blobs: isolatedBlobs(world.blobs) };
  }

  async reopen(): Promise<EmbeddedWorld["world"]> {
    await this.shut();
    return this.open();
  }

  async shut(): Promise<void> {
    await this.#opened?.close();
    this.#opened = null;
  }

  async close(): Promise<void> {
    await this.shut();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export const NO_METRICS: Metrics = { add: () => {}, set: () => {}, observe: () => {} };
export const NO_SAFETY: Safety = {
  local: null,
  check: async () => ({ kind: "unavailable", reason: "this test has no policy" }),
};
