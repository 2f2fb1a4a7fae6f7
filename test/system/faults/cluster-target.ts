import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { nats as overNats } from "../../../src/worlds/worker-sdk.ts";
import { freePort } from "../../servers/ports.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import type { Program } from "../program.ts";
import { Disk } from "./disk.ts";
import { Service } from "./service.ts";
import { stepClock, type Target } from "./target.ts";
import { cutNetwork, TcpProxy } from "./tcp-proxy.ts";

/** A gateway and two control processes on NATS and Redis; each reaches the servers through proxies of its own. */
export async function clusterTarget(program: Program): Promise<Target> {
  const disk = new Disk();
  const folder = mkdtempSync(join(tmpdir(), "cordum-faults-"));
  const nats = await startNats();
  const redis = await startRedis({ appendonly: true, appendfsync: "always", dir: disk.dir });
  const port = await freePort();
  const gateway = await member(program, nats, redis, join(folder, "gateway"), "gateway", port);
  const controls = [
    await member(program, nats, redis, join(folder, "control-1"), "control", await freePort()),
    await member(program, nats, redis, join(folder, "control-2"), "control", await freePort()),
  ];
  const members = [gateway, ...controls];
  const operator = new Redis(redis.url, { enableOfflineQueue: true });
  operator.on("error", () => undefined);
  const entry = await TcpProxy.to(port);

  const faults: Target["faults"] = {
    async kill(random) {
      const { name, service } = random.pick(members);
      await service.end("SIGKILL");
      return name;
    },
    async terminate(random) {
      const { name, service } = random.pick(members);
      await service.end("SIGTERM");
      return name;
    },
    async kill_server(random) {
      const isNats = random.chance(0.5);
      await (isNats ? nats : redis).restart();
      return isNats ? "nats" : "redis";
    },
    async pause(random) {
      const { name, service } = random.pick(members);
      const forMs = Math.round(random.between(100, 4_000));
      service.signal("SIGSTOP");
      await delay(forMs);
      service.signal("SIGCONT");
      return `${name} ${forMs} ms`;
    },
    async pause_server(random) {
      const isNats = random.chance(0.5);
      const server = isNats ? nats : redis;
      await server.pause();
      await delay(random.between(100, 3_000));
      server.resume();
      return isNats ? "nats" : "redis";
    },
    async network_cut(random) {
      const { name, proxies } = random.pick(members);
      const cut = random.pick<readonly TcpProxy[]>([proxies, proxies.slice(0, 1), proxies.slice(1), [entry]]);
      return `${cut.includes(entry) ? "clients" : name} ${await cutNetwork(cut, random)}`;
    },
    async clock_step(random) {
      const { name, service } = random.pick(members);
      return `${name} ${await stepClock(service, random)}`;
    },
    /** In the record of a job that has ended: nothing writes it any more, so the bit can be restored. */
    async bit_flip(random, load, history) {
      await load.pause();
      await load.probe(history.jobs.slice(0, 20));
      const ended = history.jobs.filter((id) => !history.open.includes(id));
      const id = ended.length === 0 ? null : random.pick(ended);
      const key = `cordum:r:job/${id}`;
      const before = id === null ? null : await load.view(id);
      const bytes = await operator.strlen(key);
      if (id === null || before === null || bytes === 0) {
        load.resume();
        return "no job has ended";
      }
      const bit = random.below(8 * bytes);
      const flip = async () => operator.setbit(key, bit, (await operator.getbit(key, bit)) === 0 ? 1 : 0);
      await flip();
      const after = await load.view(id);
      if (after !== null && after !== before) history.undetected(`bit ${bit} of ${key}: ${before} became ${after}`);
      await flip();
      load.resume();
      return `bit ${bit} of ${key}, ${after === null ? "read refused" : "same answer"}`;
    },
  };
  const onDisk: Target["faults"] = {
    /** Redis exits when it cannot append to its log. */
    async disk_full(random) {
      disk.fill();
      await delay(random.between(500, 3_000));
      disk.free();
      await redis.restart();
      return "redis";
    },
    async power_cut() {
      await redis.kill();
      disk.cutPower();
      await redis.restart();
      return "redis";
    },
  };
  const { problem } = disk;
  return {
    name: "cluster",
    url: `http://127.0.0.1:${entry.port}`,
    transports: [overNats({ nats: nats.url, redis: redis.url })],
    faults: problem === null ? { ...faults, ...onDisk } : faults,
    unavailable: problem === null ? {} : Object.fromEntries(Object.keys(onDisk).map((name) => [name, problem])),
    createKey: () => gateway.service.createKey(),
    heal: async () => {
      await Promise.all(members.map(({ service }) => service.start()));
    },
    async stop() {
      await Promise.all(members.map(({ service }) => service.end("SIGKILL")));
      operator.disconnect();
      await Promise.all([entry, ...members.flatMap(({ proxies }) => proxies)].map((proxy) => proxy.close()));
      await Promise.all([nats.stop(), redis.stop()]);
      disk.remove();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function member(
  program: Program,
  nats: RunningServer,
  redis: RunningServer,
  file: string,
  role: string,
  port: number,
) {
  const proxies = [await TcpProxy.to(nats.port), await TcpProxy.to(redis.port)] as const;
  const [toNats, toRedis] = proxies;
  const servers = ["--nats", `nats://127.0.0.1:${toNats.port}`, "--redis", `redis://127.0.0.1:${toRedis.port}`];
  const service = new Service(
    program,
    [...servers, "--role", role, "--port", String(port)],
    { CORDUM_DATA_DIR: `${file}-data` },
    file,
  );
  return { name: file.split("/").at(-1) ?? role, service, proxies };
}
