import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { isFinal, JOBS } from "../../../src/core/model/job.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { SeededRandom } from "../../../src/sim/random.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import type { RunningServer } from "../../servers/server.ts";
import { bundle } from "../bundle.ts";
import { openTestCluster } from "../fixtures/cluster.ts";
import type { KillReport } from "./kill-embedded.ts";

export type Victim = "control" | "nats" | "redis";

/** Repeatedly kills processes of a cluster under load and reports the outcome of the acknowledged jobs. */
export async function killCluster(options: {
  readonly nats: RunningServer;
  readonly redis: RunningServer;
  readonly victims: readonly Victim[];
  readonly seed: number;
  readonly onKill?: (count: number, acknowledged: number) => void;
}): Promise<KillReport> {
  const { nats, redis } = options;
  const random = new SeededRandom(options.seed);
  const ledger = new Ledger();
  const script = await bundle("cluster-process.ts");
  const controls = ["c1", "c2"].map(
    (name) => new ControlProcess([script, nats.url, redis.url, name], (line) => ledger.read(line)),
  );
  await Promise.all(controls.map((control) => control.start()));
  const announcing = await openTestCluster({ nats: nats.url, redis: redis.url, name: "submitter", announces: true });
  const working = await openTestCluster({ nats: nats.url, redis: redis.url, name: "worker" });
  const handle = async (item: { input: unknown }) => item.input;
  const stopWorker = await startWorker(working.world, { id: "w", topics: ["load"], concurrency: 32, handle });
  const engine = openEngine(announcing.world, { current: announcing.settings });
  const load = new Load(engine, ledger, 10);
  let killed = 0;
  for (const victim of options.victims) {
    // A random number of acknowledgements after the last restart.
    await ledger.acknowledgedMore(1 + Math.floor(random.next() * 60));
    if (victim === "control") await controls[Math.floor(random.next() * controls.length)]?.killAndRestart();
    else await killServer(victim === "nats" ? nats : redis);
    killed++;
    options.onKill?.(killed, ledger.acknowledged.size);
  }
  await load.stop();
  const lost = await ledger.allEnded(engine);
  await stopWorker();
  await Promise.all(controls.map((control) => control.stop()));
  await Promise.all([announcing.close(), working.close()]);
  return {
    killed,
    acknowledged: ledger.acknowledged.size,
    lost,
    endedTwice: ledger.endedTwice(),
    failed: ledger.failed(),
  };
}

async function killServer(server: RunningServer): Promise<void> {
  await server.kill("SIGKILL");
  await server.restart();
}

/** The acknowledged jobs and their final states. */
class Ledger {
  readonly acknowledged = new Set<string>();
  readonly #ends = new Map<string, string[]>();
  readonly #found = new Map<string, string>();
  readonly #onEnd = new Map<string, () => void>();
  #onAck: (() => void)[] = [];

  acknowledge(id: string): void {
    this.acknowledged.add(id);
    for (const wake of this.#onAck.splice(0)) wake();
  }

  async acknowledgedMore(count: number): Promise<void> {
    const target = this.acknowledged.size + count;
    while (this.acknowledged.size < target) await new Promise<void>((resolve) => this.#onAck.push(resolve));
  }

  read(line: string): void {
    const [word, id = "", state = ""] = line.split(" ");
    if (word !== "end") return;
    this.#ends.set(id, [...(this.#ends.get(id) ?? []), state]);
    this.#onEnd.get(id)?.();
  }

  /** Waits until every acknowledged job has ended, and returns the ids that are not in the store. */
  async allEnded(engine: Engine): Promise<string[]> {
    const lost: string[] = [];
    for (const id of this.acknowledged) {
      const ended = new Promise<void>((resolve) => this.#onEnd.set(id, resolve));
      const found = await engine.world.store.load(JOBS, id);
      if (!found) lost.push(id);
      else if (!isFinal(found.value.state)) await ended;
      // A process may be killed between the commit of the final state and the report.
      else this.#found.set(id, found.value.state);
    }
    return lost;
  }

  endedTwice(): string[] {
    return [...this.#ends].filter(([, states]) => states.length > 1).map(([id, states]) => `${id} ${states.join()}`);
  }

  /** Jobs that did not succeed. */
  failed(): string[] {
    const stateOf = (id: string) => this.#found.get(id) ?? this.#ends.get(id)?.[0];
    return [...this.acknowledged].filter((id) => stateOf(id) !== "SUCCEEDED");
  }
}

/** Clients that submit jobs one after another and retry each until it is acknowledged. */
class Load {
  readonly #lanes: Promise<unknown>;
  #isStopped = false;

  constructor(engine: Engine, ledger: Ledger, lanes: number) {
    this.#lanes = Promise.all(Array.from({ length: lanes }, (_, lane) => this.#run(engine, ledger, lane)));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#lanes;
  }

  async #run(engine: Engine, ledger: Ledger, lane: number): Promise<void> {
    for (let count = 0; !this.#isStopped; count++) {
      const id = `l${lane}-${count}`;
      const checked = checkSubmission({ topic: "load", jobId: id, input: { id }, idempotencyKey: id });
      if (checked.kind === "bad") throw new Error(checked.problems.join());
      while (!(await this.#submitted(engine, checked.submission))) await backOff(engine);
      ledger.acknowledge(id);
    }
  }

  async #submitted(engine: Engine, submission: Parameters<typeof admitJob>[1]): Promise<boolean> {
    try {
      return (await admitJob(engine, submission)).kind !== "conflict";
    } catch {
      return false;
    }
  }
}

const backOff = (engine: Engine): Promise<void> =>
  new Promise((resolve) => engine.world.clock.after(20 + engine.world.random.next() * 80, resolve));

class ControlProcess {
  readonly #args: readonly string[];
  readonly #read: (line: string) => void;
  #child: ChildProcess | null = null;

  constructor(args: readonly string[], read: (line: string) => void) {
    this.#args = args;
    this.#read = read;
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [...this.#args], { stdio: ["ignore", "pipe", "inherit"] });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
        if (line === "ready") resolve();
        else this.#read(line);
      });
      child.on("exit", (code) => reject(new Error(`a control process exited with ${code} before it was ready`)));
    });
  }

  async killAndRestart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const exited = new Promise<void>((resolve) => child.on("close", () => resolve()));
    child.kill("SIGKILL");
    await exited;
  }
}
