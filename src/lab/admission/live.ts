/**
 * One cell of `cordum lab admission` with real processes. Each process is a control plane with its share of the callers; all
 * callers start at one instant of the machine's clock.
 *
 * 1. Callers run in the process of their server and retry there, so a response time excludes HTTP and the network.
 * 2. The cell fails when more runs of the org are open than its limit. A run counts as open from the response to its start
 *    commit to the request of its end commit. That is a lower bound, so every violation found is real.
 */

import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { type Control, startControl } from "../../engine/start-control.ts";
import type { World } from "../../ports/world.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
import { withStore } from "../../sim/mutants/decorators.ts";
import { SeededRandom } from "../../sim/random.ts";
import {
  isDoneInTime,
  type LabProcess,
  type LiveFigures,
  type LiveRowRequest,
  type ProcessContext,
  type ProcessGroup,
  pauseUntil,
  START_DELAY_MS,
} from "../live.ts";
import { ALLOW_ALL } from "../simulation.ts";
import { ascending, evenShares } from "../statistics.ts";
import {
  type Caller,
  ORG,
  type OtherSpec,
  type Response,
  requestOther,
  runOtherOrg,
  startCallers,
  type Transport,
} from "./clients.ts";
import type { AdmissionParams, Cell, ClientName } from "./experiment.ts";
import { applyWorkflows, CLIENTS, checkLimit, measure, observeAttempts, settingsOf } from "./scenario.ts";

export interface RunObservation {
  readonly runId: string;
  readonly kind: "opened" | "closed";
  readonly atMs: number;
}

export interface ProcessReport {
  readonly callers: readonly Caller[];
  readonly other: readonly Response[];
  readonly attemptsMs: readonly number[];
  readonly runs: readonly RunObservation[];
}

/** In this order. Process 0 applies the workflows. */
export type Command =
  | { readonly do: "prepare" }
  | { readonly do: "start" }
  | { readonly do: "now" }
  /** Runs the other org without the burst. Returns its response times. */
  | ({ readonly do: "run_other" } & OtherSpec)
  /** Returns when all callers are done. */
  | ({ readonly do: "run_burst"; readonly atMs: number; readonly callers: number } & OtherSpec)
  | { readonly do: "report" };

export async function runLiveCell(group: ProcessGroup, cell: Cell, timeUp: Promise<void>): Promise<LiveFigures> {
  const request = (index: number, command: Command): Promise<unknown> => group.request(index, command);
  const requestAll = (command: Command): Promise<readonly unknown[]> => group.requestAll(command);
  await request(0, { do: "prepare" });
  await requestAll({ do: "start" });
  const otherRate = cell.otherRate / group.size;
  const alone =
    cell.part === "sweep" ? [] : await requestAll({ do: "run_other", otherRate, otherForMs: OTHER_ALONE_MS });
  const atMs = Number(await request(0, { do: "now" })) + START_DELAY_MS;
  const { otherForMs } = cell;
  const bursts = evenShares(cell.contenders, group.size).map((callers, index) =>
    request(index, { do: "run_burst", atMs, callers, otherRate, otherForMs }),
  );
  const isFinished = await isDoneInTime(Promise.all(bursts), timeUp);
  const reports = (await requestAll({ do: "report" })) as readonly ProcessReport[];
  const openMax = openRunsMax(reports.flatMap(({ runs }) => runs));
  checkLimit(openMax);
  const callers = reports.flatMap((report) => report.callers);
  const attemptsMs = ascending(reports.flatMap((report) => report.attemptsMs.filter((timeMs) => timeMs >= atMs)));
  const hasResponse = callers.some(({ responses }) => responses.length > 0);
  if (attemptsMs.length === 0 || !hasResponse) return { figures: {}, isFinished };
  const history = { callers, other: reports.flatMap(({ other }) => other), attemptsMs, fromMs: atMs, openMax };
  return { ...measure(cell, history, (alone as readonly (readonly number[])[]).flat()), isFinished };
}

