/** Follows the pages of a simulation over recorded decisions and adds them up. */
import type { ExhaustedBudget, Operations, RecordedSimulation } from "./schema.ts";

type SimulateBody = NonNullable<Operations["POST /policy/simulate"]["body"]>;
type RecordedRange = NonNullable<SimulateBody["recorded"]>;

export interface RecordedTotals extends Omit<RecordedSimulation, "next_cursor"> {
  /** Records that are older than those read, because `max` was reached. */
  readonly truncated: boolean;
}

export interface RecordedOptions {
  readonly policy?: string | undefined;
  readonly range: Pick<RecordedRange, "last_ms" | "since" | "until">;
  /** Records to check at most. */
  readonly max: number;
  readonly onPage?: (totals: RecordedTotals) => void;
}

export async function simulateRecorded(
  send: (body: SimulateBody) => Promise<Operations["POST /policy/simulate"]["response"]>,
  { policy, range, max, onPage }: RecordedOptions,
): Promise<RecordedTotals> {
  let totals: RecordedTotals | null = null;
  let recorded: RecordedRange = { ...range };
  let pageMax = PAGE_MAX;
  for (;;) {
    const left = max - (totals === null ? 0 : readBy(totals));
    const body = { recorded: { ...recorded, limit: Math.min(left, pageMax) } };
    const page = await send(policy === undefined ? body : { ...body, policy });
    if (!("checked" in page))
      throw new Error("the control plane is older than this client: it has no recorded simulation");
    const isLimited = (page.limits ?? null) !== null && policy !== undefined;
    if (isLimited && page.next_cursor !== null && pageMax < LIMITED_PAGE_MAX && max > PAGE_MAX) {
      // Limits are counted within one page: begins again, with one page.
      totals = null;
      recorded = { ...range };
      pageMax = LIMITED_PAGE_MAX;
      continue;
    }
    totals = sum(totals, page);
    onPage?.(totals);
    if (page.next_cursor === null) return totals;
    if (readBy(totals) >= max) return { ...totals, truncated: true };
    recorded = { since: page.since, until: page.until, cursor: page.next_cursor };
  }
}

const readBy = ({ checked, undecided, bypassed }: RecordedTotals): number => checked + undecided + bypassed;

function sum(before: RecordedTotals | null, { next_cursor: _, ...page }: RecordedSimulation): RecordedTotals {
  if (before === null) return { ...page, truncated: false };
  const groups = new Map(before.groups.map((group) => [keyOf(group), group]));
  for (const group of page.groups) {
    const known = groups.get(keyOf(group));
    const examples = [...(known?.examples ?? []), ...group.examples].slice(0, EXAMPLES_MAX);
    groups.set(keyOf(group), { ...group, count: group.count + (known?.count ?? 0), examples });
  }
  const sorted = [...groups.values()].sort((a, b) => b.count - a.count);
  const listed = sorted.slice(0, GROUPS_MAX);
  const unlisted = sorted.slice(GROUPS_MAX).reduce((total, { count }) => total + count, 0);
  return {
    snapshot: page.snapshot,
    since: before.since,
    until: before.until,
    checked: before.checked + page.checked,
    undecided: before.undecided + page.undecided,
    bypassed: before.bypassed + page.bypassed,
    flipped: before.flipped + page.flipped,
    groups: listed,
    ungrouped: before.ungrouped + page.ungrouped + unlisted,
    limits: sumOfLimits(before.limits ?? null, page.limits ?? null),
    truncated: false,
  };
}

/** Each page counts anew; the time is that of the newest. */
function sumOfLimits(before: Limits, page: Limits): Limits {
  if (before === null || page === null) return before ?? page;
  const groups = new Map(before.exhausted.map((group) => [budgetOf(group), group]));
  for (const group of page.exhausted) {
    const known = groups.get(budgetOf(group));
    const examples = [...(known?.examples ?? []), ...group.examples].slice(0, EXAMPLES_MAX);
    groups.set(budgetOf(group), { ...group, count: group.count + (known?.count ?? 0), examples });
  }
  return { ...before, exhausted: [...groups.values()].sort((a, b) => b.count - a.count) };
}

type Limits = RecordedSimulation["limits"];

const budgetOf = ({ rule_id, per }: ExhaustedBudget): string => `${per} ${rule_id}`;

const keyOf = ({ from, to, topic }: RecordedSimulation["groups"][number]): string =>
  JSON.stringify([from.decision, from.rule_id, to.decision, to.rule_id, topic]);

const PAGE_MAX = 10_000;
const LIMITED_PAGE_MAX = 100_000;
const GROUPS_MAX = 200;
const EXAMPLES_MAX = 5;
