import { type Arms, type Measures, unitsOf } from "../../core/model/arms.ts";
import { JOBS } from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Table } from "../../core/model/table.ts";
import type { Judgement, MeasuredUnit } from "../../core/rollout/judgement.ts";
import { NO_MEASURE } from "../../core/rollout/measure.ts";
import type { Rollout } from "../../core/rollout/rollout.ts";
import type { UnitCursors } from "../../core/rollout/stored-judgement.ts";
import { unitKindOf } from "../../core/rollout/subject.ts";
import { tenantUnits, windowOf } from "../../core/rollout/tenant-window.ts";
import type { Needs } from "../engine.ts";

/** Measured units whose horizon has ended, in the order of start and id. */
export interface UnitPage {
  readonly units: readonly MeasuredUnit[];
  readonly cursors: UnitCursors;
  /** More units can be read at once. */
  readonly hasMore: boolean;
  /** No unit ends its horizon before this time, unless `hasMore`. */
  readonly nextMs: number;
}

/** Continues after `judged`, the cursor of the judgement: a page has a unit beyond it, unless none is left. */
export async function readUnits(
  engine: Needs<"world">,
  rollout: Rollout,
  { cursors, judged }: { readonly cursors: UnitCursors; readonly judged: Judgement["cursor"] },
  deadUnits: ReadonlyMap<string, number>,
): Promise<UnitPage> {
  const nowMs = engine.world.clock.now();
  const { id, horizonMs } = rollout;
  const kind = unitKindOf(rollout.subject);
  const periodMs = kind === "org" ? horizonMs : 1;
  // A unit that is stored a moment after its start must not be skipped by the cursor.
  const storedMs = nowMs - COMMIT_MS_MAX;
  const range: Range = {
    index: unitsOf(id),
    periodMs,
    judgedMs: judged?.startMs ?? Number.NEGATIVE_INFINITY,
    cutMs: kind === "org" ? windowOf(storedMs, periodMs) - 1 : storedMs - horizonMs,
  };
  const [runs, jobs] = await Promise.all([
    readTable(engine, RUNS, range, cursors.runs),
    kind === "run_or_job" ? readTable(engine, JOBS, range, cursors.jobs) : null,
  ]);
  const boundMs = Math.min(runs.boundMs, jobs?.boundMs ?? Number.POSITIVE_INFINITY);
  const read = [...runs.records, ...(jobs?.records ?? [])].filter(({ createdMs }) => createdMs <= boundMs);
  const units = kind === "org" ? tenantUnits(rollout, read) : read.flatMap((record) => unitOf(rollout, record));
  return {
    units: units
      .map((unit) => ({ ...unit, deadByBudget: deadUnits.get(unit.id) ?? 0 }))
      .sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1)),
    cursors: { runs: cursorAt(runs, boundMs), jobs: jobs === null ? null : cursorAt(jobs, boundMs) },
    hasMore: boundMs !== Number.POSITIVE_INFINITY,
    nextMs: Math.min(runs.youngMs ?? nowMs, jobs?.youngMs ?? nowMs) + horizonMs,
  };
}

interface UnitRecord {
  readonly id: string;
  readonly org: string;
  readonly createdMs: number;
  readonly arms?: Arms;
  readonly measures?: Measures;
}

interface Range {
  readonly index: string;
  /** Records of one period are read together: they may belong to one unit, or have units of the other table between them. */
  readonly periodMs: number;
  /** The period of the last judged unit starts here. */
  readonly judgedMs: number;
  /** The last start whose horizon has ended. */
  readonly cutMs: number;
}

interface TableRead {
  readonly records: readonly UnitRecord[];
  /** Where each page began, and its first record. */
  readonly pages: readonly { readonly cursor: string | null; readonly firstMs: number }[];
  /** All units up to this time are read; infinite if all are. */
  readonly boundMs: number;
  /** The start of the first unit whose horizon has not ended. */
  readonly youngMs: number | null;
}

async function readTable<T extends UnitRecord>(
  { world }: Needs<"world">,
  table: Table<T>,
  { index, periodMs, judgedMs, cutMs }: Range,
  from: string | null,
): Promise<TableRead> {
  const records: UnitRecord[] = [];
  const pages: { cursor: string | null; firstMs: number }[] = [];
  for (let cursor = from; ; ) {
    const page = await world.store.list(table, { index, limit: PAGE, order: "oldest", cursor: cursor ?? undefined });
    const values = page.items.map(({ value }) => value);
    const old = values.filter(({ createdMs }) => createdMs <= cutMs);
    records.push(...old);
    pages.push({ cursor, firstMs: values[0]?.createdMs ?? Number.POSITIVE_INFINITY });
    const youngMs = values.find(({ createdMs }) => createdMs > cutMs)?.createdMs ?? null;
    if (youngMs !== null || page.cursor === null) {
      return { records, pages, boundMs: Number.POSITIVE_INFINITY, youngMs };
    }
    cursor = page.cursor;
    if (pages.length < PAGES_MAX) continue;
    // The last period that was read may continue in the next page.
    const boundMs = windowOf(records.at(-1)?.createdMs ?? 0, periodMs) - 1;
    const isBeyond = records.some(({ createdMs }) => createdMs <= boundMs && windowOf(createdMs, periodMs) > judgedMs);
    if (isBeyond) return { records, pages, boundMs, youngMs: null };
  }
}

/** Where the last page begins that has units up to the bound: those after it are read again. */
const cursorAt = ({ pages }: TableRead, boundMs: number): string | null =>
  (pages.findLast(({ firstMs }) => firstMs <= boundMs) ?? pages[0])?.cursor ?? null;

function unitOf({ id: rolloutId }: Rollout, { id, createdMs, arms, measures }: UnitRecord): readonly MeasuredUnit[] {
  const own = arms?.[rolloutId];
  if (own?.untilMs === undefined) return [];
  const measure = measures?.[rolloutId] ?? NO_MEASURE;
  return [{ id, startMs: createdMs, arm: own.arm, stage: own.stage, measure, deadByBudget: 0 }];
}

const PAGE = 200;
const PAGES_MAX = 10;
const COMMIT_MS_MAX = 2_000;
