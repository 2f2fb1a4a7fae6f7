/** The history of a seed: what each entry means, and the state of the processes at any entry. */
import type { Simulation } from "../../../../src/client/schema.ts";
import { duration } from "../../kit/numbers.ts";

export type Entry = Simulation["trace"][number];
export type Violation = Simulation["violations"][number];

export type Kind = "fault" | "message" | "lock" | "worker" | "record";

export const KINDS = {
  fault: { text: "fault or repair", tone: "bad" },
  message: { text: "message", tone: "busy" },
  lock: { text: "lock acquired", tone: "wait" },
  worker: { text: "worker", tone: "warn" },
  record: { text: "state of a record", tone: "good" },
} as const satisfies Record<Kind, object>;

const RECORDS: readonly string[] = ["job", "run"];
const OUTCOMES: Readonly<Record<string, string>> = {
  ok: "finishes",
  throw: "fails",
  hang: "never answers",
  die: "crashes while it works on",
  late: "answers too late to",
  twice: "answers twice to",
};
const FAULTS: Readonly<Record<string, string>> = {
  crash: "crashes",
  stop: "stops in order",
  start: "starts",
  pause: "is paused: it does not run, and does not know",
  resume: "runs again",
  refuses: "refuses to answer",
  hangs: "does not answer",
  up: "answers again",
};

export function kindOf({ source, action, subject }: Entry): Kind {
  if (RECORDS.includes(source)) return "record";
  if (subject === "") return "fault";
  if (action === "lock") return "lock";
  return action in OUTCOMES ? "worker" : "message";
}

/** `control-1 acquires the lock cordum:wf:run:lock:…`. */
export function describe(entry: Entry): string {
  const { source, action, subject } = entry;
  switch (kindOf(entry)) {
    case "record":
      return `${source} ${subject} is ${action.toLowerCase().replaceAll("_", " ")}`;
    case "fault":
      return `${source === "kernel" ? "the safety kernel" : source} ${faultText(action)}`;
    case "lock":
      return `${source} acquires the lock ${subject}`;
    case "worker":
      return `${source} ${OUTCOMES[action]} ${subject}`;
    default:
      return action === "servers" || action === "listeners"
        ? `${source} receives ${subject}`
        : `${source} receives ${action}: ${subject}`;
  }
}

function faultText(action: string): string {
  const [what = "", peer = ""] = action.split(" ");
  if (what === "cut") return `is cut off from the ${peer}`;
  if (what === "heal") return `reaches the ${peer} again`;
  if (what === "clock") return `has its clock stepped by ${signed(Number(peer))}`;
  return FAULTS[action] ?? action;
}

const signed = (ms: number): string => `${ms < 0 ? "−" : "+"}${duration(Math.abs(ms))}`;

