import type { LoopFigures, ServeFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { onFreshGround, type System } from "../frame/servers.ts";
import type { Bench, Suite } from "../frame/suite.ts";
import { CLUSTER, compareWithBest, jobColumns, jobFigures, summary, timesOf } from "./jobs.ts";

/** Submitter, control plane and worker each in a process of its own; BullMQ has no control plane. */
export const PROCESSES_SUITE: Suite = {
  title: "processes: submitter, control plane and worker in processes of their own (name, jobs in flight)",
  notes: [
    "the submitter only commits and announces; the control plane checks, places, dispatches and finishes",
    "the submitter hears of the end by a message: BullMQ's event stream, ours a message on the bus for each job",
    "client CPU is that of all Node processes",
  ],
  columns: jobColumns(),
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const system of SYSTEMS) {
        const { figures, problems } = await measure(bench, system);
        bench.say(`processes, round ${round}: ${summary(system, IN_FLIGHT, figures)}`);
        series.add(system.name, IN_FLIGHT, jobFigures(figures));
        faults.push(...problems.map((fault) => `${system.name} in processes: ${fault}`));
      }
    }
    compareWithBest(series, IN_FLIGHT, SYSTEMS);
    return { series, faults, targets: [] };
  },
};

function measure({ children, isQuick }: Bench, system: System) {
  return onFreshGround(system, async ({ side, serverPids }) => {
    const roles = system.kind === "bullmq" ? (["worker"] as const) : (["control", "worker"] as const);
    const servers = [];
    for (const role of roles) servers.push(await children.start<ServeFigures>({ kind: "serve", side, role }));
    const figures = await children.run<LoopFigures>({
      kind: "loop",
      load: "jobs",
      side,
      role: "submitter",
      inFlight: IN_FLIGHT,
      prefilled: false,
      serverPids,
      clientPids: servers.map(({ pid }) => pid),
      ...timesOf(isQuick),
    });
    const worker = (await Promise.all(servers.map((server) => server.stop()))).at(-1);
    return { figures, problems: [...figures.faults, ...workFaults(worker, figures.submitted)] };
  });
}

function workFaults(worker: ServeFigures | undefined, submitted: number): string[] {
  const { worked = 0, again = 0 } = worker ?? {};
  const faults: string[] = [];
  if (worked !== submitted) faults.push(`${submitted} jobs were submitted, ${worked} worked on`);
  if (again > 0) faults.push(`jobs were worked on again ${again} times`);
  return faults;
}

const IN_FLIGHT = 100;
const SYSTEMS: readonly System[] = [
  { name: "BullMQ c=50", kind: "bullmq", concurrency: 50 },
  { name: "BullMQ c=100", kind: "bullmq", concurrency: 100 },
  { name: CLUSTER, kind: "cluster", concurrency: 100 },
];
