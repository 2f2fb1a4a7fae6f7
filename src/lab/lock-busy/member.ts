/** One process of `cordum lab lock-busy --live`: the shipped control plane on a real world, with somebody looking on. */

import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Settings } from "../../core/settings.ts";
import { type Control, startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { Message } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Change, NOWHERE, type Put } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
import { withHandler, withStore } from "../../sim/mutants/decorators.ts";
import type { LabProcess, LiveRowRequest, ProcessContext } from "../live.ts";
import type { LockBusyParams } from "./experiment.ts";
import { measureNakLook } from "./naks.ts";
import { settingsOf } from "./rows.ts";
import { ALLOWS, type Contender, mixed, noteJob, serveWork, startFans } from "./stage.ts";
import { type Watcher, watched } from "./watched.ts";

/** What crossed a port, and when. */
export type Sighting = { readonly atMs: number } & (
  | { readonly kind: "delivered"; readonly jobId: string }
  | { readonly kind: "asked" }
  | { readonly kind: "answered"; readonly fence: number | null }
  /** As much of the change as somebody looks at. */
  | { readonly kind: "committed"; readonly change: Change }
);

/** What a process saw since it was told to begin, and how long its thread was busy meanwhile. */
export interface Told {
  readonly sightings: readonly Sighting[];
  readonly busyMs: number;
}

/** The runs that are measured, and some before them: a control plane that has just been started is slow. */
export interface Staged {
  readonly warmUp: Fans;
  readonly measured: Fans;
}

export interface Fans {
  readonly runIds: readonly string[];
  readonly contenders: readonly Contender[];
}

/** One process sets the stage and brings the results. */
type Question =
  | { readonly do: "naks" }
  | { readonly do: "stage" }
  | { readonly do: "start" }
  | { readonly do: "bring"; readonly messages: readonly Message[] }
  /** They are warm: from now on locks are held for their time, and what was seen before is forgotten. */
  | { readonly do: "begin" }
  | { readonly do: "tell" };

export async function joinLockBusy(
  place: ProcessContext,
  { key, params }: LiveRowRequest<LockBusyParams>,
): Promise<LabProcess> {
  const settings = settingsOf(String(key.policy), params.cap === "on");
  const world = await place.openWorld({ settings, safety: localSafety(ALLOWS) });
  const seen: Sighting[] = [];
  let control: Control | null = null;
  let isWarm = false;
  let busyBeforeMs = 0;
  const pause = async (delayMs: number): Promise<void> => {
    if (isWarm) await place.pause(delayMs);
  };
  const start = async (): Promise<void> => {
    const slow = watched(world, watcherOf(place, world.clock, seen), params.holdMs, {
      nowMs: () => place.nowMs(),
      pause,
    });
    control = await startControl(openEngine(deliveredTo(slow, place, seen), { current: settings }));
  };
  return {
    handle: async (question) => {
      const asked = question as Question;
      switch (asked.do) {
        case "naks":
          return measureNakLook(world.bus, () => place.nowMs());
        case "stage":
          return setLiveStage(world, settingsOf("default", true), params);
        case "start":
          return start();
        case "bring":
          return place.publish(asked.messages);
        case "begin":
          await place.pause(FORGET_MS);
          seen.length = 0;
          isWarm = true;
          busyBeforeMs = place.busyMs();
          return;
        case "tell":
          return { sightings: seen, busyMs: place.busyMs() - busyBeforeMs } satisfies Told;
        default:
          return asked satisfies never;
      }
    },
    close: async () => control?.stop(),
  };
}

/** As in the simulation: the shipped flow starts the runs, and a worker takes every job and keeps it. */
async function setLiveStage(world: World, settings: Settings, params: LockBusyParams): Promise<Staged> {
  const out = new Map<string, Contender>();
  const count = params.contenders + WARM_UP.contenders;
  let isSet: () => void = () => undefined;
  const areOut = new Promise<void>((resolve) => {
    isSet = resolve;
  });
  const noting = withStore((store) => ({
    commit: async (change) => {
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      for (const { table, value } of change.puts) if (table === JOBS.name && value) noteJob(out, value as Job);
      if (out.size === count) isSet();
      return committed;
    },
  }));
  const engine: Engine = openEngine(noting(world), { current: settings });
  const stopWork = await serveWork(engine);
  const control = await startControl(engine);
  const [before, runIds] = [await startFans(engine, WARM_UP), await startFans(engine, params)];
  await areOut;
  await control.stop();
  await stopWork();
  const all = [...out.values()];
  const warmUp = { runIds: before, contenders: mixed(all, before) };
  return { warmUp, measured: { runIds, contenders: mixed(all, runIds) } };
}

/** Runs that came by lately are let pass (`flow/pace.ts`): those that warmed it up must not count as others. */
const FORGET_MS = 500;
const NEWS_EVERY_MS = 100;
/** Enough for the compiler to have seen everything that comes again. */
const WARM_UP = { contenders: 120, hotRuns: 3 };

function watcherOf(place: ProcessContext, clock: Clock, seen: Sighting[]): Watcher {
  // Whoever is told of it works, too, and would take the core from the next in line: it is told later, of many at once.
  let news: Change[] = [];
  const tell = (): void => {
    place.emit(news);
    news = [];
  };
  return {
    asked: () => void seen.push({ atMs: place.nowMs(), kind: "asked" }),
    answered: (fence) => void seen.push({ atMs: place.nowMs(), kind: "answered", fence }),
    committed: (change) => {
      const slim = slimmed(change);
      if (slim === null) return;
      seen.push({ atMs: place.nowMs(), kind: "committed", change: slim });
      if (news.push(slim) === 1) clock.after(NEWS_EVERY_MS, tell);
    },
  };
}

function deliveredTo(world: World, place: ProcessContext, seen: Sighting[]): World {
  return withHandler((handle) => (delivery) => {
    const { content } = delivery;
    if (content.kind === "packet" && content.packet.body.kind === "job_result") {
      seen.push({ atMs: place.nowMs(), kind: "delivered", jobId: content.packet.body.jobId });
    }
    return handle(delivery);
  })(world);
}

/** Runs are large, and nobody looks at what is in them. */
function slimmed({ org, atMs, guards, puts }: Change): Change | null {
  const fences = guards.filter((guard) => guard.kind === "fence" && guard.table === RUNS.name);
  const kept = puts.flatMap((put): Put[] => {
    if (put.value === null) return [];
    const { id, state } = put.value as Job;
    if (put.table === JOBS.name) return [{ ...put, value: { id, state }, from: NOWHERE, to: NOWHERE }];
    const { source } = put.value as DeadLetter;
    return put.table === DEAD_LETTERS.name ? [{ ...put, value: { source }, from: NOWHERE, to: NOWHERE }] : [];
  });
  if (fences.length === 0 && kept.length === 0) return null;
  return { org, atMs, guards: fences, puts: kept, sends: [], watch: [] };
}