/** (2) */
export function openRunsMax(observations: readonly RunObservation[]): number {
  const spans = new Map<string, { fromMs: number; toMs: number }>();
  for (const { runId, kind, atMs } of observations) {
    const span = spans.get(runId) ?? { fromMs: Number.POSITIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };
    if (kind === "opened") span.fromMs = Math.min(span.fromMs, atMs);
    else span.toMs = Math.min(span.toMs, atMs);
    spans.set(runId, span);
  }
  const changes = [...spans.values()]
    .filter(({ fromMs, toMs }) => fromMs < toMs)
    .flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, delta: 1 },
      { atMs: toMs, delta: -1 },
    ])
    .sort((a, b) => a.atMs - b.atMs || a.delta - b.delta);
  let open = 0;
  let most = 0;
  for (const { delta } of changes) {
    open += delta;
    most = Math.max(most, open);
  }
  return most;
}

export async function startLiveProcess(
  context: ProcessContext,
  { key, params }: LiveRowRequest<AdmissionParams>,
): Promise<LabProcess> {
  const settings = settingsOf({ policy: String(key.policy), maxWaitMs: Number(key.max_wait_ms) });
  const world = await context.openWorld({ settings, safety: localSafety(ALLOW_ALL) });
  const client = { client: CLIENTS[key.client as ClientName], budgetMs: Number(key.budget_ms) };
  const observed = { callers: [] as readonly Caller[], other: [] as Response[], attemptsMs: [] as number[] };
  const runs: RunObservation[] = [];
  const instrumented = observeAttempts(recordRuns(world, context, runs), settings, () =>
    observed.attemptsMs.push(context.nowMs()),
  );
  const engine = openEngine(instrumented, { current: settings });
  const transport = transportOf(context, engine);
  let control: Control | null = null;
  return {
    handle: async (message) => {
      const command = message as Command;
      switch (command.do) {
        case "prepare":
          return applyWorkflows(engine, params.holdMs);
        case "start":
          control = await startControl(engine);
          for (let count = 0; count < WARM_UP_REQUESTS; count += 1) await requestOther(transport, count);
          return;
        case "now":
          return context.nowMs();
        case "run_other": {
          const responses: Response[] = [];
          await runOtherOrg(transport, command, responses);
          return responses.map(({ tookMs }) => tookMs);
        }
        case "run_burst": {
          await pauseUntil(context, command.atMs);
          const other = runOtherOrg(transport, command, observed.other);
          const { callers, done } = startCallers(transport, { ...client, callers: command.callers });
          observed.callers = callers;
          await Promise.all([done, other]);
          return;
        }
        case "report":
          return { ...observed, runs } satisfies ProcessReport;
        default:
          return command satisfies never;
      }
    },
    close: async () => control?.stop(),
  };
}

function transportOf(context: ProcessContext, engine: Engine): Transport {
  return {
    nowMs: () => context.nowMs(),
    pause: (delayMs) => new Promise((resolve) => engine.world.clock.after(delayMs, resolve)),
    hop: async () => undefined,
    random: new SeededRandom(Math.floor(context.nowMs()), `admission ${context.index}`),
    server: () => engine,
  };
}

function recordRuns(world: World, context: ProcessContext, runs: RunObservation[]): World {
  return withStore((store) => ({
    commit: async (change) => {
      const requestedMs = context.nowMs();
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      for (const { table, id, value } of change.puts) {
        const run = table === RUNS.name ? (value as Run | null) : null;
        if (run?.org !== ORG) continue;
        if (isRunFinal(run.state)) runs.push({ runId: id, kind: "closed", atMs: requestedMs });
        else runs.push({ runId: id, kind: "opened", atMs: context.nowMs() });
      }
      return committed;
    },
  }))(world);
}

const WARM_UP_REQUESTS = 20;
const OTHER_ALONE_MS = 1_000;
