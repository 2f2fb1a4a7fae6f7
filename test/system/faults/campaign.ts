import { setTimeout as delay } from "node:timers/promises";
import { SeededRandom } from "../../../src/sim/random.ts";
import { Program } from "../program.ts";
import { clusterTarget } from "./cluster-target.ts";
import { embeddedTarget } from "./embedded-target.ts";
import { History, type Verdict } from "./history.ts";
import { Load } from "./load.ts";
import type { Target } from "./target.ts";

export const WORLDS = { embedded: embeddedTarget, cluster: clusterTarget } as const;

export interface CampaignOptions {
  readonly world: keyof typeof WORLDS;
  readonly seed: number;
  readonly forMs: number;
  /** The faults to draw from; null: all. */
  readonly faults: readonly string[] | null;
  readonly print: (line: string) => void;
}

export interface CampaignReport extends Verdict {
  readonly faults: Readonly<Record<string, number>>;
}

/** Breaks a deployment again and again under load, then heals it and checks the history. The seed decides every fault. */
export async function campaign({ world, seed, forMs, faults, print }: CampaignOptions): Promise<CampaignReport> {
  const program = await Program.build();
  let target: Target | null = null;
  try {
    target = await WORLDS[world](program);
    await target.heal();
    const history = new History();
    const load = new Load(target.url, await target.createKey(), `${world}-${seed}`, history);
    await load.startWorkers(target.transports);
    for (const [name, why] of Object.entries(target.unavailable)) print(`${world}: no ${name} here: ${why}`);
    const names = Object.keys(target.faults).filter((name) => faults === null || faults.includes(name));
    if (names.length === 0)
      throw new Error(`no such faults in ${world}; give some of ${Object.keys(target.faults).join()}`);
    const counts: Record<string, number> = {};
    const untilMs = performance.now() + forMs;
    for (let round = 1; performance.now() < untilMs; round++) {
      const random = new SeededRandom(seed).fork(`round ${round}`);
      await delay(random.between(200, 2_500));
      // Every fault occurs once before any is repeated at random.
      const name = names[round - 1] ?? random.pick(names);
      const details = await target.faults[name]?.(random, load, history);
      await target.heal();
      counts[name] = (counts[name] ?? 0) + 1;
      const jobs = `${history.jobs.length} jobs`;
      print(`${world}: seed ${seed} round ${round} ${name}${details ? `: ${details}` : ""}; ${jobs}`);
    }
    await load.drain(DRAIN_MS);
    return { ...history.check(), faults: counts };
  } finally {
    await target?.stop();
    await program.stop();
  }
}

const DRAIN_MS = 120_000;
