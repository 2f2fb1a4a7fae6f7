import { crc32 } from "node:zlib";
import type { Entry } from "../../core/model/table.ts";
import { type Change, deltasOf, type Guard, movesOf, type Put } from "../../ports/store.ts";
import { decodeValue, encodeValue, isDelta } from "../record-text.ts";
import { unreadable } from "./errors.ts";
import { lockName } from "./keys.ts";

/**
 * Encodes changes and records for Redis.
 *
 * A change is written directly in the Redis protocol (RESP), without an argument array: a batch has thousands of arguments,
 * and the driver would visit each several times. Lengths are counted in characters; a text with non-ASCII characters is
 * encoded again with byte lengths. Every argument starts with the line break that ends the previous one, so its header
 * is one cached string.
 *
 * A record is "text\nversion due score #sum" (see `record-text.ts`): version, due time and queue score ("-" for none), and the
 * CRC-32 of table, id and what precedes it. Patches are appended in the same form; the last line is the current one. Records
 * of schema 1 have no sum.
 */
export interface Encoded {
  readonly text: string;
  /** Number of arguments. */
  readonly count: number;
  /** Length in bytes; equal to `text.length` for ASCII. */
  readonly bytes: number;
}

export function encodeCommand(name: string, args: readonly Encoded[]): Buffer {
  let count = 1;
  let bytes = 0;
  for (const part of args) {
    count += part.count;
    bytes += part.bytes;
  }
  const head = `*${count}${headOf(name.length)}${name}`;
  const buffer = Buffer.allocUnsafe(head.length + bytes + END.length);
  let at = buffer.write(head, "latin1");
  for (const { text, bytes } of args) at += buffer.write(text, at, bytes === text.length ? "latin1" : "utf8");
  buffer.write(END, at, "latin1");
  return buffer;
}

export function encodeArgs(values: readonly string[]): Encoded {
  return encoded((args) => {
    for (const value of values) args.add(value);
  });
}

/** The arguments of `COMMIT` for one change. */
export function encodeChange(change: Change): Encoded {
  const { puts, sends } = change;
  const records = puts.map(recordOf);
  const messages = sends.map((message) => JSON.stringify(message));
  return encoded((args) => {
    for (let at = 0; at < puts.length; at += 1) addPut(args, puts[at]!, records[at]!);
    addGuards(args, change);
    for (const put of puts) addMoves(args, put);
    for (let at = 0; at < sends.length; at += 1) {
      args.op("O").add(String(change.atMs)).add(sends[at]!.id).add(messages[at]!);
    }
    for (const { name, delta } of change.totals ?? []) args.op("T").add(name).add(String(delta));
    for (const { group, name } of change.watch) args.op("w").add(group).add(name);
    args.prependCount();
  });
}

/** A change that only removes messages from the outbox. */
export function encodeSent(messageIds: readonly string[]): Encoded {
  return encoded((args) => {
    for (const id of messageIds) args.op("S").add(id);
    args.prependCount();
  });
}

/** One call of a batched script: the number of its arguments, then the arguments. */
export function encodeCall(values: readonly string[]): Encoded {
  return encoded((args) => {
    for (const value of values) args.add(value);
    args.prependCount();
  });
}

/** The order in which guards are checked and numbered: fences first. */
export function inCheckOrder(guards: readonly Guard[]): readonly Guard[] {
  if (!guards.some(isFence)) return guards;
  return [...guards.filter(isFence), ...guards.filter((guard) => !isFence(guard))];
}

const isFence = ({ kind }: Guard): boolean => kind === "fence";

export const ridOf = (table: string, id: string): string => `${table}/${id}`;

export function memberOf(score: number, id: string): string {
  if (score !== lastScore) {
    lastScore = score;
    lastHead = `${score.toString(16).padStart(MEMBER_SCORE_DIGITS, "0")}:`;
  }
  return lastHead + id;
}

/** Cache: consecutive members often share a score, and formatting it is slow. */
let lastScore = Number.NaN;
let lastHead = "";

