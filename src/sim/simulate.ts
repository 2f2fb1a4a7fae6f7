import { JOBS } from "../core/model/job.ts";
import { RUNS } from "../core/model/run.ts";
import type { Table } from "../core/model/table.ts";
import { compile } from "../core/policy/compile.ts";
import type { Decision, PolicyRequest } from "../core/policy/decision.ts";
import { evaluate } from "../core/policy/evaluate.ts";
import type { Settings } from "../core/settings.ts";
import type { World } from "../ports/world.ts";
import type { Kernel } from "./adapters/safety.ts";
import { openNet, type SimNet } from "./adapters/world.ts";
import { FaultInjector } from "./chaos.ts";
import { checkEnd, checkRetention, type Ended, isQuiet } from "./checks/end-checks.ts";
import { checkMessageFlow } from "./checks/message-checker.ts";
import { RunChecker } from "./checks/run-checker.ts";
import { SafetyChecker } from "./checks/safety-checker.ts";
import { type Violation, Violations } from "./checks/violations.ts";
import { type FaultProfile, NO_NET_FAULTS } from "./faults.ts";
import { SeededRandom } from "./random.ts";
import { buildSystem } from "./system.ts";
import { Clients } from "./workload/clients.ts";
import { Operators } from "./workload/operators.ts";
import { drawPlan, type Plan, POLICIES } from "./workload/plan.ts";
import { RunClients } from "./workload/run-clients.ts";

/**
 * The shipped control plane in an invented world.
 *
 * First the safety phase: anything may crash, nothing may be wrong. Then the liveness phase: the faults stop, and
 * everything must end. The same options give the same history, event by event, on every machine.
 */
export interface SimulateOptions {
  readonly seed: number;
  /** How many jobs and runs are asked for. */
  readonly runs: number;
  readonly faults: FaultProfile;
  /** A bug to put in, which the checkers must find. */
  readonly mutant?: WorldMutation | null | undefined;
  readonly keepsTrace?: boolean;
  readonly verifiesWrites?: boolean;
  readonly onLog?: (level: string, event: string, fields: object | undefined, atMs: number) => void;
}

/** A planted bug: it stands around what it spoils, never in the shipped code. */
export interface WorldMutation {
  readonly name: string;
  world?(world: World, net: SimNet): World;
  settings?(settings: Settings): Settings;
}

export interface Report {
  readonly seed: number;
  /** Of the whole history: two runs with the same hash were the same. */
  readonly hash: string;
  readonly events: number;
  readonly virtualMs: number;
  readonly crashes: number;
  readonly jobs: Readonly<Record<string, number>>;
  readonly runs: Readonly<Record<string, number>>;
  readonly violations: readonly Violation[];
  readonly trace: readonly string[];
  /** What the processes have said, and how often. */
  readonly logged: Readonly<Record<string, number>>;
}

export async function simulate(options: SimulateOptions): Promise<Report> {
  const random = new SeededRandom(options.seed);
  const plan = drawPlan(random.fork("plan"), options.runs, options.faults);
  const kernel = new PublishedKernel();
  const net = openFor(options, plan, kernel, random);
  const violations = new Violations(net.timeline);
  const failures = new Set<string>();
  const safety = new SafetyChecker(net, plan, violations);
  const seen = checkMessageFlow(net, plan, violations, failures);
  new RunChecker(net, plan, violations);
  const { mutant } = options;
  const settings = { current: mutant?.settings?.(plan.settings) ?? plan.settings };
  const system = buildSystem({
    net,
    plan,
    random: random.fork("hosts"),
    violations,
    failures,
    safety,
    settings,
    decorate: (world) => mutant?.world?.(world, net) ?? world,
    crash: (host) => chaos.crash(host),
    stall: (host, ms) => chaos.pause(host, ms),
  });
  const chaos = new FaultInjector(net, plan.faults.process, system.hosts, random.fork("chaos"));
  net.onCommit = (process) => {
    safety.committed(process);
    chaos.afterCommit(process);
  };
  const clients = new Clients(net, system, random.fork("clients"), violations);
  const operators = new Operators(net, plan, system, clients, random.fork("operators"));
  const runClients = new RunClients(net, plan.runs, system, random.fork("run clients"), violations);
  clients.start(plan);
  runClients.start();
  operators.start();
  chaos.onKernelOutage = () => operators.seeOutage();
  for (const atMs of plan.publishedMs) net.timeline.postQuiet(atMs, () => kernel.publishNext());
  chaos.start();
  const ended: Ended = { net, plan, system, clients, runClients, violations, seen };
  await pass(ended, plan.safetyMs, () => false);
  chaos.stop();
  system.calm();
  net.faults = NO_NET_FAULTS;
  kernel.publishLast();
  await pass(ended, plan.safetyMs + LIVENESS_MS_MAX, () => isQuiet(ended));
  operators.stop();
  runClients.stop();
  checkEnd(ended);
  safety.checkEnd();
  const [jobs, runs] = [countStates(net, JOBS), countStates(net, RUNS)];
  if (plan.seesRetention && violations.found.length === 0) await seeRetention(ended, settings);
  const { crashes } = chaos;
  return { seed: options.seed, crashes, jobs, runs, violations: violations.found, ...historyOf(net) };
}

