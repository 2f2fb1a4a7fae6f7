import { expect, test } from "vitest";
import { startNats, startRedis } from "../../servers/start.ts";
import { killCluster, type Victim } from "./kill-cluster.ts";

const times = (count: number, ...victims: Victim[]): Victim[] => Array.from({ length: count }, () => victims).flat();

test.each([
  ["a control process, 20 times", times(20, "control")],
  ["nats-server and redis-server, 20 times each", times(20, "nats", "redis")],
] as const)(
  "ends every acknowledged job exactly once after kill -9 of %s",
  async (_title, victims) => {
    const nats = await startNats();
    const redis = await startRedis({ appendonly: true, appendfsync: "always" });
    try {
      const report = await killCluster({ nats, redis, victims, seed: 1 });
      expect(report.lost).toEqual([]);
      expect(report.endedTwice).toEqual([]);
      expect(report.failed).toEqual([]);
      expect(report.killed).toBe(victims.length);
      expect(report.acknowledged).toBeGreaterThan(victims.length);
    } finally {
      await Promise.all([nats.stop(), redis.stop()]);
    }
  },
  300_000,
);
