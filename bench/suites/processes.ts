import type { LoopFigures, ServeFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import type { Bench, Suite } from "../frame/suite.ts";
import { CLUSTER, compareWithBest, jobColumns, jobFigures, summary, timesOf } from "./jobs.ts";

/** Submitter, control plane and worker in separate processes. BullMQ has no control plane. */
export const PROCESSES_SUITE: Suite = {
  title: "processes: submitter, control plane and worker in separate processes (name, jobs in flight)",
  notes: [
    "the submitter commits and announces jobs; the control plane checks, dispatches and finishes them",
    "the submitter learns the end of a job from BullMQ's event stream, or from a bus message of Cordum's control plane",
    "client: CPU of all Node processes",
  ],
  columns: jobColumns(),
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const system of SYSTEMS) {
        const { figures, problems } = await measure(bench, system);
        bench.logProgress(`processes, round ${round}: ${summary(system, IN_FLIGHT, figures)}`);
        series.add(system.name, IN_FLIGHT, jobFigures(figures));
        faults.push(...problems.map((fault) => `${system.name} in processes: ${fault}`));
      }
    }
    compareWithBest(series, IN_FLIGHT, SYSTEMS);
    return { series, faults, targets: [] };
  },
};

function measure({ children, isQuick }: Bench, system: System) {
  return withFreshServers(system, async ({ backend, serverPids }) => {
    const roles = system.kind === "bullmq" ? (["worker"] as const) : (["control", "worker"] as const);
    const servers = [];
    for (const role of roles) servers.push(await children.start<ServeFigures>({ kind: "serve", backend, role }));
    const figures = await children.run<LoopFigures>({
      kind: "loop",
      load: "jobs",
      backend,
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
  if (worked !== submitted) faults.push(`${submitted} jobs were submitted, ${worked} were processed`);
  if (again > 0) faults.push(`${again} jobs were processed more than once`);
  return faults;
}

const IN_FLIGHT = 100;
const SYSTEMS: readonly System[] = [
  { name: "BullMQ c=50", kind: "bullmq", concurrency: 50 },
  { name: "BullMQ c=100", kind: "bullmq", concurrency: 100 },
  { name: CLUSTER, kind: "cluster", concurrency: 100 },
];
