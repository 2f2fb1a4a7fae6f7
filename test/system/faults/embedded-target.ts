import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../servers/ports.ts";
import type { Program } from "../program.ts";
import { Disk } from "./disk.ts";
import { Service } from "./service.ts";
import { clockStepMs, type Target } from "./target.ts";
import { cutNetwork, TcpProxy } from "./tcp-proxy.ts";

/** One embedded process with its data directory on a disk of its own. */
export async function embeddedTarget(program: Program): Promise<Target> {
  const disk = new Disk();
  const data = join(disk.dir, "data");
  const port = await freePort();
  const proxy = await TcpProxy.to(port);
  const service = new Service(program, ["--data", data, "--port", String(port)], {}, join(disk.dir, "..", "clock"));

  const faults: Target["faults"] = {
    async kill() {
      await service.end("SIGKILL");
      return "";
    },
    async terminate() {
      await service.end("SIGTERM");
      return "";
    },
    async pause(random) {
      const forMs = Math.round(random.between(100, 3_000));
      service.signal("SIGSTOP");
      await delay(forMs);
      service.signal("SIGCONT");
      return `${forMs} ms`;
    },
    async network_cut(random) {
      return cutNetwork([proxy], random);
    },
    async clock_step(random) {
      const stepMs = clockStepMs(random);
      service.stepClock(stepMs);
      await delay(random.between(500, 4_000));
      return `${stepMs} ms`;
    },
  };
  const onDisk: Target["faults"] = {
    async disk_full(random) {
      disk.fill();
      await delay(random.between(500, 3_000));
      const isEnded = random.chance(0.3);
      if (isEnded) await service.end("SIGTERM");
      disk.free();
      return isEnded ? "ended while full" : "";
    },
    async power_cut() {
      await service.end("SIGKILL");
      disk.cutPower();
      return "";
    },
  };
  const { problem } = disk;
  return {
    name: "embedded",
    url: `http://127.0.0.1:${proxy.port}`,
    transports: [],
    faults: problem === null ? { ...faults, ...onDisk } : faults,
    unavailable: problem === null ? {} : Object.fromEntries(Object.keys(onDisk).map((name) => [name, problem])),
    heal: () => service.start(),
    async stop() {
      await service.end("SIGKILL");
      await proxy.close();
      disk.remove();
    },
  };
}
