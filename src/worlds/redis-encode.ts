import type { Entry } from "../model/table.ts";
import { type Change, deltasOf, type Guard, movesOf, type Put } from "../ports/store.ts";

/**
 * Changes and records as Redis is told them.
 *
 * A change becomes text in the server's own protocol at once, without a list of arguments in between: a batch has
 * thousands of them, and a driver looks at each several times. Lengths are counted in characters first; only a text
 * that turns out not to be plain ASCII is encoded again with lengths in bytes.
 *
 * A record is "version due score\njson": its version, its time and its score in a queue ("-" for none).
 */
export interface Encoded {
  readonly text: string;
  /** How many arguments the text has. */
  readonly count: number;
  readonly isAscii: boolean;
}

export function encodeArgs(values: readonly string[]): Encoded {
  return encoded((args) => {
    for (const value of values) args.add(value);
  });
}

/** The arguments of `COMMIT` for one change. */
export function encodeChange(change: Change): Encoded {
  const records = change.puts.map((put) => (put.value === null ? null : JSON.stringify(put.value)));
  const messages = change.sends.map((message) => JSON.stringify(message));
  return encoded((args) => {
    for (const [at, put] of change.puts.entries()) addPut(args, put, records[at] ?? null);
    addGuards(args, change);
    for (const put of change.puts) addMoves(args, put);
    for (const [at, message] of change.sends.entries()) {
      args.add("O").add(String(change.atMs)).add(message.id).add(messages[at]!);
    }
    for (const { name, delta } of change.totals ?? []) args.add("T").add(name).add(String(delta));
    for (const { group, name } of change.watch) args.add("w").add(group).add(name);
    args.putFirst(String(args.count + 1));
  });
}

/** Taking messages out of the outbox, as a change without anything else. */
export function encodeSent(messageIds: readonly string[]): Encoded {
  return encoded((args) => {
    for (const id of messageIds) args.add("S").add(id);
    args.putFirst(String(args.count + 1));
  });
}

/** The order in which guards are checked and numbered: fences before all others. */
export function guardsInOrder(guards: readonly Guard[]): readonly Guard[] {
  const fences = guards.filter(({ kind }) => kind === "fence");
  return fences.length === 0 ? guards : [...fences, ...guards.filter(({ kind }) => kind !== "fence")];
}

export const ridOf = (table: string, id: string): string => `${table}/${id}`;

export const memberOf = (score: number, id: string): string =>
  `${score.toString(16).padStart(MEMBER_SCORE_DIGITS, "0")}:${id}`;

export const idOfMember = (member: string): string => member.slice(MEMBER_SCORE_DIGITS + 1);

/** 2^52 - 1 in hexadecimal. */
const MEMBER_SCORE_DIGITS = 13;

export interface Decoded {
  readonly version: number;
  readonly dueMs: number | null;
  readonly value: unknown;
}

export function decodeRecord(text: string): Decoded {
  const end = text.indexOf("\n");
  const [version, due] = text.slice(0, end).split(" ");
  return { version: Number(version), dueMs: due === "-" ? null : Number(due), value: JSON.parse(text.slice(end + 1)) };
}

/** Text in the server's protocol, growing. */
class Args {
  text = "";
  count = 0;
  readonly #isWide: boolean;

  constructor(isWide: boolean) {
    this.#isWide = isWide;
  }

  add(value: string): this {
    this.text += this.#bulk(value);
    this.count += 1;
    return this;
  }

  putFirst(value: string): void {
    this.text = this.#bulk(value) + this.text;
    this.count += 1;
  }

  #bulk(value: string): string {
    const length = this.#isWide ? Buffer.byteLength(value) : value.length;
    return `${LENGTHS[length] ?? `$${length}\r\n`}${value}\r\n`;
  }
}

const LENGTHS: readonly string[] = Array.from({ length: 2_048 }, (_, length) => `$${length}\r\n`);

function encoded(write: (args: Args) => void): Encoded {
  const narrow = new Args(false);
  write(narrow);
  if (Buffer.byteLength(narrow.text) === narrow.text.length) {
    return { text: narrow.text, count: narrow.count, isAscii: true };
  }
  const wide = new Args(true);
  write(wide);
  return { text: wide.text, count: wide.count, isAscii: false };
}

function addPut(args: Args, { table, id, expect, from, to }: Put, json: string | null): void {
  const dueMs = json === null ? null : to.dueMs;
  args.add("P").add(ridOf(table, id));
  args.add(expect === null ? "" : String(expect)).add(expect === null ? "" : String(expect + 1));
  args.add(
    json === null ? "" : `${expect === null ? "" : expect + 1} ${dueMs ?? "-"} ${to.queue?.score ?? "-"}\n${json}`,
  );
  args.add(dueMs === from.dueMs ? "=" : String(dueMs ?? ""));
}

function addGuards(args: Args, change: Change): void {
  const deltas = deltasOf(change.puts);
  const moved = new Set<(typeof deltas)[number]>();
  for (const guard of guardsInOrder(change.guards)) {
    switch (guard.kind) {
      case "fence":
        args.add("F").add(ridOf(guard.table, guard.id)).add(String(guard.fence));
        break;
      case "absent":
        args.add("A").add(ridOf(guard.table, guard.id));
        break;
      case "counter": {
        const { group, name } = guard.counter;
        const own = deltas.find(({ counter }) => counter.group === group && counter.name === name);
        // One operation checks and moves; a second guard on the same counter must not move it again.
        args.add(own === undefined || moved.has(own) ? "G" : "C");
        args
          .add(group)
          .add(name)
          .add(String(own?.delta ?? 0))
          .add(String(guard.max));
        if (own !== undefined) moved.add(own);
        break;
      }
      default:
        guard satisfies never;
    }
  }
  for (const own of deltas) {
    if (moved.has(own)) continue;
    args.add("C").add(own.counter.group).add(own.counter.name).add(String(own.delta)).add("");
  }
}

function addMoves(args: Args, put: Put): void {
  const { listsRemoved, listsAdded, queueRemoved, queueAdded } = movesOf(put);
  // The lists of a record mostly share one score, and a score takes long to write down.
  let score = -1;
  let member = "";
  const addList = (op: string, entry: Entry): void => {
    if (entry.score !== score) {
      score = entry.score;
      member = memberOf(score, put.id);
    }
    args.add(op).add(ridOf(put.table, entry.name)).add(member);
  };
  for (const entry of listsRemoved) addList("z", entry);
  for (const entry of listsAdded) addList("Z", entry);
  if (queueRemoved !== null) args.add("q").add(ridOf(put.table, queueRemoved.name)).add(put.id);
  if (queueAdded !== null) {
    args.add("Q").add(ridOf(put.table, queueAdded.name)).add(put.id).add(String(queueAdded.score));
  }
}
