import { setTimeout as realTime } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import type { NatsBus } from "../../../src/adapters/nats/bus.ts";
import { startNats } from "../../servers/start.ts";
import { busContract } from "./bus.contract.ts";
import { NatsBench } from "./nats-harness.ts";

let bench: NatsBench;

beforeAll(async () => {
  bench = await NatsBench.open(await startNats());
});

afterAll(() => bench?.close());

busContract("nats", async (options) => {
  // Every case has its own stream.
  const space = bench.space();
  return {
    bus: await space.enter(options),
    other: () => space.enter(options),
    run: (promise) => promise,
    // Real time: the clock of the broker cannot be controlled.
    pass: (ms) => realTime(ms),
    now: () => performance.now(),
    injectRaw: (subject, bytes) => space.inject(subject, bytes),
    crash: (bus) => space.crash(bus as NatsBus),
    capabilities: { processes: true, inject: true, crash: true },
    close: () => space.close(),
  };
});
