import { fromBase64, toBase64 } from "../../protocol/base64.ts";
import {
  type Acquisition,
  CONTENTION_PATHS,
  type ContentionRecord,
  LEVEL_MAX,
  RECORD_MAX,
  type StoredContention,
} from "./acquisition.ts";

/**
 * Encoding of a contention record. The acquisitions are one base64 text:
 *
 *     keys, then each key as 4 bytes (big endian); acquisitions, then each in order of arrival:
 *     time since the previous arrival (the first: since the epoch), index of the key, wait, hold,
 *     attempts · 16 + isRefused · 8 + wasBlocked · 4 + path
 *
 * Numbers are unsigned LEB128. Another layout needs another `CONTENTION_VERSION`.
 */
export const CONTENTION_VERSION = 1;

export function encodeRecord(record: ContentionRecord): StoredContention {
  const sorted = record.acquisitions.toSorted((a, b) => a.arrivedMs - b.arrivedMs);
  const keys = new Map<number, number>();
  for (const { key } of sorted) if (!keys.has(key)) keys.set(key, keys.size);
  const bytes: number[] = [];
  writeNumber(bytes, keys.size);
  for (const key of keys.keys()) bytes.push(key >>> 24, (key >>> 16) & 0xff, (key >>> 8) & 0xff, key & 0xff);
  writeNumber(bytes, sorted.length);
  let lastMs = 0;
  for (const { key, arrivedMs, waitMs, holdMs, attempts, path, wasBlocked, isRefused } of sorted) {
    writeNumber(bytes, arrivedMs - lastMs);
    lastMs = arrivedMs;
    writeNumber(bytes, keys.get(key) ?? 0);
    writeNumber(bytes, waitMs);
    writeNumber(bytes, holdMs);
    writeNumber(bytes, attempts * 16 + Number(isRefused) * 8 + Number(wasBlocked) * 4 + CONTENTION_PATHS.indexOf(path));
  }
  const { acquisitions: _, ...rest } = record;
  return { version: CONTENTION_VERSION, ...rest, acquisitions: toBase64(Uint8Array.from(bytes)) };
}

/** Throws a `DamagedRecordError` for anything that `encodeRecord` does not write. */
export function decodeRecord(stored: StoredContention): ContentionRecord {
  const { version, acquisitions, ...rest } = stored;
  if (version !== CONTENTION_VERSION) {
    throw new DamagedRecordError(`version \`${version}\` of the contention record is not ${CONTENTION_VERSION}`);
  }
  return { ...rest, acquisitions: decodeAcquisitions(acquisitions) };
}

export class DamagedRecordError extends Error {
  override readonly name = "DamagedRecord";
}

