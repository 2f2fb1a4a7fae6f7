import { JOBS, type Job, type JobState } from "../model/job.ts";
import type { Put } from "../ports/store.ts";
import type { Packet } from "../wire/packet.ts";
import { EVENTS } from "../wire/subjects.ts";
import type { World } from "../world.ts";

/**
 * What happens to jobs, for whoever watches: a live view, a worker that waits over HTTP.
 *
 * 1. Best effort: a notice may be lost, never invented. Who must not miss anything reads the store.
 * 2. Listeners of this process hear of a change at once. The others hear of it over the bus, in one packet a tick with
 *    all the changes of that tick; what does not fit is left out, and counted.
 * 3. A process that nobody started this in tells nobody; one in which nobody listens does not listen to the bus either.
 * 4. A listener that throws disturbs neither the others nor the work.
 */
export interface Notice {
  readonly org: string;
  readonly jobId: string;
  readonly topic: string;
  readonly state: JobState;
  readonly atMs: number;
}

export type NoticeListener = (notice: Notice) => void;

export class Notices {
  readonly #world: World;
  readonly #listeners = new Set<NoticeListener>();
  #gathered: Notice[] = [];
  #leftOut = 0;
  #isTelling = false;
  #isGathering = false;
  #hearing: Promise<() => Promise<void>> | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  /** From now on other processes are told. */
  start(): void {
    this.#isTelling = true;
  }

  async stop(): Promise<void> {
    this.#isTelling = false;
    this.#listeners.clear();
    const hearing = this.#hearing;
    this.#hearing = null;
    if (hearing) await (await hearing)();
  }

  /** Until the answer is called. */
  listen(listener: NoticeListener): () => void {
    this.#listeners.add(listener);
    this.#hearing ??= this.#world.bus
      .listen(EVENTS, (packet) => this.#hear(packet))
      .catch((error: unknown) => {
        this.#world.log.write("warn", "notices_of_others_not_heard", { error: String(error) });
        this.#hearing = null;
        return async () => {};
      });
    return () => void this.#listeners.delete(listener);
  }

  /** Called with what was committed. */
  note(puts: readonly Put[]): void {
    if (!this.#isTelling && this.#listeners.size === 0) return;
    for (const { table, value } of puts) if (table === JOBS.name && value !== null) this.#noteJob(value as Job);
  }

  #noteJob({ org, id: jobId, topic, state, updatedMs: atMs }: Job): void {
    const notice: Notice = { org, jobId, topic, state, atMs };
    this.#give(notice);
    if (!this.#isTelling) return;
    if (this.#gathered.length < NOTICES_MAX) this.#gathered.push(notice);
    else this.#leftOut++;
    if (this.#isGathering) return;
    this.#isGathering = true;
    // Commits that travelled together are answered together: after them all, and before anything else happens.
    void Promise.resolve()
      .then(() => {})
      .then(() => this.#tell());
  }

  #tell(): void {
    const { bus, clock, metrics, name } = this.#world;
    const [notices, leftOut] = [this.#gathered, this.#leftOut];
    this.#gathered = [];
    this.#leftOut = 0;
    this.#isGathering = false;
    if (leftOut > 0) metrics.add("cordum_notices_left_out_total", {}, leftOut);
    const details = { jobs: JSON.stringify(notices.map(packed)), left_out: String(leftOut) };
    const alert = { kind: "alert", level: "INFO", message: "jobs changed", component: name, code: CODE } as const;
    try {
      bus.tell(EVENTS, { traceId: "", senderId: name, createdAtMs: clock.now(), body: { ...alert, details } });
    } catch (error) {
      this.#world.log.write("debug", "notices_not_told", { error: String(error) });
    }
  }

  #hear({ senderId, body }: Packet): void {
    if (senderId === this.#world.name || body.kind !== "alert" || body.code !== CODE) return;
    for (const notice of noticesIn(body.details?.jobs ?? "")) this.#give(notice);
  }

  #give(notice: Notice): void {
    for (const listener of this.#listeners) {
      try {
        listener(notice);
      } catch (error) {
        this.#world.log.write("warn", "notice_listener_failed", { error: String(error) });
      }
    }
  }
}

/** In a packet notices are rows: names would be most of it. */
function packed({ org, jobId, topic, state, atMs }: Notice): readonly unknown[] {
  return [org, jobId, topic, state, atMs];
}

function noticesIn(text: string): readonly Notice[] {
  try {
    const rows: unknown = JSON.parse(text);
    return Array.isArray(rows) ? rows.slice(0, NOTICES_MAX).flatMap(unpacked) : [];
  } catch {
    return []; // Somebody else's packet on this subject.
  }
}

function unpacked(row: unknown): Notice[] {
  if (!Array.isArray(row)) return [];
  const [org, jobId, topic, state, atMs] = row as unknown[];
  const isRight = [org, jobId, topic, state].every((part) => typeof part === "string") && typeof atMs === "number";
  return isRight ? [{ org, jobId, topic, state, atMs } as Notice] : [];
}

const CODE = "jobs.changed";
/** With the longest names that there are this is less than half of what a message may have. */
const NOTICES_MAX = 500;
