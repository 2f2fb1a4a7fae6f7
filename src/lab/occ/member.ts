/** One process of `cordum lab occ --live`: some of the clients, which update one record of a real store. */
import { defaultSettings } from "../../config/config.ts";
import type { Table } from "../../core/model/table.ts";
import { type Change, NOWHERE, put, type Store, type Versioned } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { LabProcess, LiveRowRequest, ProcessContext } from "../live.ts";
import { ALLOWS } from "../lock-busy/stage.ts";
import type { OccParams } from "./experiment.ts";
import { hopOf, type Seat, update } from "./model.ts";
import { backoffOf } from "./rows.ts";

/** When writes were sent and clients were done, in the time of the machine. */
export interface OccSeen {
  readonly callsMs: readonly number[];
  readonly waitsMs: readonly number[];
}

export type OccQuestion =
  /** Makes the record. */
  | { readonly do: "prepare" }
  | { readonly do: "now" }
  /** Answered when all have got their change in. */
  | { readonly do: "update"; readonly clients: number; readonly atMs: number }
  /** Answered with what was seen. */
  | { readonly do: "tell" }
  /** Answered with how many updates are in the record. */
  | { readonly do: "count" };

export async function joinOcc(place: ProcessContext, { key, params }: LiveRowRequest<OccParams>): Promise<LabProcess> {
  const world = await place.openWorld({ settings: defaultSettings(), safety: localSafety(ALLOWS) });
  const callsMs: number[] = [];
  const waitsMs: number[] = [];
  const random = new SeededRandom(Math.floor(place.nowMs()), `occ ${place.index}`);
  const { backoff } = backoffOf(String(key.policy), params);
  const ask = { hopMs: params.latencyMs, hopMsSd: params.latencyMsSd };
  const updated = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const done = (): void => {
        waitsMs.push(place.nowMs());
        resolve();
      };
      const call = (): void => void callsMs.push(place.nowMs());
      update(new LiveSeat({ place, world, hopMs: () => hopOf(random, ask), call, done, reject }), backoff, () =>
        random.next(),
      );
    });
  return {
    handle: async (question) => {
      const asked = question as OccQuestion;
      switch (asked.do) {
        case "prepare":
          return void (await world.store.commit(changeOf(world, null)));
        case "now":
          return place.nowMs();
        case "update":
          await place.pause(Math.max(0, asked.atMs - place.nowMs()));
          return void (await Promise.all(Array.from({ length: asked.clients }, updated)));
        case "tell":
          return { callsMs, waitsMs } satisfies OccSeen;
        case "count":
          return (await world.store.load(ROWS, ROW_ID))?.value.updates ?? 0;
        default:
          return asked satisfies never;
      }
    },
    close: async () => undefined,
  };
}

interface SeatOrder {
  readonly place: ProcessContext;
  readonly world: World;
  hopMs(): number;
  call(): void;
  done(): void;
  reject(error: unknown): void;
}

/** The network of the model round the calls of a real store. */
class LiveSeat implements Seat {
  readonly #order: SeatOrder;
  #found: Versioned<LabRow> | null = null;
  /** Timers go by whole milliseconds and come late: what one took too long, or too short, the next makes good. */
  #owedMs = 0;

  constructor(order: SeatOrder) {
    this.#order = order;
  }

  hop(then: () => void): void {
    this.later(this.#order.hopMs(), then);
  }

  later(delayMs: number, then: () => void): void {
    const { place, world } = this.#order;
    if (delayMs <= 0) {
      then();
      return;
    }
    const fromMs = place.nowMs();
    world.clock.after(Math.max(0, Math.round(delayMs + this.#owedMs)), () => {
      const owedMs = this.#owedMs + delayMs - (place.nowMs() - fromMs);
      // A machine that is held up is another matter: nobody is to hurry after it.
      this.#owedMs = Math.max(-OWED_MS_MAX, Math.min(OWED_MS_MAX, owedMs));
      then();
    });
  }

  read(then: (version: number) => void): void {
    this.#call(
      (store) => store.load(ROWS, ROW_ID),
      (found) => {
        this.#found = found;
        then(found?.version ?? 0);
      },
    );
  }

  /** With the version that was read: the store says whether somebody else was faster. */
  write(_version: number, then: (isAccepted: boolean) => void): void {
    this.#order.call();
    this.#call(
      (store) => store.commit(changeOf(this.#order.world, this.#found)),
      ({ kind }) => then(kind === "committed"),
    );
  }

  done(): void {
    this.#order.done();
  }

  #call<T>(ask: (store: Store) => Promise<T>, then: (value: T) => void): void {
    ask(this.#order.world.store).then(then).catch(this.#order.reject);
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
const OWED_MS_MAX = 3;
