import type { Entry } from "../../core/model/table.ts";
import { type Change, deltasOf, type Guard, movesOf, type Put } from "../../ports/store.ts";
import { decodeValue, encodeValue, isDelta } from "../record-text.ts";
import { lockName } from "./keys.ts";

/**
 * Changes and records as Redis is told them.
 *
 * A change becomes text in the server's own protocol at once, without a list of arguments in between: a batch has
 * thousands of them, and a driver looks at each several times. Lengths are counted in characters first; only a text
 * that turns out not to be plain ASCII is encoded again with lengths in bytes. Every argument begins with the line break
 * that ends the one before it: so its head is one known text.
 *
 * A record is "text\nversion due score" (see `record-text.ts`): its version, its time and its score in a queue ("-" for
 * none). What was changed since goes behind it, in the same form: the last line is the one that counts.
 */
export interface Encoded {
  readonly text: string;
  /** How many arguments the text has. */
  readonly count: number;
  /** As many as characters: plain ASCII. */
  readonly bytes: number;
}

/** A command of which these are the arguments, as it is sent. */
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
  const records = puts.map((put) => (put.value === null ? null : encodeValue(put)));
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
    args.countFirst();
  });
}

/** Taking messages out of the outbox, as a change without anything else. */
export function encodeSent(messageIds: readonly string[]): Encoded {
  return encoded((args) => {
    for (const id of messageIds) args.op("S").add(id);
    args.countFirst();
  });
}

/** One call of a script that takes many: the number of its arguments, then they. */
export function encodeCall(values: readonly string[]): Encoded {
  return encoded((args) => {
    for (const value of values) args.add(value);
    args.countFirst();
  });
}

/** The order in which guards are checked and numbered: fences before all others. */
export function guardsInOrder(guards: readonly Guard[]): readonly Guard[] {
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

/** Those of one record share a score, and so do many of one tick; and a score takes long to write down. */
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

export function decodeRecord(record: string): Decoded {
  const end = record.lastIndexOf("\n");
  const [version, due] = record.slice(end + 1).split(" ");
  const first = record.indexOf("\n");
  // Of lines that came one behind the other, every second tells of a version that is past.
  const text =
    first === end
      ? record.slice(0, end)
      : record
          .split("\n")
          .filter((_, at) => at % 2 === 0)
          .join("\n");
  return { version: Number(version), dueMs: due === "-" ? null : Number(due), value: decodeValue(text) };
}

/** Text in the server's protocol, growing: in parts, because joining many texts once is cheaper than adding one by one. */
class Args {
  count = 0;
  /** The first is for `countFirst`. */
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

  /** The letter of an operation. */
  op(deadLetter: keyof typeof OPS): this {
    this.#parts.push(OPS[deadLetter]);
    this.count += 1;
    return this;
  }

  /** Puts the number of arguments, itself included, before them. */
  countFirst(): void {
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

const OPS = Object.fromEntries(
  [..."PMFAGLCZzQqOSTw"].map((deadLetter) => [deadLetter, headOf(1) + deadLetter]),
) as Readonly<Record<"P" | "M" | "F" | "A" | "G" | "L" | "C" | "Z" | "z" | "Q" | "q" | "O" | "S" | "T" | "w", string>>;

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

function addPut(args: Args, { table, id, expect, from, to }: Put, text: string | null): void {
  const dueMs = text === null ? null : to.dueMs;
  const next = expect === null ? UNKNOWN : String(expect + 1);
  args.op(text !== null && isDelta(text) ? "M" : "P").add(ridOf(table, id));
  args.add(expect === null ? "" : String(expect)).add(expect === null ? "" : next);
  args.add(text === null ? "" : `${text}\n${next} ${dueMs ?? "-"} ${to.queue?.score ?? "-"}`);
  args.add(dueMs === from.dueMs ? "=" : String(dueMs ?? ""));
}

/** In the place of a version that only the server knows. */
const UNKNOWN = "?";

function addGuards(args: Args, change: Change): void {
  const deltas = deltasOf(change.puts);
  // A handful at most: a list to look through costs less than a set.
  const moved: (typeof deltas)[number][] = [];
  for (const guard of guardsInOrder(change.guards)) {
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
        // One operation checks and moves; a second guard on the same counter must not move it again.
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
