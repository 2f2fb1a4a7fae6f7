/**
 * The processes of `cordum lab safety-outage --live`. The last of them is the safety kernel, as `cordum` serves it to other
 * processes; the others are shipped control planes that ask it.
 */

import { openGrpcSafety } from "../../adapters/grpc/safety.ts";
import { type SafetyServer, startSafetyServer } from "../../adapters/grpc/safety-server.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { builtInKernel, LiveKernel } from "../../core/policy/kernel.ts";
import { type Control, startControl } from "../../engine/control.ts";
import { openEngine } from "../../engine/engine.ts";
import { admitJob } from "../../engine/intake/index.ts";
import type { Safety } from "../../ports/safety.ts";
import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import { around, withStore } from "../../sim/mutants/decorators.ts";
import type { LabProcess, LiveRowRequest, ProcessContext } from "../live.ts";
import type { OutageParams } from "./experiment.ts";
import { settingsOf } from "./rows.ts";
import { SUBMISSION, TOPIC } from "./world.ts";

export type KernelQuestion =
  /** Answered with its address. */
  | { readonly do: "serve" }
  /** Answered with when it was gone. */
  | { readonly do: "leave" }
  /** Answered with when it was back, which is not before. */
  | { readonly do: "return"; readonly atMs: number };

export type ReplicaQuestion =
  | { readonly do: "open"; readonly address: string }
  /** Answered when all are taken in, with when the first was sent. */
  | { readonly do: "submit"; readonly jobs: number; readonly atMs: number }
  | { readonly do: "tell" };

/** A job as it was committed. It is told at once when it has come or is out, for whoever waits for that. */
export interface JobSighting {
  readonly atMs: number;
  readonly id: string;
  readonly state: JobState;
}

export interface AskSighting {
  readonly atMs: number;
  /** Without an answer yet: null. */
  readonly tookMs: number | null;
  readonly isDecided: boolean;
}

export interface ReplicaSeen {
  readonly jobs: readonly JobSighting[];
  readonly asks: readonly AskSighting[];
  /** Tries that found no kernel, or no way to it. */
  readonly triesMs: readonly number[];
}

export async function joinSafetyOutage(
  place: ProcessContext,
  order: LiveRowRequest<OutageParams>,
): Promise<LabProcess> {
  return place.index === order.params.replicas ? kernelMember(place, order.params) : replicaMember(place, order);
}

/** What a check costs it, besides what it costs any kernel; meanwhile it does nothing else. */
class SlowLiveKernel extends LiveKernel {
  readonly #serviceMs: number;

  constructor(serviceMs: number) {
    super(builtInKernel().inForce);
    this.#serviceMs = serviceMs;
  }

  override decide(request: PolicyRequest) {
    // The whole process sleeps: it is one server that does one thing at a time, and takes nobody's core.
    if (this.#serviceMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, this.#serviceMs);
    return super.decide(request);
  }
}

function kernelMember(place: ProcessContext, { kernelMs }: OutageParams): LabProcess {
  const kernel = new SlowLiveKernel(kernelMs);
  let server: SafetyServer | null = null;
  let port = 0;
  const serve = async (): Promise<string> => {
    server = await startSafetyServer({ kernel, log: QUIET, host: HOST, port, stopMsMax: STOP_MS_MAX });
    port = Number(server.address.split(":").at(-1));
    return server.address;
  };
  const leave = async (): Promise<void> => {
    await server?.stop();
    server = null;
  };
  return {
    handle: async (question) => {
      const asked = question as KernelQuestion;
      switch (asked.do) {
        case "serve":
          return serve();
        case "leave":
          await leave();
          return place.nowMs();
        case "return": {
          await place.pause(Math.max(0, asked.atMs - place.nowMs()));
          const backMs = place.nowMs();
          await serve();
          return backMs;
        }
        default:
          return asked satisfies never;
      }
    },
    close: leave,
  };
}

function replicaMember(place: ProcessContext, { key }: LiveRowRequest<OutageParams>): LabProcess {
  const settings = settingsOf({ policy: String(key.policy), hasBreaker: key.breaker === "on" });
  const watch = new Watch(place);
  let control: Control | null = null;
  let submit: () => Promise<unknown> = () => Promise.reject(new Error("it is not open yet"));
  let closeLine = (): void => undefined;
  const open = async (address: string): Promise<void> => {
    const line = openGrpcSafety({ address, timeoutMs: () => settings.safety.timeoutMs });
    closeLine = line.close;
    const world = await place.openWorld({ settings, safety: watch.asking(line.safety) });
    const engine = openEngine(watch.around(world), { current: settings });
    // Somebody takes whatever is sent, and that is the end of it here.
    if (place.index === 0) await world.bus.serve(workSubject(TOPIC), () => undefined);
    control = await startControl(engine);
    submit = () => admitJob(engine, SUBMISSION);
  };
  return {
    handle: async (question) => {
      const asked = question as ReplicaQuestion;
      switch (asked.do) {
        case "open":
          return open(asked.address);
        case "submit": {
          await place.pause(Math.max(0, asked.atMs - place.nowMs()));
          const sentMs = place.nowMs();
          await Promise.all(Array.from({ length: asked.jobs }, submit));
          return sentMs;
        }
        case "tell":
          return watch.seen();
        default:
          return asked satisfies never;
      }
    },
    close: async () => {
      await control?.stop();
      closeLine();
    },
  };
}

/** What one control plane saw. */
class Watch {
  readonly #place: ProcessContext;
  readonly #known = new Set<string>();
  readonly #jobs: JobSighting[] = [];
  readonly #asks: { readonly atMs: number; tookMs: number | null; isDecided: boolean }[] = [];
  readonly #triesMs: number[] = [];

  constructor(place: ProcessContext) {
    this.#place = place;
  }

  seen(): ReplicaSeen {
    return { jobs: this.#jobs, asks: this.#asks, triesMs: this.#triesMs };
  }

  /** When it is asked is noted here: a kernel that is away, or busy, cannot say. */
  asking(safety: Safety): Safety {
    return {
      local: null,
      check: async (request) => {
        const ask = { atMs: this.#place.nowMs(), tookMs: null as number | null, isDecided: false };
        this.#asks.push(ask);
        const checked = await safety.check(request);
        ask.tookMs = this.#place.nowMs() - ask.atMs;
        ask.isDecided = checked.kind === "decided";
        return checked;
      },
    };
  }

  around(world: World): World {
    const { metrics } = world;
    const add: typeof metrics.add = (name, labels, amount) => {
      if (name === "cordum_scheduler_safety_unavailable_total") this.#triesMs.push(this.#place.nowMs());
      metrics.add(name, labels, amount);
    };
    const noting = withStore((store) => ({
      commit: async (change) => {
        const committed = await store.commit(change);
        if (committed.kind === "committed") {
          for (const { table, value } of change.puts) if (table === JOBS.name && value) this.#note(value as Job);
        }
        return committed;
      },
    }));
    return noting({ ...world, metrics: around(metrics, { add }) });
  }

  #note({ id, state }: Job): void {
    const sighting = { atMs: this.#place.nowMs(), id, state };
    const isNews = state !== "PENDING" || !this.#known.has(id);
    this.#known.add(id);
    this.#jobs.push(sighting);
    if (isNews) this.#place.emit(sighting);
  }
}

const HOST = "127.0.0.1";
/** Who still waits for an answer when it goes does not get one. */
const STOP_MS_MAX = 50;
const QUIET = { write: () => undefined };