/** The lanes from top to bottom: processes, then the bus, the safety kernel and the server, then records. */
export function lanesOf(trace: readonly Entry[], messages: Simulation["messages"] = []): readonly string[] {
  const sources = [
    ...new Set([...trace.map(({ source }) => source), ...messages.flatMap(({ from, to }) => [from, to])]),
  ];
  const rank = (source: string) =>
    source.startsWith("control") ? 0 : source.startsWith("worker") ? 1 : RECORDS.includes(source) ? 3 : 2;
  return sources.toSorted((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

export type Condition = "up" | "down" | "paused" | "cut" | "clock";

/** An interval in which a process was not in order; `to` is after the last entry if it did not end. */
export interface Span {
  readonly lane: string;
  readonly condition: Exclude<Condition, "up">;
  readonly detail: string;
  readonly from: number;
  readonly to: number;
}

const BEGINS: Readonly<Record<string, Span["condition"]>> = {
  ...{ crash: "down", stop: "down", pause: "paused", cut: "cut", refuses: "down", hangs: "down" },
};
const ENDS: Readonly<Record<string, string>> = { start: "down", resume: "paused", heal: "cut", up: "down" };

/** By index of the entries. A clock stays wrong until its next step. */
export function spansOf(trace: readonly Entry[]): readonly Span[] {
  const spans: Span[] = [];
  const open = new Map<string, Omit<Span, "to">>();
  const steppedMs = new Map<string, number>();
  for (const [at, entry] of trace.entries()) {
    if (kindOf(entry) !== "fault") continue;
    const { source: lane, action } = entry;
    const [what = "", detail = ""] = action.split(" ");
    const begun = BEGINS[what];
    const key = what === "clock" ? `${lane} clock` : `${lane} ${begun ?? ENDS[what]} ${detail}`;
    const before = open.get(key);
    if (before !== undefined) {
      spans.push({ ...before, to: at });
      open.delete(key);
    }
    if (what === "clock") {
      const sumMs = (steppedMs.get(lane) ?? 0) + Number(detail);
      steppedMs.set(lane, sumMs);
      open.set(key, { lane, condition: "clock", detail: signed(sumMs), from: at });
    }
    if (begun !== undefined) open.set(key, { lane, condition: begun, detail, from: at });
  }
  for (const left of open.values()) spans.push({ ...left, to: trace.length });
  return spans.toSorted((a, b) => a.from - b.from);
}

/** `down`, `cut off from the bus`, `clock +5 s`. */
export function conditionText({ condition, detail }: Pick<Span, "condition" | "detail">): string {
  if (condition === "cut") return `cut off from the ${detail}`;
  return detail === "" ? condition : `${condition} ${detail}`;
}

/** What is not in order at an entry, by lane. */
export function conditionsAt(spans: readonly Span[], at: number): ReadonlyMap<string, readonly Span[]> {
  const found = new Map<string, Span[]>();
  for (const span of spans) {
    if (span.from > at || span.to <= at) continue;
    found.set(span.lane, [...(found.get(span.lane) ?? []), span]);
  }
  return found;
}

/** The last entry that is not after a violation. */
export function entryOf(trace: readonly Entry[], { at_ms }: Violation): number {
  // Violations have whole milliseconds.
  return Math.max(
    0,
    trace.findLastIndex((entry) => Math.round(entry.at_ms) <= at_ms),
  );
}

/** What a violation is about: its id, and the jobs and runs that its id and hint name. */
export function idsOf(trace: readonly Entry[], { id, hint }: Violation): readonly string[] {
  const records = new Set(trace.flatMap(({ source, subject }) => (RECORDS.includes(source) ? [subject] : [])));
  const text = { subject: `${id} ${hint}` };
  return [id, ...[...records].filter((record) => isAbout(text, record))];
}

/** What led to a violation: the last entries about its records, and the faults among them. */
export function before(trace: readonly Entry[], violation: Violation): readonly number[] {
  const end = entryOf(trace, violation);
  const ids = idsOf(trace, violation);
  const isRelated = (entry: Entry) => ids.some((id) => isAbout(entry, id));
  const about = trace.flatMap((entry, at) => (at <= end && isRelated(entry) ? [at] : []));
  const shown = about.slice(-RELATED_MAX);
  const first = Math.max(shown[0] ?? end, end - FAULT_REACH);
  const faults = trace.flatMap((entry, at) => (at >= first && at <= end && kindOf(entry) === "fault" ? [at] : []));
  return [...new Set([...shown, ...faults.slice(-FAULTS_MAX)])].toSorted((a, b) => a - b);
}

/** `job-3` is also in `submit:job-3` and `result:job-3@1:worker-1`, but not in `job-31`. */
export function isAbout({ subject }: Pick<Entry, "subject">, id: string): boolean {
  // The checkers name records as `table/id`.
  const bare = id.replace(/^\w+\//, "");
  if (bare === "") return false;
  for (let at = subject.indexOf(bare); at >= 0; at = subject.indexOf(bare, at + 1)) {
    const around = [subject[at - 1], subject[at + bare.length]];
    if (around.every((letter) => letter === undefined || !/[\w-]/.test(letter))) return true;
  }
  return false;
}

const RELATED_MAX = 10;
const FAULTS_MAX = 6;
const FAULT_REACH = 60;
