import { afterEach, describe, expect, it } from "vitest";
import { BLOB_BYTES_MAX, type Blobs } from "../../../src/ports/blobs.ts";

/** What the blobs contract asks of an adapter's harness. */
export interface BlobsSubject {
  readonly blobs: Blobs;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** The subject's clock, in milliseconds. */
  now(): number;
  /** Lets time pass on the subject's clock. */
  pass(ms: number): Promise<void>;
  /** The same data after the adapter was closed and opened again; absent where that cannot be done. */
  reopen?(): Promise<Blobs>;
  close(): Promise<void>;
}

/** What all blobs promise (`src/ports/blobs.ts`), as one suite for all adapters. `open` answers with empty ones. */
export function blobsContract(name: string, open: () => Promise<BlobsSubject>): void {
  describe(`blobs contract: ${name}`, () => {
    const opened: BlobsSubject[] = [];
    afterEach(async () => {
      for (const subject of opened.splice(0)) await subject.close();
    });
    const test: BlobsCase = (title, body) =>
      it(title, async (context) => {
        const subject = await open();
        opened.push(subject);
        const skip = (reason: string) => {
          process.stderr.write(`skipped: ${name}: ${title}: ${reason}\n`);
          context.skip(reason);
        };
        await body(subject, skip);
      });
    byteCases(test);
    expiryCases(test);
  });
}

type BlobsCase = (
  title: string,
  body: (subject: BlobsSubject, skip: (reason: string) => void) => Promise<void>,
) => void;

const HOUR_MS = 3_600_000;
const bytesOf = (length: number, seed = 7): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => (index * 31 + seed * 17) % 256);

function byteCases(test: BlobsCase): void {
  test("bytes come back as they were put, all of them", async ({ blobs, run, now }) => {
    const cases = [new Uint8Array(), bytesOf(1), bytesOf(256), bytesOf(100_000), new TextEncoder().encode("héllo\0")];
    for (const [index, bytes] of cases.entries()) {
      await run(blobs.put(`res:${index}`, bytes, now() + HOUR_MS));
      const found = await run(blobs.get(`res:${index}`));
      expect(found).toBeInstanceOf(Uint8Array);
      expect([...found!]).toEqual([...bytes]);
    }
  });

  test("what was never put is null", async ({ blobs, run }) => {
    expect(await run(blobs.get("res:nobody"))).toBeNull();
  });

  test("a second put replaces the first, bytes and expiry", async ({ blobs, run, now, pass }) => {
    await run(blobs.put("ctx:a", bytesOf(1_000), now() + 100));
    await run(blobs.put("ctx:a", bytesOf(10, 3), now() + HOUR_MS));
    await pass(200);
    expect([...(await run(blobs.get("ctx:a")))!]).toEqual([...bytesOf(10, 3)]);
  });

  test("deleting removes, twice does no harm, and others stay", async ({ blobs, run, now }) => {
    await run(blobs.put("a", bytesOf(10), now() + HOUR_MS));
    await run(blobs.put("b", bytesOf(10), now() + HOUR_MS));
    await run(blobs.delete("a"));
    await run(blobs.delete("a"));
    await run(blobs.delete("nobody"));
    expect(await run(blobs.get("a"))).toBeNull();
    expect(await run(blobs.get("b"))).not.toBeNull();
  });

  test("the largest blob is kept; a larger one is refused and writes nothing", async ({ blobs, run, now }) => {
    await run(blobs.put("large", bytesOf(BLOB_BYTES_MAX), now() + HOUR_MS));
    expect(await run(blobs.get("large"))).toHaveLength(BLOB_BYTES_MAX);
    await expect(run(blobs.put("larger", bytesOf(BLOB_BYTES_MAX + 1), now() + HOUR_MS))).rejects.toThrow("larger");
    expect(await run(blobs.get("larger"))).toBeNull();
  });

  test("puts of one tick each arrive", async ({ blobs, run, now }) => {
    const keys = Array.from({ length: 200 }, (_, index) => `k${index}`);
    await run(Promise.all(keys.map((key, index) => blobs.put(key, bytesOf(50, index), now() + HOUR_MS))));
    const found = await run(Promise.all(keys.map((key) => blobs.get(key))));
    for (const [index, bytes] of found.entries()) expect([...bytes!]).toEqual([...bytesOf(50, index)]);
  });

  test("blobs are there after a restart", async ({ blobs, run, now, reopen }, skip) => {
    if (!reopen) return skip("the harness cannot restart these blobs");
    await run(blobs.put("a", bytesOf(1_000), now() + HOUR_MS));
    const again = await reopen();
    expect([...(await run(again.get("a")))!]).toEqual([...bytesOf(1_000)]);
  });
}

function expiryCases(test: BlobsCase): void {
  test("an expired blob is null, and its key may be used again", async ({ blobs, run, now, pass }) => {
    await run(blobs.put("short", bytesOf(10), now() + 100));
    await run(blobs.put("long", bytesOf(10), now() + HOUR_MS));
    expect(await run(blobs.get("short"))).not.toBeNull();
    await pass(150);
    expect(await run(blobs.get("short"))).toBeNull();
    expect(await run(blobs.get("long"))).not.toBeNull();
    await run(blobs.put("short", bytesOf(20), now() + HOUR_MS));
    expect(await run(blobs.get("short"))).toHaveLength(20);
  });

  test("a blob that is expired when it is put is never seen", async ({ blobs, run, now }) => {
    await run(blobs.put("late", bytesOf(10), now() - 1_000));
    expect(await run(blobs.get("late"))).toBeNull();
  });
}
