import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startNats, startRedis } from "../../servers/start.ts";
import { killCluster, type Victim } from "./kill-cluster.ts";
import { type KillReport, killEmbedded } from "./kill-embedded.ts";

// The long variant of the kill tests: see scripts/kill.mjs.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { times: { type: "string", default: "200" }, seed: { type: "string", default: "1" } },
});
const times = Number(values.times);
const seed = Number(values.seed);
const print = (line: string) => process.stdout.write(`${line}\n`);
const onKill = (count: number, acknowledged: number) => {
  if (count % 20 === 0) print(`  ${count} killed, ${acknowledged} jobs acknowledged`);
};

const suites: Readonly<Record<string, () => Promise<KillReport>>> = {
  async embedded() {
    const dir = mkdtempSync(join(tmpdir(), "cordum-kill-"));
    try {
      return await killEmbedded({ dir, kills: times, seed, onKill });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
  control: () => onServers(Array.from({ length: times }, () => "control")),
  servers: () => onServers(Array.from({ length: times }, (_, index) => (index % 2 === 0 ? "nats" : "redis"))),
};

async function onServers(victims: readonly Victim[]): Promise<KillReport> {
  const nats = await startNats();
  const redis = await startRedis({ appendonly: true, appendfsync: "always" });
  try {
    return await killCluster({ nats, redis, victims, seed, onKill });
  } finally {
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

let failures = 0;
for (const name of positionals.length > 0 ? positionals : Object.keys(suites)) {
  const suite = suites[name];
  if (!suite) throw new Error(`unknown suite \`${name}\`; give one of ${Object.keys(suites).join(", ")}`);
  print(`${name}:`);
  const { killed, acknowledged, lost, endedTwice, failed } = await suite();
  print(
    `  ${killed} killed, ${acknowledged} acknowledged, ${lost.length} lost, ${endedTwice.length} ended twice, ${failed.length} failed`,
  );
  failures += lost.length + endedTwice.length + failed.length;
}
process.exit(failures === 0 ? 0 : 1);
