/**
 * `cordum run watch`: a run while it goes on.
 *
 * 1. On a terminal it is drawn in place, when it changes and once a second, at most ten times a second.
 * 2. Elsewhere there is a line for every change, and no line twice; with `--json` each is a document (NDJSON).
 * 3. What is shown was read from the run itself. The live events only say when to look; without them it is once a second.
 * 4. It ends when the run does, with 0 if that succeeded and 1 if not.
 */
import { type Client, type Json, retryWhileUnavailable } from "../client.ts";
import type { ExitCode } from "../exit.ts";
import type { Io } from "../io.ts";
import { printable } from "../table.ts";
import { barOf, drawRun } from "./draw-run.ts";
import { lasting } from "./draw-run-text.ts";
import {
  exitCodeOf,
  isOver,
  lookOf,
  noteOf,
  pictureOf,
  type SeenRun,
  type Shape,
  seeRun,
  stepsOf,
} from "./run-view.ts";

export async function watchRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const nudges = new Nudges(client, id);
  try {
    const ended = await followRun(io, client, id, nudges, viewerFor(io, client, json));
    if (!json) sayEnd(io, ended);
    return exitCodeOf(ended.state);
  } finally {
    nudges.stop();
  }
}

/** Looks until the run has ended, and lets `see` see what there is each time. */
export async function followRun(
  io: Io,
  client: Client,
  id: string,
  nudges: Nudges,
  see: (seen: SeenRun) => Promise<void> | void,
): Promise<Json> {
  for (;;) {
    const seen = await retryWhileUnavailable(io, Number.POSITIVE_INFINITY, () => seeRun(client, id));
    await see(seen);
    if (isOver(seen.view.state)) return seen.view;
    await nudges.wait(io);
  }
}

/** How it ended, for people; what to type next if it did not go well. */
export function sayEnd(io: Io, view: Json): void {
  const passed = lasting(Date.parse(view.updated_at) - Date.parse(view.created_at));
  const error = view.error ? `: ${printable(view.error.message)}` : "";
  io.err(`run ${view.run_id} ${view.state} after ${passed}${error}\n`);
  if (view.state !== "SUCCEEDED") io.err(`next: ${io.command} run timeline ${view.run_id}\n`);
}

/** The live events of a run: reason to look again before the second is over. */
export class Nudges {
  readonly #stop = new AbortController();
  #isNudged = false;

  constructor(client: Client, runId: string) {
    // Best effort, like the stream itself.
    this.#listen(client, runId).catch(() => {});
  }

  async wait(io: Io): Promise<void> {
    const untilMs = io.nowMs() + POLL_MS;
    do await io.sleep(SHOW_MS_MIN);
    while (!this.#isNudged && io.nowMs() < untilMs);
    this.#isNudged = false;
  }

  stop(): void {
    this.#stop.abort();
  }

  async #listen(client: Client, runId: string): Promise<void> {
    const body = await client.stream("/stream", this.#stop.signal);
    if (body === null) return;
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
      const text = rest + decoder.decode(chunk, { stream: true });
      // The jobs of its steps are named after it.
      if (text.includes(runId)) this.#isNudged = true;
      // The id may be cut in two; what was found is not found again.
      rest = text.includes(runId) ? "" : text.slice(-runId.length);
    }
  }
}

const POLL_MS = 1_000;
const SHOW_MS_MIN = 100;

function viewerFor(io: Io, client: Client, json: boolean): (seen: SeenRun) => Promise<void> {
  const screen = io.screen?.() ?? null;
  let shape: Shape | null = null;
  const shapeFor = async (view: Json) => {
    shape ??= await stepsOf(client, view);
    return shape;
  };
  if (!json && screen !== null) {
    const canvas = new Canvas(io);
    return async (seen) => canvas.draw(seen, await shapeFor(seen.view));
  }
  const changes = new Changes();
  return async ({ view, waits }) => {
    for (const change of changes.of(view)) {
      if (json) io.out(`${JSON.stringify(documentOf(change, view))}\n`);
      else io.out(`${lineFor(change, view, waits)}\n`);
    }
  };
}

