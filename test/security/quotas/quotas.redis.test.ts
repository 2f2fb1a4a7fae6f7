import { afterAll, beforeAll, describe } from "vitest";
import { type ControlPlane, openControlPlane } from "../../contract/formats/control-plane.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { quotaCases, withQuotas } from "./quotas.ts";

describe("the quotas of a tenant of a cluster", () => {
  let servers: readonly RunningServer[];
  let plane: ControlPlane;
  beforeAll(async () => {
    const [nats, redis] = await Promise.all([startNats(), startRedis()]);
    servers = [nats, redis];
    plane = await openControlPlane({ nats: nats.url, redis: redis.url, nowMs: Date.now(), change: withQuotas });
  });
  afterAll(async () => {
    await plane.close();
    await Promise.all(servers.map((server) => server.stop()));
  });

  quotaCases(() => ({
    engine: plane.engine,
    post: (tenant, path, body) => plane.call("POST", path, body, tenant),
    get: (tenant, path) => plane.call("GET", path, undefined, tenant),
  }));
});
