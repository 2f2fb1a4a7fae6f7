/**
 * A run as a picture: the steps from top to bottom with the lines between them, what each is at and for how long, how
 * far a `for_each` has come, and what is waited for.
 *
 * 1. Pure: the same picture, screen and time are the same lines.
 * 2. No line is wider than the screen, and there are no more lines than it has.
 * 3. Every step has a row, below all that it depends on. Where the screen is too small for that, those are shown that
 *    somebody could want to see now, and the others are counted.
 */
import { downwards, graphOf, MARK, withoutImplied } from "./draw-run-graph.ts";
import { cellsOf, cutTo, grouped, lasting, lineOf, type Paint, type Piece, piece } from "./draw-run-text.ts";

export interface RunPicture {
  readonly runId: string;
  readonly workflow: string;
  readonly state: string;
  readonly startedMs: number;
  readonly endedMs: number | null;
  readonly error: string | null;
  /** The run as a whole: why it does not go on, and what to do about it. */
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
  /** Why it is as it is, in a few words. */
  readonly note: string | null;
  /** Commands that make it go on, the shortest last: the first that fits is shown. */
  readonly toDo: readonly string[];
}

export interface Children {
  readonly count: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

export interface Look {
  readonly width: number;
  /** null: as many as it takes. */
  readonly height: number | null;
  readonly color: boolean;
  /** False where a terminal knows nothing but ASCII. */
  readonly unicode: boolean;
  readonly nowMs: number;
}

export function drawRun(run: RunPicture, look: Look): readonly string[] {
  const head = [lineOf(headOf(run, look), look.width, look)];
  const foot: string[] = [];
  if (run.waitsFor !== null) foot.push(lineOf([piece(run.waitsFor, "asks")], look.width, look));
  if (run.error !== null) foot.push(lineOf([piece("error: ", "bad"), piece(run.error)], look.width, look));
  const room = look.height === null ? Number.POSITIVE_INFINITY : look.height - head.length - foot.length;
  const whole = withGraph(run, look);
  for (const rows of [whole, whole.filter(({ isPlain }) => !isPlain)]) {
    if (rows.length <= room) return [...head, ...rows.map(({ line }) => line), ...foot];
  }
  return [...head, ...overview(run, look, Math.max(1, room)), ...foot].slice(0, look.height ?? undefined);
}

/** How far a list has come, and how it went: `▓▓▓░░░░░░░ 1,240/4,000  3 failed`. */
export function barOf({ count, succeeded, failed, cancelled }: Children, unicode: boolean): string {
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
/** Whatever the size of the screen, names are cut only beyond this. */
const NAME_CELLS_MIN = 8;
const STATE_CELLS = "SUCCEEDED".length;
const TIME_CELLS = 8;

interface Row {
  readonly line: string;
  readonly isPlain: boolean;
}

function headOf(run: RunPicture, { nowMs }: Look): readonly Piece[] {
  const done = run.steps.filter(({ state }) => state !== "PENDING" && state !== "RUNNING").length;
  const passed = lasting((run.endedMs ?? nowMs) - run.startedMs);
  const steps = run.steps.length === 1 ? "step" : "steps";
  return [
    piece(`run ${run.runId}  ${run.workflow}  `),
    piece(run.state, paintOf(run.state, false)),
    piece(`  ${passed}  ${done} of ${run.steps.length} ${steps} done`),
  ];
}

function withGraph(run: RunPicture, look: Look): readonly Row[] {
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const rows = graphOf(run.steps);
  const graphCells = Math.max(0, ...rows.map(({ text }) => text.length));
  // More lines than half the screen is no picture any more.
  if (graphCells > look.width / 2) return withoutGraph(run, look);
  const nameCells = nameCellsOf(run, look, graphCells);
  const faint = (text: string) => ({ text: inLook(text, look), paint: "faint" }) as const;
  return rows.flatMap(({ text, stepId, below, isPlain }): Row[] => {
    const step = stepId === null ? undefined : steps.get(stepId);
    if (step === undefined) return [{ line: lineOf([faint(text)], look.width, look), isPlain }];
    const [before = "", after = ""] = text.padEnd(graphCells).split(MARK);
    const pieces = [faint(before), markOf(step, look), faint(`${after}  `), ...told(step, look, nameCells)];
    const line = lineOf(pieces, look.width, look);
    const extra = toDoOf(step, look, faint(`${below.padEnd(graphCells)}    `));
    return [line, ...extra].map((one) => ({ line: one, isPlain: false }));
  });
}

/** What each step comes after is said instead of drawn. */
function withoutGraph(run: RunPicture, look: Look): readonly Row[] {
  const order = downwards(run.steps);
  const edges = withoutImplied(order);
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const nameCells = nameCellsOf(run, look, 1);
  return order.flatMap(({ id }): Row[] => {
    const step = steps.get(id);
    if (step === undefined) return [];
    const deps = edges.get(id) ?? [];
    const after = deps.length === 0 ? "" : `  after ${deps.join(", ")}`;
    const pieces = [markOf(step, look), piece("  "), ...told(step, look, nameCells), piece(after, "faint")];
    const lines = [lineOf(pieces, look.width, look), ...toDoOf(step, look, piece("     "))];
    return lines.map((line) => ({ line, isPlain: false }));
  });
}

/** Too many steps for the screen: first what asks for somebody, then what failed, then what is being done. */
function overview(run: RunPicture, look: Look, room: number): readonly string[] {
  const nameCells = nameCellsOf(run, look, 1);
  const ranked = run.steps
    .map((step) => ({ step, rank: rankOf(step) }))
    .filter(({ rank }) => rank < RANKS)
    .sort((a, b) => a.rank - b.rank);
  const shown = new Set<PictureStep>();
  const lines: string[] = [];
  for (const { step } of ranked) {
    const row = lineOf([markOf(step, look), piece("  "), ...told(step, look, nameCells)], look.width, look);
    const block = [row, ...toDoOf(step, look, piece("     "))];
    if (lines.length + block.length > room - 1) break;
    lines.push(...block);
    shown.add(step);
  }
  const others = new Map<string, number>();
  for (const step of run.steps) if (!shown.has(step)) others.set(step.state, (others.get(step.state) ?? 0) + 1);
  const counts = [...others].map(([state, count]) => `${grouped(count)} ${state}`).join(", ");
  return [...lines, lineOf([piece(`${shown.size > 0 ? "and " : ""}${counts}`, "faint")], look.width, look)];
}

const RANKS = 3;

function rankOf(step: PictureStep): number {
  if (step.toDo.length > 0) return 0;
  if (paintOf(step.state, false) === "bad") return 1;
  return step.state === "RUNNING" ? 2 : RANKS;
}

function nameCellsOf({ steps }: RunPicture, { width }: Look, graphCells: number): number {
  const longest = Math.max(0, ...steps.map(({ id }) => id.length));
  return Math.min(longest, Math.max(NAME_CELLS_MIN, Math.floor((width - graphCells) * 0.4)));
}

/** What stands beside the mark. */
function told(step: PictureStep, { unicode, nowMs }: Look, nameCells: number): readonly Piece[] {
  const name = cutTo(step.id, nameCells, unicode).padEnd(nameCells);
  const passedMs = step.startedMs === null ? null : (step.endedMs ?? nowMs) - step.startedMs;
  // A step that takes no time has none to tell.
  const time = passedMs === null || (passedMs === 0 && step.state !== "RUNNING") ? "" : lasting(passedMs);
  const pieces = [
    piece(`${name}  `),
    piece(step.state.padEnd(STATE_CELLS), paintOf(step.state, step.toDo.length > 0)),
    piece(`  ${time.padStart(TIME_CELLS)}`),
  ];
  if (step.children !== null) pieces.push(piece(`  ${barOf(step.children, unicode)}`));
  if (step.note !== null) pieces.push(piece(`  ${step.note}`, "faint"));
  return pieces;
}

/** A command that is cut cannot be typed: the longest that fits. */
function toDoOf(step: PictureStep, look: Look, before: Piece): readonly string[] {
  const room = look.width - cellsOf(before.text);
  const command = step.toDo.find((one) => cellsOf(one) <= room);
  return command === undefined ? [] : [lineOf([before, piece(command, "asks")], look.width, look)];
}

function markOf({ state, toDo }: PictureStep, { unicode }: Look): Piece {
  const [fine, plain] = toDo.length > 0 ? ASKS : (MARKS[state] ?? ["?", "?"]);
  return { text: unicode ? fine : plain, paint: paintOf(state, toDo.length > 0) };
}

const ASKS = ["◆", "?"] as const;
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

function paintOf(state: string, isAsking: boolean): Paint {
  if (isAsking) return "asks";
  switch (state) {
    case "SUCCEEDED":
      return "good";
    case "FAILED":
    case "TIMEOUT":
    case "DENIED":
      return "bad";
    case "RUNNING":
      return "busy";
    case "PAUSED":
    case "ENDING":
      return "asks";
    default:
      return "faint";
  }
}

/** Lines as every terminal can draw them. */
function inLook(text: string, { unicode }: Look): string {
  return unicode ? text : text.replace(/[─│├┤┬┴┼╭╮╰╯]/g, (char) => (char === "─" ? "-" : char === "│" ? "|" : "+"));
}
