/**
 * Renders a run as text: steps in topological order with graph lines, state, elapsed time and progress. Pure.
 *
 * Lines never exceed the width, and their number never the height. If the steps do not fit, the ones that need attention
 * are shown and the others are counted.
 */
import { printable } from "../table.ts";
import { layoutGraph, MARK, topologicalOrder, transitiveReduction } from "./run-graph.ts";

export interface RunPicture {
  readonly runId: string;
  readonly workflow: string;
  readonly state: string;
  readonly startedMs: number;
  readonly endedMs: number | null;
  readonly error: string | null;
  /** What the run itself waits for, and the command that unblocks it. */
  readonly waitsFor: string | null;
  readonly steps: readonly PictureStep[];
}

export interface PictureStep {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly state: string;
  readonly startedMs: number | null;
  readonly endedMs: number | null;
  readonly children: Children | null;
  /** A short reason for the state. */
  readonly note: string | null;
  /** Commands that unblock the step, the shortest last; the first that fits is shown. */
  readonly actions: readonly string[];
}

export interface Children {
  readonly count: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

export interface DrawOptions {
  readonly width: number;
  /** null: unlimited. */
  readonly height: number | null;
  readonly color: boolean;
  /** False for ASCII terminals. */
  readonly unicode: boolean;
  readonly nowMs: number;
}

export function drawRun(run: RunPicture, options: DrawOptions): readonly string[] {
  const head = [lineOf(headOf(run, options), options.width, options)];
  const foot: string[] = [];
  if (run.waitsFor !== null) foot.push(lineOf([piece(run.waitsFor, "attention")], options.width, options));
  if (run.error !== null) foot.push(lineOf([piece("error: ", "failure"), piece(run.error)], options.width, options));
  const room = options.height === null ? Number.POSITIVE_INFINITY : options.height - head.length - foot.length;
  const whole = withGraph(run, options);
  for (const rows of [whole, whole.filter(({ isPlain }) => !isPlain)]) {
    if (rows.length <= room) return [...head, ...rows.map(({ line }) => line), ...foot];
  }
  return [...head, ...overview(run, options, Math.max(1, room)), ...foot].slice(0, options.height ?? undefined);
}

/** `▓▓▓░░░░░░░ 1,240/4,000  3 failed`. */
export function progressBar({ count, succeeded, failed, cancelled }: Children, unicode: boolean): string {
  const done = succeeded + failed + cancelled;
  const filled = count === 0 ? BAR_CELLS : Math.floor((BAR_CELLS * done) / count);
  const [full, empty] = unicode ? ["▓", "░"] : ["#", "."];
  const bar = `${full.repeat(filled)}${empty.repeat(BAR_CELLS - filled)} ${grouped(done)}/${grouped(count)}`;
  const ends = [
    ...(failed > 0 ? [`${grouped(failed)} failed`] : []),
    ...(cancelled > 0 ? [`${grouped(cancelled)} cancelled`] : []),
  ];
  return [bar, ...ends].join("  ");
}

const BAR_CELLS = 10;
/** Names are never cut below this width. */
const NAME_CELLS_MIN = 8;
const STATE_CELLS = "SUCCEEDED".length;
const TIME_CELLS = 8;

interface Row {
  readonly line: string;
  readonly isPlain: boolean;
}

function headOf(run: RunPicture, { nowMs }: DrawOptions): readonly Piece[] {
  const done = run.steps.filter(({ state }) => state !== "PENDING" && state !== "RUNNING").length;
  const passed = formatElapsed((run.endedMs ?? nowMs) - run.startedMs);
  const steps = run.steps.length === 1 ? "step" : "steps";
  return [
    piece(`run ${run.runId}  ${run.workflow}  `),
    piece(run.state, paintOf(run.state, false)),
    piece(`  ${passed}  ${done} of ${run.steps.length} ${steps} done`),
  ];
}

function withGraph(run: RunPicture, options: DrawOptions): readonly Row[] {
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const rows = layoutGraph(run.steps);
  const graphCells = Math.max(0, ...rows.map(({ text }) => text.length));
  // A graph wider than half the screen is unreadable.
  if (graphCells > options.width / 2) return withoutGraph(run, options);
  const nameCells = nameCellsOf(run, options, graphCells);
  const faint = (text: string) => ({ text: drawable(text, options), paint: "faint" }) as const;
  return rows.flatMap(({ text, stepId, below, isPlain }): Row[] => {
    const step = stepId === null ? undefined : steps.get(stepId);
    if (step === undefined) return [{ line: lineOf([faint(text)], options.width, options), isPlain }];
    const [before = "", after = ""] = text.padEnd(graphCells).split(MARK);
    const pieces = [faint(before), markOf(step, options), faint(`${after}  `), ...stepPieces(step, options, nameCells)];
    const line = lineOf(pieces, options.width, options);
    const extra = actionLines(step, options, faint(`${below.padEnd(graphCells)}    `));
    return [line, ...extra].map((one) => ({ line: one, isPlain: false }));
  });
}

/** Lists dependencies as text instead of lines. */
function withoutGraph(run: RunPicture, options: DrawOptions): readonly Row[] {
  const order = topologicalOrder(run.steps);
  const edges = transitiveReduction(order);
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const nameCells = nameCellsOf(run, options, 1);
  return order.flatMap(({ id }): Row[] => {
    const step = steps.get(id);
    if (step === undefined) return [];
    const deps = edges.get(id) ?? [];
    const after = deps.length === 0 ? "" : `  after ${deps.join(", ")}`;
    const pieces = [markOf(step, options), piece("  "), ...stepPieces(step, options, nameCells), piece(after, "faint")];
    const lines = [lineOf(pieces, options.width, options), ...actionLines(step, options, piece("     "))];
    return lines.map((line) => ({ line, isPlain: false }));
  });
}

/** For small screens: steps that await an action, then failed ones, then running ones. */
function overview(run: RunPicture, options: DrawOptions, room: number): readonly string[] {
  const nameCells = nameCellsOf(run, options, 1);
  const ranked = run.steps
    .map((step) => ({ step, rank: rankOf(step) }))
    .filter(({ rank }) => rank < RANKS)
    .sort((a, b) => a.rank - b.rank);
  const shown = new Set<PictureStep>();
  const lines: string[] = [];
  for (const { step } of ranked) {
    const row = lineOf(
      [markOf(step, options), piece("  "), ...stepPieces(step, options, nameCells)],
      options.width,
      options,
    );
    const block = [row, ...actionLines(step, options, piece("     "))];
    if (lines.length + block.length > room - 1) break;
    lines.push(...block);
    shown.add(step);
  }
  const others = new Map<string, number>();
  for (const step of run.steps) if (!shown.has(step)) others.set(step.state, (others.get(step.state) ?? 0) + 1);
  const counts = [...others].map(([state, count]) => `${grouped(count)} ${state}`).join(", ");
  return [...lines, lineOf([piece(`${shown.size > 0 ? "and " : ""}${counts}`, "faint")], options.width, options)];
}

const RANKS = 3;

function rankOf(step: PictureStep): number {
  if (step.actions.length > 0) return 0;
  if (paintOf(step.state, false) === "failure") return 1;
  return step.state === "RUNNING" ? 2 : RANKS;
}

function nameCellsOf({ steps }: RunPicture, { width }: DrawOptions, graphCells: number): number {
  const longest = Math.max(0, ...steps.map(({ id }) => id.length));
  return Math.min(longest, Math.max(NAME_CELLS_MIN, Math.floor((width - graphCells) * 0.4)));
}

function stepPieces(step: PictureStep, { unicode, nowMs }: DrawOptions, nameCells: number): readonly Piece[] {
  const name = cutTo(step.id, nameCells, unicode).padEnd(nameCells);
  const passedMs = step.startedMs === null ? null : (step.endedMs ?? nowMs) - step.startedMs;
  // Steps that complete instantly show no time.
  const time = passedMs === null || (passedMs === 0 && step.state !== "RUNNING") ? "" : formatElapsed(passedMs);
  const pieces = [
    piece(`${name}  `),
    piece(step.state.padEnd(STATE_CELLS), paintOf(step.state, step.actions.length > 0)),
    piece(`  ${time.padStart(TIME_CELLS)}`),
  ];
  if (step.children !== null) pieces.push(piece(`  ${progressBar(step.children, unicode)}`));
  if (step.note !== null) pieces.push(piece(`  ${step.note}`, "faint"));
  return pieces;
}

/** The longest command that fits; a truncated one would be useless. */
function actionLines(step: PictureStep, options: DrawOptions, before: Piece): readonly string[] {
  const room = options.width - cellsOf(before.text);
  const command = step.actions.find((one) => cellsOf(one) <= room);
  return command === undefined ? [] : [lineOf([before, piece(command, "attention")], options.width, options)];
}

function markOf({ state, actions: toDo }: PictureStep, { unicode }: DrawOptions): Piece {
  const [fine, plain] = toDo.length > 0 ? ACTION_MARK : (MARKS[state] ?? ["?", "?"]);
  return { text: unicode ? fine : plain, paint: paintOf(state, toDo.length > 0) };
}

const ACTION_MARK = ["◆", "?"] as const;
const MARKS: Readonly<Record<string, readonly [unicode: string, ascii: string]>> = {
  PENDING: ["○", "o"],
  RUNNING: ["●", ">"],
  SUCCEEDED: ["✓", "*"],
  FAILED: ["✗", "!"],
  TIMEOUT: ["✗", "!"],
  DENIED: ["✗", "!"],
  SKIPPED: ["·", "."],
  CANCELLED: ["■", "%"],
};

function paintOf(state: string, needsAction: boolean): Paint {
  if (needsAction) return "attention";
  switch (state) {
    case "SUCCEEDED":
      return "success";
    case "FAILED":
    case "TIMEOUT":
    case "DENIED":
      return "failure";
    case "RUNNING":
      return "running";
    case "PAUSED":
    case "ENDING":
      return "attention";
    default:
      return "faint";
  }
}

/** Replaces box-drawing characters for ASCII terminals. */
function drawable(text: string, { unicode }: DrawOptions): string {
  return unicode ? text : text.replace(/[─│├┤┬┴┼╭╮╰╯]/g, (char) => (char === "─" ? "-" : char === "│" ? "|" : "+"));
}

export type Paint = "success" | "failure" | "running" | "attention" | "faint" | "plain";

export interface Piece {
  readonly text: string;
  readonly paint: Paint;
}

export const piece = (text: string, paint: Paint = "plain"): Piece => ({ text: printable(text), paint });

/** One line, truncated to `width` with `…`. */
export function lineOf(pieces: readonly Piece[], width: number, { color, unicode }: LineStyle): string {
  let columnsLeft = width;
  let line = "";
  for (const [at, { text, paint }] of pieces.entries()) {
    const isLast = pieces.slice(at + 1).every((after) => after.text.trim() === "");
    const shown = cutTo(isLast ? text.trimEnd() : text, columnsLeft, unicode);
    line += color && paint !== "plain" && shown.trim() !== "" ? `${SGR[paint]}${shown}\u001b[0m` : shown;
    columnsLeft -= cellsOf(shown);
    if (shown !== text || isLast) break;
  }
  return line.trimEnd();
}

export interface LineStyle {
  readonly color: boolean;
  readonly unicode: boolean;
}

/** Display width in columns. */
export function cellsOf(text: string): number {
  let cells = 0;
  for (const char of text) cells += cellsOfChar(char);
  return cells;
}

export function cutTo(text: string, width: number, unicode: boolean): string {
  if (cellsOf(text) <= width) return text;
  const dots = unicode ? "…" : "~";
  let cut = "";
  let columnsLeft = width - 1;
  for (const char of text) {
    columnsLeft -= cellsOfChar(char);
    if (columnsLeft < 0) break;
    cut += char;
  }
  return width < 1 ? "" : `${cut}${dots}`;
}

/** `340 ms`, `1.2 s`, `45 s`, `12 min 05 s`, `3 h 10 min`. */
export function formatElapsed(ms: number): string {
  const passed = Math.max(0, ms);
  if (passed < 1_000) return `${Math.round(passed)} ms`;
  if (passed < 9_950) return `${(passed / 1_000).toFixed(1)} s`;
  const seconds = Math.round(passed / 1_000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min ${two(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 72 ? `${hours} h ${two(minutes % 60)} min` : `${Math.floor(hours / 24)} days ${two(hours % 24)} h`;
}

/** `10,000`, in every locale. */
export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

const two = (count: number): string => String(count).padStart(2, "0");

const SGR: Readonly<Record<Exclude<Paint, "plain">, string>> = {
  success: "\u001b[32m",
  failure: "\u001b[31m",
  running: "\u001b[36m",
  attention: "\u001b[33m",
  faint: "\u001b[2m",
};

/** Wide characters take two columns, combining ones none. */
function cellsOfChar(char: string): number {
  if (char < "\u0300") return 1;
  if (NONE.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

const NONE = /[\p{M}\p{Cf}]/u;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f000}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
