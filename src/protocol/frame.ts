import { MalformedError, Reader, Writer } from "./bytes.ts";

/**
 * Frames: several packets in one message, between processes of the control plane.
 *
 *   byte 0x07 · byte version 1 · count · count × (id as string, packet as bytes)     numbers are varints
 *
 * 1. A frame is recognized by its first byte: no packet begins with 0x07, which is the invalid protobuf tag of field 0 with
 *    wire type 7.
 * 2. A damaged frame cannot be decoded at all. A damaged packet does not affect the other packets of its frame.
 */
export interface FrameItem {
  readonly id: string;
  readonly bytes: Uint8Array;
}

export const FRAME_ITEMS_MAX = 256;

export const isFrame = (bytes: Uint8Array): boolean => bytes[0] === MAGIC;

export function encodeFrame(items: readonly FrameItem[]): Uint8Array {
  if (items.length === 0 || items.length > FRAME_ITEMS_MAX) {
    throw new MalformedError(`frame of ${items.length} packets: must have 1 to ${FRAME_ITEMS_MAX}`);
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

/** The packets are views of the frame. */
export function decodeFrame(bytes: Uint8Array): FrameItem[] {
  const reader = new Reader(bytes);
  if (reader.uint32() !== MAGIC) throw new MalformedError("not a frame");
  const version = reader.uint32();
  if (version !== VERSION) throw new MalformedError(`unknown frame version ${version}`);
  const count = reader.uint32();
  if (count === 0 || count > FRAME_ITEMS_MAX) throw new MalformedError(`frame of ${count} packets`);
  const items: FrameItem[] = [];
  for (let index = 0; index < count; index++) {
    const id = reader.string();
    if (id === "") throw new MalformedError("packet without an id in a frame");
    const outer = reader.enter();
    items.push({ id, bytes: reader.buf.subarray(reader.pos, reader.end) });
    reader.pos = reader.end;
    reader.leave(outer);
  }
  if (reader.pos !== reader.end) throw new MalformedError("trailing bytes after a frame");
  return items;
}

const MAGIC = 0x07;
const VERSION = 1;

const writer = new Writer();
