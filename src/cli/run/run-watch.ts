/**
 * `cordum run watch`: polls a run until it has ended; server-sent events trigger earlier polls.
 *
 * A terminal gets a picture that is redrawn in place, at most ten times a second. Other outputs get one line per change,
 * or one JSON document per change (NDJSON).
 */
import { terminalJson } from "../../core/model/json.ts";
import { type Client, type Json, retryWhileUnavailable } from "../client.ts";
import type { ExitCode } from "../exit.ts";
import type { Io } from "../io.ts";
import { printable } from "../table.ts";
import { drawRun, formatElapsed, progressBar } from "./draw-run.ts";
import {
  drawOptions,
  exitCodeOf,
  fetchRun,
  fetchShape,
  hasEnded,
  noteOf,
  pictureOf,
  type RunShape,
  type RunSnapshot,
} from "./run-view.ts";

export async function watchRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const events = new RunEvents(client, id);
  try {
    const ended = await followRun(io, client, id, events, viewerFor(io, client, json));
    if (!json) printEnd(io, ended);
    return exitCodeOf(ended.state);
  } finally {
    events.stop();
  }
}

/** Polls until the run has ended and passes every snapshot to `onSnapshot`. */
export async function followRun(
  io: Io,
  client: Client,
  id: string,
  events: RunEvents,
  onSnapshot: (snapshot: RunSnapshot) => Promise<void> | void,
): Promise<Json> {
  for (;;) {
    const snapshot = await retryWhileUnavailable(io, Number.POSITIVE_INFINITY, () => fetchRun(client, id));
    await onSnapshot(snapshot);
    if (hasEnded(snapshot.view.state)) return snapshot.view;
    await events.wait(io);
  }
}

export function printEnd(io: Io, view: Json): void {
  const passed = formatElapsed(Date.parse(view.updated_at) - Date.parse(view.created_at));
  const error = view.error ? `: ${printable(view.error.message)}` : "";
  io.err(`run ${view.run_id} ${view.state} after ${passed}${error}\n`);
  if (view.state !== "SUCCEEDED") io.err(`next: ${io.command} run timeline ${view.run_id}\n`);
}

/** Events of the run and of the jobs of its steps; they shorten the poll interval. */
export class RunEvents {
  readonly #stop = new AbortController();
  #isTriggered = false;

  constructor(client: Client, runId: string) {
    // Best effort: polling works without the stream.
    this.#listen(client, runId).catch(() => {});
  }

