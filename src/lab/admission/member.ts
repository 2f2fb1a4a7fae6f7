/**
 * One process of `cordum lab admission --live`: the shipped control plane on a real world, and its share of the callers.
 *
 * A caller is in the process of the server that it asks, and comes back to the same: what is measured is the server's part
 * of a request, from the call until the answer of the gateway is made.
 */

import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { type Control, startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { World } from "../../ports/world.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
import { withStore } from "../../sim/mutants/decorators.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { LabProcess, LiveRowRequest, ProcessContext } from "../live.ts";
import { ALLOWS } from "../lock-busy/stage.ts";
import { type Answered, askBeside, type Caller, callAll, callBeside, ORG, type Street } from "./clients.ts";
import type { AdmissionParams } from "./experiment.ts";
import { CLIENTS, type ClientName, settingsOf } from "./rows.ts";
import { applyWorkflows, noted } from "./stage.ts";

/** A run of the busy org is open for certain from when its start was answered until somebody asked for its end. */
export interface RunSighting {
  readonly runId: string;
  readonly kind: "open" | "over";
  readonly atMs: number;
}

/** What one process saw. */
export interface Seen {
  readonly callers: readonly Caller[];
  readonly beside: readonly Answered[];
  readonly asksMs: readonly number[];
  readonly runs: readonly RunSighting[];
}

/** In this order; one process applies the workflows for all. */
export type AdmissionQuestion =
  | { readonly do: "prepare" }
  | { readonly do: "start" }
  | { readonly do: "now" }
  /** The other org, with nobody beside it. Answered with how long its requests took. */
  | { readonly do: "alone"; readonly perS: number; readonly forMs: number }
  /** Answered when nobody goes on. */
  | {
      readonly do: "call";
      readonly atMs: number;
      readonly callers: number;
      readonly perS: number;
      readonly forMs: number;
    }
  | { readonly do: "tell" };

export async function joinAdmission(
  place: ProcessContext,
  { key, params }: LiveRowRequest<AdmissionParams>,
): Promise<LabProcess> {
  const settings = settingsOf({ policy: String(key.policy), maxWaitMs: Number(key.max_wait_ms) });
  const world = await place.openWorld({ settings, safety: localSafety(ALLOWS) });
  const client = { client: CLIENTS[key.client as ClientName], budgetMs: Number(key.budget_ms) };
  const seen = { callers: [] as readonly Caller[], beside: [] as Answered[], asksMs: [] as number[] };
  const runs: RunSighting[] = [];
  const isPolled = settings.admission.strategy === "polled";
  const looked = noted(sighted(world, place, runs), isPolled, () => seen.asksMs.push(place.nowMs()));
  const engine = openEngine(looked, { current: settings });
  const street = streetOf(place, engine);
  let control: Control | null = null;
  return {
    handle: async (question) => {
      const asked = question as AdmissionQuestion;
      switch (asked.do) {
        case "prepare":
          return applyWorkflows(engine, params.holdMs);
        case "start":
          control = await startControl(engine);
          // What is compiled and connected on first use is so before anything is measured.
          for (let count = 0; count < WARM_UP; count += 1) await askBeside(street, count);
          return;
        case "now":
          return place.nowMs();
        case "alone": {
          const answers: Answered[] = [];
          await callBeside(street, { besidePerS: asked.perS, besideForMs: asked.forMs }, answers);
          return answers.map(({ tookMs }) => tookMs);
        }
        case "call": {
          await place.pause(Math.max(0, asked.atMs - place.nowMs()));
          const order = { ...client, callers: asked.callers, besidePerS: asked.perS, besideForMs: asked.forMs };
          const beside = callBeside(street, order, seen.beside);
          const { callers, done } = callAll(street, order);
          seen.callers = callers;
          await Promise.all([done, beside]);
          return;
        }
        case "tell":
          return { ...seen, runs } satisfies Seen;
        default:
          return asked satisfies never;
      }
    },
    close: async () => control?.stop(),
  };
}

const WARM_UP = 20;

function streetOf(place: ProcessContext, engine: Engine): Street {
  return {
    nowMs: () => place.nowMs(),
    pause: (delayMs) => new Promise((resolve) => engine.world.clock.after(delayMs, resolve)),
    hop: async () => undefined,
    random: new SeededRandom(Math.floor(place.nowMs()), `admission ${place.index}`),
    server: () => engine,
  };
}

function sighted(world: World, place: ProcessContext, runs: RunSighting[]): World {
  return withStore((store) => ({
    commit: async (change) => {
      const askedMs = place.nowMs();
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      for (const { table, id, value } of change.puts) {
        const run = table === RUNS.name ? (value as Run | null) : null;
        if (run?.org !== ORG) continue;
        if (isRunFinal(run.state)) runs.push({ runId: id, kind: "over", atMs: askedMs });
        else runs.push({ runId: id, kind: "open", atMs: place.nowMs() });
      }
      return committed;
    },
  }))(world);
}
