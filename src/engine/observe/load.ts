import { APPROVALS_GROUP } from "../../core/model/job.ts";
import { OPEN_JOBS_GROUP } from "../../core/model/quota.ts";
import { RUNS_GROUP } from "../../core/model/run.ts";
import type { DiskUsage } from "../../ports/disk.ts";
import type { Needs } from "../engine.ts";

/** The load of the control plane and what it depends on; the common source of gauges, status and `doctor`. */
export interface Load {
  /** Null if the store is down. */
  readonly records: RecordCounts | null;
  /** Why the store does not answer; null if it does. */
  readonly storeDown: string | null;
  /** Null if the data is on other servers, or if the disk cannot be read. */
  readonly disk: DiskUsage | null;
  /** Why a remote safety kernel does not answer; null if it does, and for a kernel in this process. */
  readonly kernelDown: string | null;
}

/** Of all tenants. */
export interface RecordCounts {
  readonly approvals: number;
  readonly runs: number;
  /** Open jobs of the tenants with the most, most first. */
  readonly openJobs: readonly (readonly [org: string, count: number])[];
  readonly openJobsTotal: number;
}

export async function readLoad(engine: Needs<"world">): Promise<Load> {
  const [counted, disk, kernelDown] = await Promise.all([readRecords(engine), readDisk(engine), probeKernel(engine)]);
  return typeof counted === "string"
    ? { records: null, storeDown: counted, disk, kernelDown }
    : { records: counted, storeDown: null, disk, kernelDown };
}

async function readRecords({ world: { store, clock } }: Needs<"world">): Promise<RecordCounts | string> {
  let cancel = () => {};
  const timeout = new Promise<string>((resolve) => {
    cancel = clock.after(STORE_MS_MAX, () => resolve(`no answer for ${STORE_MS_MAX} ms`));
  });
  const groups = [APPROVALS_GROUP, RUNS_GROUP, OPEN_JOBS_GROUP];
  const counted = Promise.all(groups.map((group) => store.counts(group, TENANTS_MAX))).then(
    ([approvals, runs, openJobs]) => ({
      approvals: sum(approvals),
      runs: sum(runs),
      openJobs: [...(openJobs ?? [])].sort(([, a], [, b]) => b - a).slice(0, TENANTS_SHOWN_MAX),
      openJobsTotal: sum(openJobs),
    }),
    (error: unknown) => String(error),
  );
  return Promise.race([counted, timeout]).finally(() => cancel());
}

async function readDisk({ world: { disk, log } }: Needs<"world">): Promise<DiskUsage | null> {
  if (disk === undefined) return null;
  try {
    return await disk.usage();
  } catch (error) {
    log.write("warn", "disk_unreadable", { error: String(error) });
    return null;
  }
}

/** Asked directly: the circuit breaker learns of an outage from failed checks only. */
async function probeKernel({ world: { safety } }: Needs<"world">): Promise<string | null> {
  try {
    return (await safety.probe?.()) ?? null;
  } catch (error) {
    return String(error);
  }
}

const sum = (counts: ReadonlyMap<string, number> | undefined): number =>
  [...(counts?.values() ?? [])].reduce((all, one) => all + one, 0);

const STORE_MS_MAX = 2_000;
const TENANTS_MAX = 10_000;
const TENANTS_SHOWN_MAX = 20;
