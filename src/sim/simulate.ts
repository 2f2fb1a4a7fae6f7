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
import { HumanActions } from "./checks/audit-checker.ts";
import { checkEnd, checkRetention, type Ended, isIdle } from "./checks/end-checks.ts";
import { JobChecker } from "./checks/job-checker.ts";
import { KillChecker } from "./checks/kill-checker.ts";
import { LimitChecker } from "./checks/limit-checker.ts";
import { checkMessageFlow } from "./checks/message-checker.ts";
import { RolloutChecker } from "./checks/rollout-checker.ts";
import { RunChecker } from "./checks/run-checker.ts";
import { SafetyChecker } from "./checks/safety-checker.ts";
import { ScheduleChecker } from "./checks/schedule-checker.ts";
import { type Checker, type Violation, Violations } from "./checks/violations.ts";
import { FaultInjector, type FaultProfile, NO_NET_FAULTS } from "./faults.ts";
import type { Flows } from "./flows.ts";
import { SeededRandom } from "./random.ts";
import { buildSystem, type System } from "./system.ts";
import type { TraceEntry } from "./trace.ts";
import { Clients } from "./workload/clients.ts";
import { KillOperators } from "./workload/kill-operators.ts";
import { Operators } from "./workload/operators.ts";
import { drawPlan, type Plan, POLICIES } from "./workload/plan.ts";
import { RolloutOperators } from "./workload/rollout-operators.ts";
import { RunClients } from "./workload/run-clients.ts";
import { ScheduleOperators } from "./workload/schedule-operators.ts";

/**
 * Deterministic simulation of the shipped control plane: in the safety phase faults are injected and invariants must hold;
 * in the liveness phase the faults stop and all work must end. The same options give the same history on every machine.
 */
export interface SimulateOptions {
  readonly seed: number;
  /** The number of jobs and runs in the workload. */
  readonly runs: number;
  readonly faults: FaultProfile;
  readonly mutant?: WorldMutation | null | undefined;
  readonly keepsTrace?: boolean;
  readonly verifiesWrites?: boolean;
  /** The simulation ends at the first violation of one of these checkers. */
  readonly stopOn?: readonly Checker[];
  readonly onLog?: (level: string, event: string, fields: object | undefined, atMs: number) => void;
}

/** A bug that decorates ports or changes settings; the shipped code stays unmodified. */
export interface WorldMutation {
  readonly name: string;
  world?(world: World, net: SimNet): World;
  settings?(settings: Settings): Settings;
}

export interface Report {
  readonly seed: number;
  /** The trace hash: equal hashes mean equal histories. */
  readonly hash: string;
  readonly events: number;
  readonly virtualMs: number;
  readonly crashes: number;
  readonly jobs: Readonly<Record<string, number>>;
  readonly runs: Readonly<Record<string, number>>;
  readonly violations: readonly Violation[];
  readonly trace: readonly TraceEntry[];
  readonly messages: Flows["messages"];
  readonly holds: Flows["holds"];
  /** The number of log events by name. */
  readonly logged: Readonly<Record<string, number>>;
}

