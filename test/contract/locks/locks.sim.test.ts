import type { Locks } from "../../../src/ports/locks.ts";
import type { Process } from "../../../src/sim/process.ts";
import { openBench } from "../../sim/harness.ts";
import { locksContract } from "./locks.contract.ts";

locksContract("simulated", async () => {
  const bench = openBench();
  const processes = new Map<Locks, Process>();
  return {
    open: async () => {
      const { process, world } = bench.enter(`process-${processes.size}`);
      processes.set(world.locks, process);
      return world.locks;
    },
    run: bench.run,
    pass: bench.pass,
    cut: async (locks) => processes.get(locks)?.cut("store"),
    capabilities: { betweenProcesses: true },
    close: async () => undefined,
  };
});
