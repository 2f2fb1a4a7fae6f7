/** Reduces a PNG of a page to a palette of 256 colours: a third of its size, without a visible difference. */
import { crc32, deflateSync, inflateSync } from "node:zlib";

export function smallPng(png: Buffer): Buffer {
  const { width, height, channels, data } = decode(png);
  const colors = new Map<number, number>();
  for (let at = 0; at < data.length; at += channels) {
    const color = colorAt(data, at);
    colors.set(color, (colors.get(color) ?? 0) + 1);
  }
  const palette = paletteOf(colors);
  const indexes = new Map(palette.map((color, index) => [color, index]));
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      rows[y * (width + 1) + 1 + x] = indexOf(colorAt(data, (y * width + x) * channels), palette, indexes);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const table = Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
  const body = deflateSync(rows, { level: 9, memLevel: 9 });
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", table), chunk("IDAT", body), chunk("IEND")]);
}

/** The most frequent colours, then those that are the farthest from them: a small mark keeps its colour. */
function paletteOf(colors: ReadonlyMap<number, number>): readonly number[] {
  const sorted = [...colors].sort(([, a], [, b]) => b - a);
  const palette = sorted.slice(0, FREQUENT).map(([color]) => color);
  const rest = sorted.slice(FREQUENT).map(([color, count]) => {
    return { color, count, distance: Math.min(...palette.map((other) => distanceOf(color, other))) };
  });
  while (palette.length < 256 && rest.length > 0) {
    let best = 0;
    for (const [at, { count, distance }] of rest.entries()) {
      if (distance * count > (rest[best]?.distance ?? 0) * (rest[best]?.count ?? 0)) best = at;
    }
    const [chosen] = rest.splice(best, 1);
    if (chosen === undefined) break;
    palette.push(chosen.color);
    for (const one of rest) one.distance = Math.min(one.distance, distanceOf(one.color, chosen.color));
  }
  return palette;
}

const FREQUENT = 96;

function distanceOf(color: number, other: number): number {
  const red = (color >> 16) - (other >> 16);
  const green = ((color >> 8) & 255) - ((other >> 8) & 255);
  const blue = (color & 255) - (other & 255);
  return red * red + green * green + blue * blue;
}

function indexOf(color: number, palette: readonly number[], indexes: Map<number, number>): number {
  const known = indexes.get(color);
  if (known !== undefined) return known;
  let [best, bestDistance] = [0, Number.POSITIVE_INFINITY];
  for (const [index, other] of palette.entries()) {
    const distance = distanceOf(color, other);
    if (distance < bestDistance) [best, bestDistance] = [index, distance];
  }
  indexes.set(color, best);
  return best;
}

const colorAt = (data: Buffer, at: number): number =>
  ((data[at] ?? 0) << 16) | ((data[at + 1] ?? 0) << 8) | (data[at + 2] ?? 0);

/** 8-bit RGB or RGBA without interlacing: what Chromium writes. */
function decode(png: Buffer) {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const channels = png[25] === 6 ? 4 : 3;
  const parts: Buffer[] = [];
  for (let at = 8; at < png.length; ) {
    const size = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + size));
    at += size + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const data = Buffer.alloc(height * stride);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)] ?? 0;
    for (let x = 0; x < stride; x++) {
      const left = x < channels ? 0 : (data[y * stride + x - channels] ?? 0);
      const up = y === 0 ? 0 : (data[(y - 1) * stride + x] ?? 0);
      const corner = x < channels || y === 0 ? 0 : (data[(y - 1) * stride + x - channels] ?? 0);
      const value = raw[y * (stride + 1) + 1 + x] ?? 0;
      data[y * stride + x] = (value + predicted(filter, left, up, corner)) & 255;
    }
  }
  return { width, height, channels, data };
}

/** The filters of the PNG specification. */
function predicted(filter: number, left: number, up: number, corner: number): number {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter !== 4) return 0;
  const [toLeft, toUp, toCorner] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([size, body, sum]);
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