function historyOf(net: SimNet): Pick<Report, "hash" | "events" | "virtualMs" | "trace" | "logged"> {
  const { trace, timeline, counting } = net;
  const logged = Object.fromEntries(counting.events);
  return { hash: trace.hash(), events: timeline.events, virtualMs: timeline.nowMs, trace: trace.lines, logged };
}

function openFor(options: SimulateOptions, plan: Plan, kernel: Kernel, random: SeededRandom): SimNet {
  const { onLog } = options;
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = plan.settings.bus;
  const net: SimNet = openNet({
    random,
    faults: plan.faults.net,
    bus: { ackWaitMs, deliverMax, inFlightMax },
    kernel,
    keepsTrace: options.keepsTrace ?? false,
    verifiesWrites: options.verifiesWrites ?? false,
    ...(onLog && { onLog: (level, event, fields) => onLog(level, event, fields, net.timeline.nowMs) }),
  });
  return net;
}

/** The kernel of the simulated system, and the policies that are published one after the other. */
class PublishedKernel implements Kernel {
  health: Kernel["health"] = "up";
  readonly timeoutMs = 1_000;
  readonly #policies = POLICIES.map((document) => compile(document));
  #present = this.#policies[0]!;

  decide = (request: PolicyRequest): Decision => evaluate(this.#present, request);

  /** The last one is for the end. */
  publishNext(): void {
    this.#present = this.#policies[Math.min(this.#policies.indexOf(this.#present) + 1, this.#policies.length - 2)]!;
  }

  publishLast(): void {
    this.#present = this.#policies.at(-1)!;
  }
}

/** Lets time pass until then, or until it is done, or until far more has happened than anybody asked for. */
async function pass({ net, plan, violations }: Ended, untilMs: number, isDone: () => boolean): Promise<void> {
  const { timeline } = net;
  const wishes = plan.orders.length + JOBS_PER_RUN * plan.runs.orders.length;
  const eventsMax = EVENTS_MAX_BASE + EVENTS_MAX_PER_JOB * wishes;
  while (timeline.nowMs < untilMs && !isDone()) {
    await timeline.runUntil(Math.min(untilMs, timeline.nowMs + STEP_MS));
    if (timeline.events < eventsMax) continue;
    violations.add("endless", "events", `${timeline.events} events for ${wishes} jobs, and no end`);
    return;
  }
}

/** Lets every retention pass. The sweeps become rare, so that days go by in a moment. */
async function seeRetention(ended: Ended, settings: { current: Settings }): Promise<void> {
  const { timeline } = ended.net;
  ended.runClients.removeWorkflows();
  settings.current = { ...settings.current, sweep: { ...settings.current.sweep, everyMs: 3_600_000 } };
  await timeline.runUntil(timeline.nowMs + RETENTIONS * settings.current.retention.jobsMs);
  checkRetention(ended);
}

function countStates(net: SimNet, table: Table<never>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { value } of net.store.rows(table as Table<{ readonly state: string }>)) {
    counts[value.state] = (counts[value.state] ?? 0) + 1;
  }
  return counts;
}

const LIVENESS_MS_MAX = 30 * 60_000;
const STEP_MS = 2_500;
const EVENTS_MAX_BASE = 500_000;
const EVENTS_MAX_PER_JOB = 1_000;
const JOBS_PER_RUN = 5;
/** A workflow that was deleted is looked at again when the last of its runs may have gone: after twice their time. */
const RETENTIONS = 2;