  async wait(io: Io): Promise<void> {
    const untilMs = io.nowMs() + POLL_MS;
    do await io.sleep(SHOW_MS_MIN);
    while (!this.#isTriggered && io.nowMs() < untilMs);
    this.#isTriggered = false;
  }

  stop(): void {
    this.#stop.abort();
  }

  async #listen(client: Client, runId: string): Promise<void> {
    for await (const event of client.stream({ run: runId }, { signal: this.#stop.signal })) {
      if ("data" in event) this.#isTriggered = true;
    }
  }
}

const POLL_MS = 1_000;
const SHOW_MS_MIN = 100;

function viewerFor(io: Io, client: Client, json: boolean): (snapshot: RunSnapshot) => Promise<void> {
  const screen = io.screen?.() ?? null;
  let shape: RunShape | null = null;
  const shapeFor = async (view: Json) => {
    shape ??= await fetchShape(client, view);
    return shape;
  };
  if (!json && screen !== null) {
    const canvas = new Canvas(io);
    return async (snapshot) => canvas.draw(snapshot, await shapeFor(snapshot.view));
  }
  const changes = new Changes();
  return async ({ view, waits }) => {
    for (const change of changes.of(view)) {
      if (json) io.out(`${terminalJson(documentOf(change, view))}\n`);
      else io.out(`${lineFor(change, view, waits)}\n`);
    }
  };
}

/** Redraws in place. */
class Canvas {
  readonly #io: Io;
  #lines: readonly string[] = [];
  #columns = 0;

  constructor(io: Io) {
    this.#io = io;
  }

  draw(snapshot: RunSnapshot, shape: RunShape): void {
    const { columns = 80, rows = 24 } = this.#io.screen?.() ?? {};
    // A full last line would scroll the terminal.
    const lines = drawRun(pictureOf(this.#io, snapshot, shape), drawOptions(this.#io, Math.max(3, rows - 1)));
    if (lines.length === this.#lines.length && lines.every((line, at) => line === this.#lines[at])) return;
    // After a resize the previous lines may have wrapped.
    const isResized = this.#columns !== columns && this.#lines.length > 0;
    const home = isResized ? "\u001b[2J\u001b[H" : this.#lines.length > 0 ? `\u001b[${this.#lines.length}A\r` : "";
    this.#io.out(`${home}${lines.map((line) => `${line}\u001b[K\n`).join("")}\u001b[J`);
    this.#lines = lines;
    this.#columns = columns;
  }
}

type Change = { readonly kind: "run" } | { readonly kind: "step"; readonly id: string; readonly step: Json };

/** Changes since the previous snapshot. */
class Changes {
  #run = "";
  readonly #steps = new Map<string, string>();

  of(view: Json): readonly Change[] {
    const changes: Change[] = [];
    for (const [id, step] of Object.entries<Json>(view.steps ?? {})) {
      const undo = step.compensation ? ` ${step.compensation.state} ${tenthsOf(step.compensation.children)}` : "";
      const now = `${step.state} ${tenthsOf(step.children)}${undo}`;
      if (now === (this.#steps.get(id) ?? "PENDING ")) continue;
      this.#steps.set(id, now);
      changes.push({ kind: "step", id, step });
    }
    // By time, as far as it is known.
    const atOf = (change: Change) => (change.kind === "step" ? timeOf(change.step) : null);
    changes.sort((a, b) => String(atOf(a) ?? "").localeCompare(String(atOf(b) ?? "")));
    const isNew = this.#run === "";
    if (view.state === this.#run) return changes;
    this.#run = view.state;
    return isNew && !hasEnded(view.state) ? [{ kind: "run" }, ...changes] : [...changes, { kind: "run" }];
  }
}

/** When the last event of the step happened. */
const timeOf = ({ compensation, ended_at, started_at }: Json): unknown =>
  compensation?.ended_at ?? compensation?.started_at ?? ended_at ?? started_at;

/** Progress in tenths: a large `for_each` prints at most ten lines, and one for its first failure. */
function tenthsOf(children: Json | null | undefined): string {
  if (!children) return "";
  // Compensations have no `count`: they report each change in what is left.
  if (children.left !== undefined) return `${Math.ceil(Math.log2(children.left + 1))} ${children.failed > 0}`;
  const done = children.succeeded + children.failed + children.cancelled;
  return `${children.count === 0 ? 10 : Math.floor((10 * done) / children.count)} ${children.failed > 0}`;
}

function lineFor(change: Change, view: Json, waits: readonly Json[]): string {
  const startedMs = Date.parse(view.created_at);
  const at = (time: unknown) => formatElapsed(Date.parse(String(time)) - startedMs).padStart(11);
  if (change.kind === "run") {
    const reason = view.error ?? view.ends_with;
    const error = reason ? `  ${printable(reason.message)}` : "";
    return `${at(view.updated_at)}  run ${view.run_id}  ${view.state}${error}`;
  }
  const { id, step } = change;
  const children = step.children ? `  ${progressBar(step.children, true)}` : "";
  const note = noteOf(step, waits.find((line) => line.step_id === id) ?? null);
  const when = step.compensation
    ? timeOf(step)
    : (step.ended_at ?? (step.children ? view.updated_at : (step.started_at ?? view.updated_at)));
  return `${at(when)}  ${printable(id)}  ${step.state}${children}${note === null ? "" : `  ${printable(note)}`}`;
}

function documentOf(change: Change, view: Json): object {
  const { run_id, state, updated_at, error, output, compensation } = view;
  if (change.kind === "run")
    return { event: "run", run_id, state, updated_at, compensation, ...(hasEnded(state) && { error, output }) };
  // Outputs may be large; `run get` shows them.
  const { output: _, depends_on: __, ...step } = change.step;
  return { event: "step", run_id, step_id: change.id, ...step };
}
