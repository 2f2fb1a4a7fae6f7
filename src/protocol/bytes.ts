/**
 * Reader and writer of the protobuf wire format.
 *
 * 1. The reader returns a value or throws a `MalformedError` for any input. It never reads past the end.
 * 2. 64-bit integers are numbers if a number is exact, else bigints. They are never rounded.
 */
export class MalformedError extends Error {
  readonly code = "MALFORMED_PACKET";
  override readonly name = "MalformedError";
}

export type WireType = 0 | 1 | 2 | 5;

/** Below this length a loop over the characters is faster than a native call. */
const LOOP_LENGTH_MAX = 40;

/** A substring keeps the whole string alive, so this is small. */
const WHOLE_LENGTH_MAX = 1_024;

export class Writer {
  pos = 0;
  #buf = Buffer.allocUnsafe(8 * 1024);

  /** Copies the bytes written since `pos` was 0. */
  finish(): Uint8Array {
    const out = Buffer.allocUnsafe(this.pos);
    this.#buf.copy(out, 0, 0, this.pos);
    return out;
  }

  uint32(value: number): void {
    this.#need(5);
    const buf = this.#buf;
    let rest = value;
    while (rest > 0x7f) {
      buf[this.pos++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    buf[this.pos++] = rest;
  }

  /** Negative values are two's complement in ten bytes, for int32 and int64. */
  int64(value: number | bigint): void {
    if (typeof value === "number" && value >= 0 && value <= 0xffffffff) {
      this.uint32(value);
      return;
    }
    this.#need(10);
    if (typeof value === "number" && value >= 0) {
      let large = value;
      while (large > 0xffffffff) {
        this.#buf[this.pos++] = (large % 128) | 0x80;
        large = Math.floor(large / 128);
      }
      this.uint32(large);
      return;
    }
    let rest = BigInt.asUintN(64, BigInt(value));
    while (rest > 0x7fn) {
      this.#buf[this.pos++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.#buf[this.pos++] = Number(rest);
  }

  float(value: number): void {
    this.#need(4);
    this.pos = this.#buf.writeFloatLE(value, this.pos);
  }

  double(value: number): void {
    this.#need(8);
    this.pos = this.#buf.writeDoubleLE(value, this.pos);
  }

  string(value: string): void {
    const length = value.length;
    if (length < LOOP_LENGTH_MAX && this.#ascii(value, length)) return;
    const size = Buffer.byteLength(value, "utf8");
    this.uint32(size);
    this.#need(size);
    // Equal byte and character counts mean ASCII.
    this.pos += size === length ? this.#buf.latin1Write(value, this.pos) : this.#buf.utf8Write(value, this.pos);
  }

  bytes(value: Uint8Array): void {
    this.uint32(value.length);
    this.raw(value);
  }

  raw(value: Uint8Array): void {
    this.#need(value.length);
    this.#buf.set(value, this.pos);
    this.pos += value.length;
  }

  /** Starts a length-delimited value. `close` takes the returned position. */
  open(): number {
    this.#need(1);
    return this.pos++;
  }

  close(start: number): void {
    const size = this.pos - start - 1;
    if (size < 0x80) {
      this.#buf[start] = size;
      return;
    }
    // One byte was reserved for the length: move the content if more are needed.
    const more = size < 0x4000 ? 1 : size < 0x200000 ? 2 : size < 0x10000000 ? 3 : 4;
    this.#need(more);
    this.#buf.copyWithin(start + 1 + more, start + 1, this.pos);
    this.pos = start;
    this.uint32(size);
    this.pos += size;
  }

  #ascii(value: string, length: number): boolean {
    this.#need(length + 1);
    const buf = this.#buf;
    let at = this.pos;
    buf[at++] = length;
    for (let index = 0; index < length; index++) {
      const unit = value.charCodeAt(index);
      if (unit > 0x7f) return false;
      buf[at++] = unit;
    }
    this.pos = at;
    return true;
  }

  #need(size: number): void {
    if (this.pos + size <= this.#buf.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buf.length * 2, this.pos + size));
    this.#buf.copy(larger, 0, 0, this.pos);
    this.#buf = larger;
  }
}

export class Reader {
  readonly buf: Buffer;
  pos = 0;
  /** End of the input, or of the current length-delimited value. */
  end: number;
  /** Cache: a small input is converted to a string once, and its strings are substrings of it. */
  #whole: string | null = null;

  constructor(bytes: Uint8Array) {
    this.buf = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.end = bytes.length;
  }

  /** Unsigned low 32 bits of a varint. */
  uint32(): number {
    const buf = this.buf;
    if (this.pos < this.end) {
      const first = buf[this.pos]!;
      if (first < 0x80) {
        this.pos++;
        return first;
      }
    }
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.pos >= this.end) throw truncated();
      const byte = buf[this.pos++]!;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw new MalformedError("varint longer than ten bytes");
  }

  int64(): number | bigint {
    const start = this.pos;
    let value = 0;
    for (let factor = 1; factor <= 0x10_0000_0000_0000; factor *= 128) {
      if (this.pos >= this.end) throw truncated();
      const byte = this.buf[this.pos++]!;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        if (Number.isSafeInteger(value)) return value;
        break;
      }
    }
    this.pos = start;
    return this.#int64Long();
  }

  bool(): boolean {
    return this.int64() !== 0;
  }

  float(): number {
    return this.buf.readFloatLE(this.#skip(4));
  }

  double(): number {
    return this.buf.readDoubleLE(this.#skip(8));
  }

  string(): string {
    const size = this.uint32();
    const start = this.#skip(size);
    const stop = this.pos;
    const buf = this.buf;
    for (let at = start; at < stop; at++) {
      if (buf[at]! > 0x7f) return utf8(buf.subarray(start, stop));
    }
    if (size === 0) return "";
    if (buf.length > WHOLE_LENGTH_MAX) return buf.latin1Slice(start, stop);
    this.#whole ??= buf.latin1Slice(0, buf.length);
    return this.#whole.substring(start, stop);
  }

  /** Copies, so that a small value does not keep a large input alive. */
  bytes(): Uint8Array {
    const size = this.uint32();
    const start = this.#skip(size);
    return new Uint8Array(this.buf.subarray(start, this.pos));
  }

  /** Enters a length-delimited value. `leave` takes the returned position. */
  enter(): number {
    const size = this.uint32();
    const outer = this.end;
    if (size > outer - this.pos) throw truncated();
    this.end = this.pos + size;
    return outer;
  }

  leave(outer: number): void {
    this.end = outer;
  }

  skip(wire: number): void {
    switch (wire) {
      case 0:
        this.int64();
        return;
      case 1:
        this.#skip(8);
        return;
      case 2:
        this.#skip(this.uint32());
        return;
      case 5:
        this.#skip(4);
        return;
      default:
        throw new MalformedError(`unknown wire type ${wire}`);
    }
  }

  #skip(size: number): number {
    const start = this.pos;
    if (size > this.end - start) throw truncated();
    this.pos = start + size;
    return start;
  }

  #int64Long(): number | bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.pos >= this.end) throw truncated();
      const byte = this.buf[this.pos++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        const signed = BigInt.asIntN(64, value);
        return Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
      }
    }
    throw new MalformedError("varint longer than ten bytes");
  }
}

function truncated(): MalformedError {
  return new MalformedError("unexpected end of input");
}

/** Strict: invalid UTF-8 throws. A byte order mark is part of the text. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function utf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new MalformedError("invalid UTF-8");
  }
}

declare global {
  interface Buffer {
    /** Missing from the Node types. */
    latin1Slice(start: number, end: number): string;
    latin1Write(text: string, start: number): number;
    utf8Write(text: string, start: number): number;
  }
}
