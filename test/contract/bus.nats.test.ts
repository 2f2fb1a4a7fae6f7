import { randomUUID } from "node:crypto";
import { setTimeout as realTime } from "node:timers/promises";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll } from "vitest";
import type { Bus, BusOptions } from "../../src/ports/bus.ts";
import { type NatsBus, openNatsBus } from "../../src/worlds/nats-bus.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats } from "../servers/start.ts";
import { type BusSubject, busContract } from "./bus.contract.ts";
import { quietLog } from "./quiet-log.ts";

let server: RunningServer;
let raw: NatsConnection;

beforeAll(async () => {
  server = await startNats();
  raw = await connect({ servers: `127.0.0.1:${server.port}` });
});

afterAll(async () => {
  await raw?.close();
  await server?.stop();
});

busContract("nats", (options) => openSubject(options));

async function openSubject(options: BusOptions): Promise<BusSubject> {
  // A stream of its own for every case: no case sees what another one left.
  const space = `t${randomUUID().slice(0, 8)}`;
  const open: (NatsBus | null)[] = [];
  const enter = async (): Promise<NatsBus> => {
    const bus = await openNatsBus(server.url, {
      ...options,
      log: quietLog,
      prefix: `${space}.`,
      stream: `CORDUM_${space}`,
      groups: [],
    });
    open.push(bus);
    return bus;
  };
  return {
    bus: await enter(),
    other: enter,
    run: (promise) => promise,
    // The one place where a test waits for real time: a broker's clock cannot be moved.
    pass: (ms) => realTime(ms),
    now: () => performance.now(),
    injectRaw: async (subject, bytes) => {
      raw.publish(`${space}.${subject}`, bytes);
      await raw.flush();
    },
    crash: async (bus: Bus) => {
      const at = open.indexOf(bus as NatsBus);
      open[at] = null;
      await (bus as NatsBus).abandon();
    },
    capabilities: { processes: true, inject: true, crash: true },
    close: async () => {
      await Promise.all(open.map((bus) => bus?.close()));
    },
  };
}
