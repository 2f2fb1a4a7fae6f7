/** Pieces of a line on a screen: how wide they are, how they are cut, how time and numbers are said in them. */
import { printable } from "../table.ts";

export type Paint = "good" | "bad" | "busy" | "asks" | "faint" | "plain";

export interface Piece {
  readonly text: string;
  readonly paint: Paint;
}

export const piece = (text: string, paint: Paint = "plain"): Piece => ({ text: printable(text), paint });

/** One line, never wider than `width`: what does not fit ends in `…`. */
export function lineOf(pieces: readonly Piece[], width: number, { color, unicode }: LineLook): string {
  let room = width;
  let line = "";
  for (const [at, { text, paint }] of pieces.entries()) {
    const isLast = pieces.slice(at + 1).every((after) => after.text.trim() === "");
    const shown = cutTo(isLast ? text.trimEnd() : text, room, unicode);
    line += color && paint !== "plain" && shown.trim() !== "" ? `${SGR[paint]}${shown}\u001b[0m` : shown;
    room -= cellsOf(shown);
    if (shown !== text || isLast) break;
  }
  return line.trimEnd();
}

export interface LineLook {
  readonly color: boolean;
  readonly unicode: boolean;
}

/** How many columns a text takes. */
export function cellsOf(text: string): number {
  let cells = 0;
  for (const char of text) cells += cellsOfChar(char);
  return cells;
}

export function cutTo(text: string, width: number, unicode: boolean): string {
  if (cellsOf(text) <= width) return text;
  const dots = unicode ? "…" : "~";
  let cut = "";
  let room = width - 1;
  for (const char of text) {
    room -= cellsOfChar(char);
    if (room < 0) break;
    cut += char;
  }
  return width < 1 ? "" : `${cut}${dots}`;
}

/** `340 ms`, `1.2 s`, `45 s`, `12 min 05 s`, `3 h 10 min`. */
export function lasting(ms: number): string {
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

/** `10,000`, whatever the language of the machine. */
export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

const two = (count: number): string => String(count).padStart(2, "0");

const SGR: Readonly<Record<Exclude<Paint, "plain">, string>> = {
  good: "\u001b[32m",
  bad: "\u001b[31m",
  busy: "\u001b[36m",
  asks: "\u001b[33m",
  faint: "\u001b[2m",
};

/** Texts of jobs and people come in every script; those that a terminal draws two columns wide count as two. */
function cellsOfChar(char: string): number {
  if (char < "\u0300") return 1;
  if (NONE.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

const NONE = /[\p{M}\p{Cf}]/u;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f000}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
