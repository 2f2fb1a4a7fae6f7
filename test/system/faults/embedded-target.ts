import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SeededRandom } from "../../../src/sim/random.ts";
import { freePort } from "../../servers/ports.ts";
import type { Program } from "../program.ts";
import { Disk } from "./disk.ts";
import { Service } from "./service.ts";
import { stepClock, type Target } from "./target.ts";
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
      return stepClock(service, random);
    },
    /** The damaged data is never used: it is replaced by the copy afterwards. */
    async bit_flip(random, load, history) {
      await load.pause();
      await service.end("SIGKILL");
      const copy = join(disk.dir, "..", "copy");
      cpSync(data, copy, { recursive: true });
      const flipped = flipBit(data, random);
      const refusal = await service.start().then(
        () => null,
        (error: Error) => error.message,
      );
      const failed = refusal === null ? await load.probe(history.jobs) : 0;
      if (refusal !== null && !DATA_FILE.test(refusal)) history.undetected(`${flipped}: ${refusal}`);
      await service.end("SIGKILL");
      rmSync(data, { recursive: true });
      cpSync(copy, data, { recursive: true });
      rmSync(copy, { recursive: true });
      await service.start();
      load.resume();
      return `${flipped}, ${refusal === null ? `${failed} reads failed` : "start refused"}`;
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
    createKey: () => service.createKey(),
    heal: () => service.start(),
    async stop() {
      await service.end("SIGKILL");
      await proxy.close();
      disk.remove();
    },
  };
}

/** Flips one bit of a data file and returns which. */
function flipBit(dir: string, random: SeededRandom): string {
  const files = readdirSync(dir).filter((name) => DATA_FILE.test(name) && readFileSync(join(dir, name)).length > 0);
  const file = random.pick(files.sort());
  const bytes = readFileSync(join(dir, file));
  const [at, bit] = [random.below(bytes.length), random.below(8)];
  bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
  writeFileSync(join(dir, file), bytes);
  return `bit ${bit} of byte ${at} of ${file}`;
}

const DATA_FILE = /cordum\.(db|journal|manifest)/;