export const idOfMember = (member: string): string => member.slice(MEMBER_SCORE_DIGITS + 1);

/** 2^52 - 1 in hexadecimal. */
const MEMBER_SCORE_DIGITS = 13;

export interface Decoded {
  readonly version: number;
  readonly dueMs: number | null;
  readonly value: unknown;
}

/** Throws if the record is damaged or has an unknown format. `rid` without the prefix of the key. */
export function decodeRecord(record: string, key: string, rid: string): Decoded {
  try {
    const end = record.lastIndexOf("\n");
    const { version, due } = lastLineOf(record.slice(end + 1));
    const isWhole = record.indexOf("\n") === end;
    if (isWhole) checkSum(rid, record);
    const text = isWhole ? record.slice(0, end) : textOf(rid, record.split("\n"));
    return { version, dueMs: due, value: decodeValue(text) };
  } catch (error) {
    // Messages of the parser contain parts of the record.
    if (error instanceof SyntaxError) throw unreadable(key, "it is not a JSON document");
    if (error instanceof TypeError) throw unreadable(key, "a patch does not fit its base");
    throw unreadable(key, (error as Error).message);
  }
}

function lastLineOf(line: string): { readonly version: number; readonly due: number | null } {
  const [version, due, score, sum = "#", ...others] = line.split(" ");
  const isPlace = (place: string | undefined) => place === "-" || Number(place) >= 0;
  if (!(Number(version) > 0) || !isPlace(due) || !isPlace(score) || !sum.startsWith("#") || others.length > 0) {
    throw new Error("its last line is not `version due score #sum`");
  }
  return { version: Number(version), due: due === "-" ? null : Number(due) };
}

/** Throws if the text differs from what was written. The server replaces an unknown version after the sum was computed. */
function checkSum(rid: string, text: string): void {
  const at = text.lastIndexOf(SUM);
  if (at < text.lastIndexOf("\n")) return; // Written with schema 1.
  const body = text.slice(0, at);
  const sum = text.slice(at + SUM.length);
  if (sum === sumOf(rid, body) || sum === sumOf(rid, body.replace(/\d+( \S+ \S+)$/, `${UNKNOWN}$1`))) return;
  throw new Error("it does not match its checksum");
}

const sumOf = (rid: string, body: string): string => crc32(body, crc32(rid)).toString(16);

/** Precedes the checksum. */
const SUM = " #";

/** Every second line is the "version due score" of the text before it. Each patch follows the version it is based on. */
function textOf(rid: string, lines: readonly string[]): string {
  const texts: string[] = [];
  for (let at = 0; at < lines.length; at += 2) {
    checkSum(rid, `${at === 0 ? "" : "\n"}${lines[at]}\n${lines[at + 1] ?? ""}`);
    const { version } = lastLineOf(lines[at + 1] ?? "");
    if (at > 0 && version !== lastLineOf(lines[at - 1]!).version + 1) throw new Error("the base of a patch is missing");
    texts.push(lines[at]!);
  }
  return texts.join("\n");
}

/** Builds RESP text. The parts are joined once, which is cheaper than concatenation. */
class Args {
  count = 0;
  /** The first part is reserved for `prependCount`. */
  readonly #parts: string[] = [""];
  readonly #isWide: boolean;

  constructor(isWide: boolean) {
    this.#isWide = isWide;
  }

  add(value: string): this {
    this.#parts.push(headOf(this.#isWide ? Buffer.byteLength(value) : value.length), value);
    this.count += 1;
    return this;
  }

  op(code: keyof typeof OPS): this {
    this.#parts.push(OPS[code]);
    this.count += 1;
    return this;
  }

  /** Prepends the number of arguments, itself included. */
  prependCount(): void {
    this.count += 1;
    const count = String(this.count);
    this.#parts[0] = headOf(count.length) + count;
  }

  text(): string {
    return this.#parts.join("");
  }
}

