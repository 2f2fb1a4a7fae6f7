/**
 * One row of `cordum lab occ` with real processes. Clients in all processes start at one instant of the machine's clock and
 * update one record of a real store. The row fails when an accepted update is missing from the record.
 */
import { defaultSettings } from "../../config/config.ts";
import type { Table } from "../../core/model/table.ts";
import { type Change, NOWHERE, put, type Store, type Versioned } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
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
import { backoffOf } from "./backoff.ts";
import type { OccParams } from "./experiment.ts";
import { type Connection, hopOf, measure, update } from "./model.ts";

/** Times of the writes and of the completed clients. */
export interface ProcessReport {
  readonly callsMs: readonly number[];
  readonly waitsMs: readonly number[];
}

export type Command =
  /** Creates the record. */
  | { readonly do: "prepare" }
  | { readonly do: "now" }
  /** Returns when all clients are done. */
  | { readonly do: "update"; readonly clients: number; readonly atMs: number }
  | { readonly do: "report" }
  /** Returns the number of updates in the record. */
  | { readonly do: "count" };

export async function runLiveRow(
  group: ProcessGroup,
  { key, params }: LiveRowRequest<OccParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const clients = Number(key.clients);
  const request = (index: number, command: Command): Promise<unknown> => group.request(index, command);
  await request(0, { do: "prepare" });
  const atMs = Number(await request(0, { do: "now" })) + START_DELAY_MS;
  const updates = evenShares(clients, group.size).map((share, index) =>
    request(index, { do: "update", clients: share, atMs }),
  );
  const isFinished = await isDoneInTime(Promise.all(updates), timeUp);
  const reports = (await group.requestAll({ do: "report" } satisfies Command)) as readonly ProcessReport[];
  if (isFinished) checkCount(Number(await request(0, { do: "count" })), clients);
  const sinceStart = (timesMs: readonly number[]): number[] => ascending(timesMs.map((timeMs) => timeMs - atMs));
  const callsMs = sinceStart(reports.flatMap((report) => report.callsMs));
  const waitsMs = sinceStart(reports.flatMap((report) => report.waitsMs));
  if (callsMs.length === 0) return { figures: {}, isFinished };
  return { ...measure({ timeMs: waitsMs.at(-1) ?? 0, callsMs, waitsMs }, clients, params.binMs), isFinished };
}

function checkCount(updates: number, clients: number): void {
  if (updates !== clients) throw new Error(`${clients} updates were accepted, the record has ${updates}`);
}

export async function startLiveProcess(
  context: ProcessContext,
  { key, params }: LiveRowRequest<OccParams>,
): Promise<LabProcess> {
  const world = await context.openWorld({ settings: defaultSettings(), safety: localSafety(ALLOW_ALL) });
  const callsMs: number[] = [];
  const waitsMs: number[] = [];
  const random = new SeededRandom(Math.floor(context.nowMs()), `occ ${context.index}`);
  const { backoff } = backoffOf(String(key.policy), params);
  const hop = { hopMs: params.latencyMs, hopMsSd: params.latencyMsSd };
  const updateOnce = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const connection = new LiveConnection({
        context,
        world,
        hopMs: () => hopOf(random, hop),
        onCall: () => void callsMs.push(context.nowMs()),
        onDone: () => {
          waitsMs.push(context.nowMs());
          resolve();
        },
        onError: reject,
      });
      update(connection, backoff, () => random.next());
    });
  return {
    handle: async (message) => {
      const command = message as Command;
      switch (command.do) {
        case "prepare":
          return void (await world.store.commit(changeOf(world, null)));
        case "now":
          return context.nowMs();
        case "update":
          await pauseUntil(context, command.atMs);
          return void (await Promise.all(Array.from({ length: command.clients }, updateOnce)));
        case "report":
          return { callsMs, waitsMs } satisfies ProcessReport;
        case "count":
          return (await world.store.load(ROWS, ROW_ID))?.value.updates ?? 0;
        default:
          return command satisfies never;
      }
    },
    close: async () => undefined,
  };
}

interface ConnectionOptions {
  readonly context: ProcessContext;
  readonly world: World;
  hopMs(): number;
  onCall(): void;
  onDone(): void;
  onError(error: unknown): void;
}

/** Calls of a real store, with the network of the model around them. */
class LiveConnection implements Connection {
  readonly #options: ConnectionOptions;
  #loaded: Versioned<LabRow> | null = null;
  /** Timers have whole milliseconds and fire late. The next delay compensates for the error of the last. */
  #errorMs = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  hop(then: () => void): void {
    this.later(this.#options.hopMs(), then);
  }

  later(delayMs: number, then: () => void): void {
    const { context, world } = this.#options;
    if (delayMs <= 0) {
      then();
      return;
    }
    const fromMs = context.nowMs();
    world.clock.after(Math.max(0, Math.round(delayMs + this.#errorMs)), () => {
      const errorMs = this.#errorMs + delayMs - (context.nowMs() - fromMs);
      // A stall of the machine is not compensated.
      this.#errorMs = Math.max(-ERROR_MS_MAX, Math.min(ERROR_MS_MAX, errorMs));
      then();
    });
  }

  read(then: (version: number) => void): void {
    this.#call(
      (store) => store.load(ROWS, ROW_ID),
      (loaded) => {
        this.#loaded = loaded;
        then(loaded?.version ?? 0);
      },
    );
  }

  /** Writes with the version that was read; the store rejects a stale one. */
  write(_version: number, then: (isAccepted: boolean) => void): void {
    this.#options.onCall();
    this.#call(
      (store) => store.commit(changeOf(this.#options.world, this.#loaded)),
      ({ kind }) => then(kind === "committed"),
    );
  }

  done(): void {
    this.#options.onDone();
  }

  #call<T>(call: (store: Store) => Promise<T>, then: (value: T) => void): void {
    call(this.#options.world.store).then(then).catch(this.#options.onError);
  }
}

interface LabRow {
  readonly updates: number;
}

function changeOf(world: World, before: Versioned<LabRow> | null): Change {
  const after = { updates: before === null ? 0 : before.value.updates + 1 };
  const puts = [put(ROWS, ROW_ID, before, after)];
  return { org: "default", atMs: world.clock.now(), puts, guards: [], sends: [], watch: [] };
}

const ROWS: Table<LabRow> = { name: "lab_rows", placement: () => NOWHERE };
const ROW_ID = "row";
const ERROR_MS_MAX = 3;
