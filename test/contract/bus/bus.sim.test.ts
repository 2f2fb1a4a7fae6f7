import type { Bus } from "../../../src/ports/bus.ts";
import type { Process } from "../../../src/sim/process.ts";
import { openBench } from "../../sim/harness.ts";
import { busContract } from "./bus.contract.ts";

busContract("simulated", async (options) => {
  const bench = openBench({ bus: options });
  const processes = new Map<Bus, Process>();
  const enter = (): Bus => {
    const { process, world } = bench.enter(`process-${processes.size}`);
    processes.set(world.bus, process);
    return world.bus;
  };
  let raw = 0;
  return {
    bus: enter(),
    other: async () => enter(),
    run: bench.run,
    pass: bench.pass,
    now: () => bench.net.timeline.nowMs,
    injectRaw: async (subject, bytes) => {
      raw += 1;
      bench.net.bus.store(subject, `raw-${raw}`, { kind: "undecodable", bytes, error: "not a packet" });
    },
    crash: async (bus) => processes.get(bus)?.crash(),
    capabilities: { processes: true, inject: true, crash: true },
    close: async () => undefined,
  };
});
