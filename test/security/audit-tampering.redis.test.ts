import { afterAll, beforeAll, describe } from "vitest";
import { recordAudit } from "../../src/engine/audit/index.ts";
import { type ControlPlane, openControlPlane } from "../contract/formats/control-plane.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { type Subject, tamperingCases } from "./audit-tampering.ts";

describe("tampering with the audit log of a cluster", () => {
  let servers: readonly RunningServer[];
  let plane: ControlPlane;
  beforeAll(async () => {
    const [nats, redis] = await Promise.all([startNats(), startRedis()]);
    servers = [nats, redis];
    plane = await openControlPlane({ nats: nats.url, redis: redis.url, nowMs: Date.now() });
  });
  afterAll(async () => {
    await plane.close();
    await Promise.all(servers.map((server) => server.stop()));
  });

  tamperingCases(
    (): Subject => ({
      store: plane.world.store,
      get: (path) => plane.call("GET", path),
      async write(count) {
        for (let at = 0; at < count; at++) {
          recordAudit(plane.engine, { org: "default", kind: "policy", who: "k", what: `line ${at}` });
        }
        await plane.world.store.counts("audit_pending", 1); // After the commit of this tick.
      },
    }),
  );
});