const END = "\r\n";
const HEADS: readonly string[] = Array.from({ length: 2_048 }, (_, length) => `${END}$${length}${END}`);
const headOf = (length: number): string => HEADS[length] ?? `${END}$${length}${END}`;

const OPS = Object.fromEntries([..."PMFAGLCZzQqOSTw"].map((code) => [code, headOf(1) + code])) as Readonly<
  Record<"P" | "M" | "F" | "A" | "G" | "L" | "C" | "Z" | "z" | "Q" | "q" | "O" | "S" | "T" | "w", string>
>;

function encoded(write: (args: Args) => void): Encoded {
  const narrow = new Args(false);
  write(narrow);
  const text = narrow.text();
  if (Buffer.byteLength(text) === text.length) return { text, count: narrow.count, bytes: text.length };
  const wide = new Args(true);
  write(wide);
  const wideText = wide.text();
  return { text: wideText, count: wide.count, bytes: Buffer.byteLength(wideText) };
}

/** The text that a put writes or appends; "" for a deletion. */
function recordOf(put: Put): string {
  if (put.value === null) return "";
  const { table, id, expect, to } = put;
  const next = expect === null ? UNKNOWN : String(expect + 1);
  const body = `${encodeValue(put)}\n${next} ${to.dueMs ?? "-"} ${to.queue?.score ?? "-"}`;
  return body + SUM + sumOf(ridOf(table, id), body);
}

function addPut(args: Args, { table, id, expect, from, to }: Put, record: string): void {
  const dueMs = record === "" ? null : to.dueMs;
  args.op(isDelta(record) ? "M" : "P").add(ridOf(table, id));
  args.add(expect === null ? "" : String(expect)).add(expect === null ? "" : String(expect + 1));
  args.add(record);
  args.add(dueMs === from.dueMs ? "=" : String(dueMs ?? ""));
}

/** Placeholder for a version that only the server knows. */
const UNKNOWN = "?";

function addGuards(args: Args, change: Change): void {
  const deltas = deltasOf(change.puts);
  // A handful at most: an array is faster than a set.
  const moved: (typeof deltas)[number][] = [];
  for (const guard of inCheckOrder(change.guards)) {
    switch (guard.kind) {
      case "fence":
        args.op("F").add(ridOf(guard.table, guard.id)).add(String(guard.fence));
        break;
      case "absent":
        args.op("A").add(ridOf(guard.table, guard.id));
        break;
      case "free":
        args.op("L").add(lockName(guard.lock));
        break;
      case "counter": {
        const { group, name } = guard.counter;
        const own = deltas.find(({ counter }) => counter.group === group && counter.name === name);
        // `C` checks and updates the counter. A second guard on the same counter must only check.
        args.op(own === undefined || moved.includes(own) ? "G" : "C");
        args
          .add(group)
          .add(name)
          .add(String(own?.delta ?? 0))
          .add(String(guard.max));
        if (own !== undefined) moved.push(own);
        break;
      }
      default:
        guard satisfies never;
    }
  }
  for (const own of deltas) {
    if (moved.includes(own)) continue;
    args.op("C").add(own.counter.group).add(own.counter.name).add(String(own.delta)).add("");
  }
}

function addMoves(args: Args, put: Put): void {
  const { listsRemoved, listsAdded, queueRemoved, queueAdded } = movesOf(put);
  for (const entry of listsRemoved) addList(args, "z", put, entry);
  for (const entry of listsAdded) addList(args, "Z", put, entry);
  if (queueRemoved !== null) args.op("q").add(ridOf(put.table, queueRemoved.name)).add(put.id);
  if (queueAdded !== null) {
    args.op("Q").add(ridOf(put.table, queueAdded.name)).add(put.id).add(String(queueAdded.score));
  }
}

function addList(args: Args, op: "Z" | "z", { table, id }: Put, { name, score }: Entry): void {
  args.op(op).add(ridOf(table, name)).add(memberOf(score, id));
}
