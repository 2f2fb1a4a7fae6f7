import { recheckJob } from "../../core/jobs/bypass.ts";
import {
  covers,
  FAIL_OPEN_MAX,
  FAIL_OPEN_MS,
  FAIL_OPENS,
  type FailOpenGrant,
  isFailOpenOnly,
  isInForce,
  OPEN_GRANTS_LIST,
} from "../../core/model/fail-open.ts";
import type { Job } from "../../core/model/job.ts";
import { decisionContext } from "../context.ts";
import type { DispatchBlock } from "../dispatch/index.ts";
import type { Needs } from "../engine.ts";
import { CachedRead } from "./cached-read.ts";

/**
 * This process's cache of open fail-open grants.
 *
 * 1. From the first read of a grant a monotonic timer counts down its remaining time, whatever the wall clock does. A grant
 *    that has ended once never becomes valid again in this process.
 * 2. The cache is refreshed after a change broadcast and every `REFRESH_MS`. A grant that was closed meanwhile is refused
 *    by the store: every commit that relies on a grant carries its guard.
 */
export class FailOpenGrants {
  readonly #engine: Needs<"world" | "settings" | "tasks">;
  readonly #read = new CachedRead();
  readonly #ended = new Set<string>();
  readonly #timed = new Set<string>();
  #open: readonly FailOpenGrant[] = [];

  constructor(engine: Needs<"world" | "settings" | "tasks">) {
    this.#engine = engine;
  }

  /** The grant that covers a job of the org now; of several, the one that ends last. */
  async find(org: string): Promise<FailOpenGrant | null> {
    if (!this.#read.wasRead) await this.load();
    else if (this.#read.isOlderThan(REFRESH_MS, this.#nowMs)) this.#loadInBackground();
    const inForce = this.#open.filter((grant) => covers(grant, org) && this.isInForce(grant));
    return inForce.reduce<FailOpenGrant | null>(
      (last, grant) => (last && last.endsMs >= grant.endsMs ? last : grant),
      null,
    );
  }

  isInForce(grant: FailOpenGrant): boolean {
    const nowMs = this.#nowMs;
    if (this.#ended.has(grant.id)) return false;
    if (isInForce(grant, nowMs)) return true;
    // A grant that starts in the future may still come into force.
    if (nowMs >= grant.endsMs) this.#ended.add(grant.id);
    return false;
  }

  /** Why a job whose only permission is a grant cannot be dispatched; null if it can. The store's guard has the last word. */
  block(job: Job): DispatchBlock | null {
    if (!isFailOpenOnly(job)) return null;
    const grantId = job.bypass?.leaseId ?? "";
    const grant = this.#open.find(({ id }) => id === grantId);
    if (grant && this.isInForce(grant)) return null;
    if (grant || this.#ended.has(grantId) || !this.#read.isOlderThan(REFRESH_MS, this.#nowMs)) {
      return { kind: "waits", job: recheckJob(job, decisionContext(this.#engine, job)) };
    }
    // Opened by another process a moment ago, or this process has just started.
    this.#loadInBackground();
    return { kind: "stays" };
  }

  /** The store refused a commit that relied on the job's grant. */
  recordEnded(job: Job): void {
    if (job.bypass) this.#ended.add(job.bypass.leaseId);
  }

  end(grant: FailOpenGrant): void {
    this.#ended.add(grant.id);
  }

  refresh(): void {
    this.#read.forget();
    this.#loadInBackground();
  }

  get open(): readonly FailOpenGrant[] {
    return this.#open;
  }

  load(): Promise<void> {
    const { clock, store } = this.#engine.world;
    return this.#read.run(clock.now(), async () => {
      const page = await store.list(FAIL_OPENS, { index: OPEN_GRANTS_LIST, limit: FAIL_OPEN_MAX.listed });
      this.#open = page.items.map(({ value }) => value);
      for (const grant of this.#open) this.#countDown(grant);
    });
  }

  #countDown({ id, openedMs, endsMs }: FailOpenGrant): void {
    if (this.#timed.has(id)) return;
    this.#timed.add(id);
    const { clock } = this.#engine.world;
    const remainingMs = Math.min(endsMs - clock.now(), endsMs - openedMs, FAIL_OPEN_MS.max);
    this.#engine.tasks.after(clock, Math.max(0, remainingMs), () => this.#ended.add(id), true);
  }

  #loadInBackground(): void {
    if (this.#read.isUnderWay) return;
    const loaded = this.load().catch((error: unknown) => {
      this.#engine.world.log.write("warn", "fail_open_read_failed", { error: String(error) });
    });
    this.#engine.tasks.track(loaded);
  }

  get #nowMs(): number {
    return this.#engine.world.clock.now();
  }
}

const REFRESH_MS = 1_000;