/** Draws over what it drew before. */
class Canvas {
  readonly #io: Io;
  #lines: readonly string[] = [];
  #columns = 0;

  constructor(io: Io) {
    this.#io = io;
  }

  draw(seen: SeenRun, shape: Shape): void {
    const { columns = 80, rows = 24 } = this.#io.screen?.() ?? {};
    // A last line that is full would scroll the first one away.
    const lines = drawRun(pictureOf(this.#io, seen, shape), lookOf(this.#io, Math.max(3, rows - 1)));
    if (lines.length === this.#lines.length && lines.every((line, at) => line === this.#lines[at])) return;
    // In a window of another width the lines from before stand elsewhere.
    const isMoved = this.#columns !== columns && this.#lines.length > 0;
    const home = isMoved ? "\u001b[2J\u001b[H" : this.#lines.length > 0 ? `\u001b[${this.#lines.length}A\r` : "";
    this.#io.out(`${home}${lines.map((line) => `${line}\u001b[K\n`).join("")}\u001b[J`);
    this.#lines = lines;
    this.#columns = columns;
  }
}

type Change = { readonly kind: "run" } | { readonly kind: "step"; readonly id: string; readonly step: Json };

/** What differs from what was seen before. */
class Changes {
  #run = "";
  readonly #steps = new Map<string, string>();

  of(view: Json): readonly Change[] {
    const changes: Change[] = [];
    for (const [id, step] of Object.entries<Json>(view.steps ?? {})) {
      const now = `${step.state} ${tenthsOf(step.children)}`;
      if (now === (this.#steps.get(id) ?? "PENDING ")) continue;
      this.#steps.set(id, now);
      changes.push({ kind: "step", id, step });
    }
    // In the order in which it happened, as far as that can be told.
    const atOf = (change: Change) => (change.kind === "step" ? (change.step.ended_at ?? change.step.started_at) : null);
    changes.sort((a, b) => String(atOf(a) ?? "").localeCompare(String(atOf(b) ?? "")));
    const isNew = this.#run === "";
    if (view.state === this.#run) return changes;
    this.#run = view.state;
    return isNew && !isOver(view.state) ? [{ kind: "run" }, ...changes] : [...changes, { kind: "run" }];
  }
}

/** A list of ten thousand is told of ten times, and when something in it fails. */
function tenthsOf(children: Json | null | undefined): string {
  if (!children) return "";
  const done = children.succeeded + children.failed + children.cancelled;
  return `${children.count === 0 ? 10 : Math.floor((10 * done) / children.count)} ${children.failed > 0}`;
}

function lineFor(change: Change, view: Json, waits: readonly Json[]): string {
  const startedMs = Date.parse(view.created_at);
  const at = (time: unknown) => lasting(Date.parse(String(time)) - startedMs).padStart(11);
  if (change.kind === "run") {
    const error = view.error ? `  ${printable(view.error.message)}` : "";
    return `${at(view.updated_at)}  run ${view.run_id}  ${view.state}${error}`;
  }
  const { id, step } = change;
  const children = step.children ? `  ${barOf(step.children, true)}` : "";
  const note = noteOf(step, waits.find((line) => line.step_id === id) ?? null);
  const when = step.ended_at ?? (step.children ? view.updated_at : (step.started_at ?? view.updated_at));
  return `${at(when)}  ${printable(id)}  ${step.state}${children}${note === null ? "" : `  ${printable(note)}`}`;
}

function documentOf(change: Change, view: Json): object {
  const { run_id, state, updated_at, error, output } = view;
  if (change.kind === "run")
    return { event: "run", run_id, state, updated_at, ...(isOver(state) && { error, output }) };
  // What a step put out may be large; `run get` has it.
  const { output: _, depends_on: __, ...step } = change.step;
  return { event: "step", run_id, step_id: change.id, ...step };
}