export async function simulate(options: SimulateOptions): Promise<Report> {
  const random = new SeededRandom(options.seed);
  const plan = drawPlan(random.fork("plan"), options.runs, options.faults);
  const kernel = new PublishedKernel();
  const net = openSimNet(options, plan, kernel, random);
  const violations = new Violations(net.timeline, options.stopOn);
  const failures = new Set<string>();
  const safety = new SafetyChecker(net, plan, violations);
  const kills = new KillChecker(net, plan, violations);
  new JobChecker(net, plan, violations, failures, (org) => kills.wasKilled(org));
  const published = checkMessageFlow(net, plan, violations);
  for (const Checker of [RunChecker, RolloutChecker, LimitChecker]) new Checker(net, plan, violations);
  const schedules = new ScheduleChecker(net, plan, violations);
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
    crash: (host) => injector.crash(host),
    pause: (host, ms) => injector.pause(host, ms),
  });
  const injector = new FaultInjector(net, plan.faults.process, system.hosts, random.fork("chaos"));
  net.onCommit = (process) => {
    safety.committed(process);
    injector.afterCommit(process);
  };
  const clients = new Clients(net, system, random.fork("clients"), violations);
  const actions = new HumanActions();
  const operators = new Operators(net, plan, system, clients, random.fork("operators"), actions);
  const runClients = new RunClients(net, plan.runs, system, random.fork("run clients"), violations, actions);
  clients.start(plan);
  runClients.start();
  operators.start();
  startRareOperators(net, system, plan, random, actions);
  const scheduleOperators = new ScheduleOperators(net, system, random.fork("schedule operators"), actions, violations);
  scheduleOperators.start(plan.schedules);
  injector.onKernelOutage = () => operators.onKernelOutage();
  for (const atMs of plan.publishedMs) net.timeline.postQuiet(atMs, () => kernel.publishNext());
  injector.start();
  const ended: Ended = { net, plan, system, clients, runClients, violations, published };
  await advance(ended, plan.safetyMs, () => false);
  injector.stop();
  system.stopFaults();
  net.faults = NO_NET_FAULTS;
  kernel.publishLast();
  scheduleOperators.retireLater(() => schedules.checkSettled());
  await advance(ended, plan.safetyMs + LIVENESS_MS_MAX, () => isIdle(ended));
  operators.stop();
  runClients.stop();
  if (!violations.areComplete) checkAll(ended, safety, actions);
  const counts = { jobs: countStates(net, JOBS), runs: countStates(net, RUNS) };
  if (plan.checksRetention && violations.found.length === 0) await passRetention(ended, settings);
  return { seed: options.seed, crashes: injector.crashes, ...counts, violations: violations.found, ...historyOf(net) };
}

function startRareOperators(
  net: SimNet,
  system: System,
  plan: Plan,
  random: SeededRandom,
  actions: HumanActions,
): void {
  new RolloutOperators(net, system, random.fork("rollout operators"), actions).start(plan.rollouts);
  new KillOperators(net, system, random.fork("kill operators"), actions).start(plan.kills);
}

function checkAll(ended: Ended, safety: SafetyChecker, actions: HumanActions): void {
  checkEnd(ended);
  safety.checkEnd();
  actions.check(ended.net, ended.violations);
}

function historyOf(net: SimNet): Omit<Report, "seed" | "crashes" | "jobs" | "runs" | "violations"> {
  const { trace, timeline, counting, flows } = net;
  const logged = Object.fromEntries(counting.events);
  const { messages = [], holds = [] } = flows ?? {};
  const { events, nowMs: virtualMs } = timeline;
  return { hash: trace.hash(), events, virtualMs, trace: trace.entries, messages, holds, logged };
}

function openSimNet(options: SimulateOptions, plan: Plan, kernel: Kernel, random: SeededRandom): SimNet {
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

/** A kernel whose policies are published one after another. */
class PublishedKernel implements Kernel {
  health: Kernel["health"] = "up";
  readonly timeoutMs = 1_000;
  readonly #policies = POLICIES.map((document) => compile(document));
  #current = this.#policies[0]!;

  decide = (request: PolicyRequest): Decision => evaluate(this.#current, request);

  /** The last policy is reserved for the liveness phase. */
  publishNext(): void {
    this.#current = this.#policies[Math.min(this.#policies.indexOf(this.#current) + 1, this.#policies.length - 2)]!;
  }

  publishLast(): void {
    this.#current = this.#policies.at(-1)!;
  }
}

/** Runs events until the time is reached, `isDone` holds, or the event limit shows a livelock. */
async function advance({ net, plan, violations }: Ended, untilMs: number, isDone: () => boolean): Promise<void> {
  const { timeline } = net;
  const jobs = plan.orders.length + JOBS_PER_RUN * plan.runs.orders.length;
  const eventsMax = EVENTS_MAX_BASE + EVENTS_MAX_PER_JOB * jobs;
  while (timeline.nowMs < untilMs && !violations.areComplete && !isDone()) {
    await timeline.runUntil(Math.min(untilMs, timeline.nowMs + STEP_MS));
    if (timeline.events < eventsMax) continue;
    violations.add("endless", "events", `${timeline.events} events for ${jobs} jobs, and the system is not idle`);
    return;
  }
}

/** Advances the clock past all retention times. Rare sweeps, and no heartbeats of workers, keep the number of events small. */
async function passRetention(ended: Ended, settings: { current: Settings }): Promise<void> {
  const { timeline } = ended.net;
  ended.runClients.removeWorkflows();
  ended.system.stopWorkers();
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
/** A deleted workflow is removed after its last run, which takes two retention periods. */
const RETENTIONS = 2;
