import type { HandlerGate } from "./handler-gate.ts";
import type { OpenWork } from "./open-work.ts";
import type { TestPlaneLimits } from "./options.ts";
import { PlaneError } from "./plane-error.ts";
import type { Requests } from "./requests.ts";
import type { TestSystem } from "./test-system.ts";
import type { ExplanationView, RunExplanationView } from "./views.ts";
import { type Duration, durationMs } from "./virtual-duration.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** What the parts of a plane share. */
export interface PlaneParts {
  readonly system: TestSystem;
  readonly handlers: HandlerGate;
  readonly work: OpenWork;
  readonly time: VirtualTime;
  readonly requests: Requests;
  readonly limits: Required<TestPlaneLimits>;
}

/** How long a call may take in virtual time. */
export interface Within {
  /** Virtual time; `limits.virtualMs` by default. */
  readonly within?: Duration;
}

export interface EndQuery {
  /** Such as ``run `x` ``. */
  readonly what: string;
  isOpen(): boolean;
  isBlocked(): boolean;
  /** What it waits for, one line each. */
  explain(): Promise<readonly string[]>;
}

/** Advances until the work has ended. Work that waits for an action from outside is an error that says for what. */
export async function untilEnded(parts: PlaneParts, query: EndQuery, { within }: Within): Promise<void> {
  const { time, limits } = parts;
  const withinMs = within === undefined ? limits.virtualMs : durationMs(within, "within");
  let stopped: "blocked" | "late" | null = null;
  await time.reach({
    check: (isCalm) => {
      if (!query.isOpen()) return true;
      if (isCalm && query.isBlocked()) stopped = "blocked";
      return stopped !== null;
    },
    untilMs: time.timelineMs + withinMs,
    onTimeout: null,
  });
  if (!query.isOpen()) return;
  const waits = (await query.explain()).map((line) => `\n  ${line}`).join("");
  if (stopped === "blocked") {
    const hint = "act on it (approve, resume, add a handler), or pass its timeout with `plane.advance`";
    throw new PlaneError("blocked", `${query.what} does not end by itself; ${hint}:${waits}`);
  }
  throw new PlaneError("limit_reached", `${query.what} has not ended within ${withinMs} virtual ms:${waits}`);
}

export function jobLines({ sentence, unblocks }: ExplanationView): readonly string[] {
  return [sentence, ...unblocks.map(({ what, command }) => `${what}${command === null ? "" : `: ${command}`}`)];
}

export function runLines({ waits }: RunExplanationView): readonly string[] {
  return waits.map(({ step_id, reason, job_id }) => {
    const job = job_id === null ? "" : ` (job ${job_id})`;
    return `${step_id === null ? "run" : `step ${step_id}`}: ${reason}${job}`;
  });
}

/** All pages of a list. */
export async function allPages<T>(
  { requests }: PlaneParts,
  name: string,
  request: Parameters<Requests["send"]>[1] = {},
): Promise<readonly T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const query: Record<string, string> = { ...request.query, limit: "200", ...(cursor === null ? {} : { cursor }) };
    const page: Page<T> = await requests.send<Page<T>>(name, { ...request, query });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}
