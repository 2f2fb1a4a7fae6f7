import { TaskQueue } from "../../adapters/node/task-queue.ts";
import { TaskThread, type ThreadProgram } from "../../adapters/node/task-thread.ts";
import type { Lab, LabOutcome, LabRequest } from "../../gateway/lab.ts";
import { EXPERIMENT_VIEWS } from "../../lab/requests.ts";

export interface ThreadLab extends Lab {
  close(): Promise<void>;
}

/** The lab in a thread of its own (decision 38). The same request gives the same answer, so the last answers are kept. */
export function threadLab(limits: LabLimits = LAB_LIMITS): ThreadLab {
  const queue = new TaskQueue(limits);
  const answers = new Answers();
  let thread: TaskThread | null = null;
  let isClosed = false;

  async function run(request: LabRequest, signal: AbortSignal): Promise<LabOutcome> {
    if (isClosed) throw new Error("the lab is closed");
    if (thread === null || thread.hasEnded) thread = new TaskThread(PROGRAM);
    const outcome = await thread.run<LabOutcome | Failed>(request, { msMax: limits.taskMs, signal });
    if (outcome.kind === "failed") throw new Error(`the simulation failed: ${outcome.error}`);
    return outcome;
  }

  return {
    catalogue: async () => {
      // Loads the simulator.
      const { SIMULATOR_VIEW } = await import("../../lab/simulator.ts");
      return { experiments: EXPERIMENT_VIEWS, simulator: SIMULATOR_VIEW };
    },
    async run(org, request, signal) {
      const known = answers.find(request);
      if (known !== null) return known;
      const turn = await queue.enter(org);
      if (turn.kind === "busy") return turn;
      try {
        if (signal.aborted) return CANCELLED;
        const outcome = answers.find(request) ?? (await run(request, signal));
        answers.keep(request, outcome);
        return outcome;
      } finally {
        turn.leave();
      }
    },
    async close() {
      isClosed = true;
      await thread?.end();
    },
  };
}

interface Failed {
  readonly kind: "failed";
  readonly error: string;
}

/** The latest answers. Those from records of contention are not kept: the record grows. */
class Answers {
  readonly #kept = new Map<string, LabOutcome>();

  find(request: LabRequest): LabOutcome | null {
    return this.#kept.get(JSON.stringify(request)) ?? null;
  }

  keep(request: LabRequest, outcome: LabOutcome): void {
    if (outcome.kind !== "answered" || (request.kind === "experiment" && request.records.length > 0)) return;
    this.#kept.set(JSON.stringify(request), outcome);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= ANSWERS_MAX) return;
      this.#kept.delete(oldest);
    }
  }
}

export interface LabLimits {
  readonly taskMs: number;
  readonly waiting: number;
  readonly waitingPerOrg: number;
}

const LAB_LIMITS: LabLimits = { taskMs: 60_000, waiting: 6, waitingPerOrg: 2 };
const CANCELLED: LabOutcome = { kind: "over", why: "the request was cancelled" };
const ANSWERS_MAX = 8;
const PROGRAM: ThreadProgram = { what: "the simulation", beside: import.meta.url, name: "lab-thread", heapMb: 512 };
