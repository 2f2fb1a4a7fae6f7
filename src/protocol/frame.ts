import { MalformedError, Reader, Writer } from "./bytes.ts";

/**
 * Frames: many packets in one message, between our own processes.
 *
 *   byte 0x07 · byte version 1 · count · count × (id as text, packet as bytes)     numbers as varints
 *
 * 1. A packet never begins with 0x07: as a protobuf tag it is field 0 of wire type 7, and neither exists. So a frame is
 *    recognised by its bytes.
 * 2. A damaged frame cannot be read at all; a damaged packet inside a good frame is alone.
 */
export interface FrameItem {
  readonly id: string;
  readonly bytes: Uint8Array;
}

export const FRAME_ITEMS_MAX = 256;

export const isFrame = (bytes: Uint8Array): boolean => bytes[0] === MAGIC;

export function encodeFrame(items: readonly FrameItem[]): Uint8Array {
  if (items.length === 0 || items.length > FRAME_ITEMS_MAX) {
    throw new MalformedError(`a frame holds from 1 to ${FRAME_ITEMS_MAX} packets, not ${items.length}`);
  }
  writer.pos = 0;
  writer.uint32(MAGIC);
  writer.uint32(VERSION);
  writer.uint32(items.length);
  for (const item of items) {
    writer.string(item.id);
    writer.bytes(item.bytes);
  }
  return writer.finish();
}

/** The packets are views of the frame's bytes. */
export function decodeFrame(bytes: Uint8Array): FrameItem[] {
  const reader = new Reader(bytes);
  if (reader.uint32() !== MAGIC) throw new MalformedError("not a frame");
  const version = reader.uint32();
  if (version !== VERSION) throw new MalformedError(`frames of version ${version} are not known here`);
  const count = reader.uint32();
  if (count === 0 || count > FRAME_ITEMS_MAX) throw new MalformedError(`a frame of ${count} packets`);
  const items: FrameItem[] = [];
  for (let index = 0; index < count; index++) {
    const id = reader.string();
    if (id === "") throw new MalformedError("a packet in a frame has no id");
    const outer = reader.enter();
    items.push({ id, bytes: reader.buf.subarray(reader.pos, reader.end) });
    reader.pos = reader.end;
    reader.leave(outer);
  }
  if (reader.pos !== reader.end) throw new MalformedError("there are bytes behind the end of a frame");
  return items;
}

const MAGIC = 0x07;
const VERSION = 1;

const writer = new Writer();