function decodeAcquisitions(text: string): readonly Acquisition[] {
  if (text.length > TEXT_MAX || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw damaged("not base64, or too long");
  const reader = new ByteReader(fromBase64(text));
  const keys = Array.from({ length: reader.count("keys") }, () => reader.word());
  let arrivedMs = 0;
  const acquisitions = Array.from({ length: reader.count("acquisitions") }, (): Acquisition => {
    arrivedMs += reader.number();
    const key = keys[reader.number()];
    const [waitMs, holdMs, packed] = [reader.number(), reader.number(), reader.number()];
    const path = CONTENTION_PATHS[packed % 4];
    const attempts = Math.floor(packed / 16);
    if (key === undefined || path === undefined || attempts < 1) throw damaged("an acquisition has an unknown value");
    const isRefused = Math.floor(packed / 8) % 2 === 1;
    return { key, arrivedMs, waitMs, holdMs, attempts, path, wasBlocked: Math.floor(packed / 4) % 2 === 1, isRefused };
  });
  if (!reader.isAtEnd) throw damaged("bytes follow the last acquisition");
  if (arrivedMs > Number.MAX_SAFE_INTEGER) throw damaged("a time is out of range");
  return acquisitions;
}

class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** A number of items; each takes at least one byte. */
  count(what: string): number {
    const count = this.number();
    if (count > RECORD_MAX || count > this.#bytes.length - this.#at) throw damaged(`too many ${what}`);
    return count;
  }

  word(): number {
    return ((this.#byte() << 24) | (this.#byte() << 16) | (this.#byte() << 8) | this.#byte()) >>> 0;
  }

  number(): number {
    let value = 0;
    for (let factor = 1; factor <= FACTOR_MAX; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
    }
    throw damaged("a number is out of range");
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw damaged("it ends in the middle of an acquisition");
    this.#at += 1;
    return byte;
  }
}

function writeNumber(bytes: number[], value: number): void {
  let rest = Math.min(Math.max(0, Math.round(value)), Number.MAX_SAFE_INTEGER);
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
}

const damaged = (why: string): DamagedRecordError => new DamagedRecordError(`the contention record is damaged: ${why}`);

/** Eight bytes hold every safe integer. */
const FACTOR_MAX = 128 ** 7;
/** 40 bytes per acquisition and its key, in base64. */
const TEXT_MAX = Math.ceil((RECORD_MAX * 40 * 4) / 3);

/** A record as JSON, in responses and files. */
export function recordDocument(stored: StoredContention): object {
  const { version, process, level, dropped, uncontended, inForce, acquisitions } = stored;
  return {
    ...{ version, process, from_ms: stored.fromMs, to_ms: stored.toMs, level, dropped, uncontended },
    ...{ lock_ms: stored.lockMs, return_ms: stored.returnMs, nak_timer_ms: stored.nakTimerMs },
    settings: {
      lock_busy_policy: inForce.lockBusyPolicy,
      engine_wait_ms: inForce.engineWaitMs,
      coalesce: inForce.coalesce,
    },
    acquisitions,
  };
}

/** The inverse of `recordDocument`. Throws a `DamagedRecordError`. */
export function readRecordDocument(value: unknown): ContentionRecord {
  const fields = fieldsOf(value);
  const settings = fieldsOf(fields.settings);
  const [policy, coalesce, acquisitions] = [settings.lock_busy_policy, settings.coalesce, fields.acquisitions];
  if (typeof policy !== "string" || policy.length > POLICY_CHARS_MAX || typeof coalesce !== "boolean")
    throw damaged("`settings` has a wrong type");
  if (typeof acquisitions !== "string") throw damaged("`acquisitions` is not a text");
  const level = wholeOf(fields, "level");
  if (level > LEVEL_MAX) throw damaged(`\`level\` is above ${LEVEL_MAX}`);
  return decodeRecord({
    version: wholeOf(fields, "version"),
    process: wholeOf(fields, "process"),
    ...{ fromMs: wholeOf(fields, "from_ms"), toMs: wholeOf(fields, "to_ms"), level },
    ...{ dropped: wholeOf(fields, "dropped"), uncontended: wholeOf(fields, "uncontended") },
    ...{ lockMs: meanOf(fields, "lock_ms"), returnMs: meanOf(fields, "return_ms") },
    nakTimerMs: meanOf(fields, "nak_timer_ms") ?? 0,
    inForce: { lockBusyPolicy: policy, engineWaitMs: wholeOf(settings, "engine_wait_ms"), coalesce },
    acquisitions,
  });
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw damaged("it is not an object");
}

function wholeOf(fields: Readonly<Record<string, unknown>>, name: string): number {
  const value = fields[name];
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw damaged(`\`${name}\` is not a whole number`);
}

function meanOf(fields: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = fields[name];
  if (value === null) return null;
  if (typeof value === "number" && value >= 0 && value <= MEAN_MS_MAX) return value;
  throw damaged(`\`${name}\` is not a duration`);
}

const POLICY_CHARS_MAX = 100;
const MEAN_MS_MAX = 24 * 3_600_000;
