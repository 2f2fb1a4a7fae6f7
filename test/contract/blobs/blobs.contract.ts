import { afterEach, describe, expect, it } from "vitest";
import { BLOB_BYTES_MAX, type Blobs } from "../../../src/ports/blobs.ts";

/** The interface between the blobs contract and an adapter's test harness. */
export interface BlobsSubject {
  readonly blobs: Blobs;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** The subject's clock, in milliseconds. */
  now(): number;
  /** Advances the subject's clock. */
  pass(ms: number): Promise<void>;
  /** Closes and reopens the adapter on the same data; absent if not possible. */
  reopen?(): Promise<Blobs>;
  close(): Promise<void>;
}

/** The contract suite of the Blobs port (`src/ports/blobs.ts`) for all adapters. `open` returns an empty blob store. */
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
  test("returns the bytes that were put", async ({ blobs, run, now }) => {
    const cases = [new Uint8Array(), bytesOf(1), bytesOf(256), bytesOf(100_000), new TextEncoder().encode("héllo\0")];
    for (const [index, bytes] of cases.entries()) {
      await run(blobs.put(`res:${index}`, bytes, now() + HOUR_MS));
      const found = await run(blobs.get(`res:${index}`));
      expect(found).toBeInstanceOf(Uint8Array);
      expect([...found!]).toEqual([...bytes]);
    }
  });

  test("returns null for an unknown key", async ({ blobs, run }) => {
    expect(await run(blobs.get("res:unknown"))).toBeNull();
  });

  test("never replaces bytes (L59)", async ({ blobs, run, now, pass }) => {
    await run(blobs.put("ctx:a", bytesOf(1_000), now() + 500));
    const others = [bytesOf(1_000, 3), bytesOf(10), bytesOf(1_001), new Uint8Array()];
    for (const bytes of others) {
      await expect(run(blobs.put("ctx:a", bytes, now() + HOUR_MS))).rejects.toMatchObject({ name: "BlobConflict" });
      expect([...(await run(blobs.get("ctx:a")))!]).toEqual([...bytesOf(1_000)]);
    }
    await pass(600);
    expect(await run(blobs.get("ctx:a"))).toBeNull();
  });

  test("of concurrent puts to one key, stores the bytes of one", async ({ blobs, run, now }) => {
    const puts = Array.from({ length: 20 }, (_, index) => blobs.put("a", bytesOf(100, index), now() + HOUR_MS));
    const settled = await run(Promise.allSettled(puts));
    expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const stored = settled.findIndex(({ status }) => status === "fulfilled");
    expect([...(await run(blobs.get("a")))!]).toEqual([...bytesOf(100, stored)]);
  });

  test("deletes a blob, idempotently, and keeps others", async ({ blobs, run, now }) => {
    await run(blobs.put("a", bytesOf(10), now() + HOUR_MS));
    await run(blobs.put("b", bytesOf(10), now() + HOUR_MS));
    await run(blobs.delete("a"));
    await run(blobs.delete("a"));
    await run(blobs.delete("unknown"));
    expect(await run(blobs.get("a"))).toBeNull();
    expect(await run(blobs.get("b"))).not.toBeNull();
  });

  test("stores a blob of the maximum size; rejects a larger one without writing", async ({ blobs, run, now }) => {
    await run(blobs.put("large", bytesOf(BLOB_BYTES_MAX), now() + HOUR_MS));
    expect(await run(blobs.get("large"))).toHaveLength(BLOB_BYTES_MAX);
    await expect(run(blobs.put("larger", bytesOf(BLOB_BYTES_MAX + 1), now() + HOUR_MS))).rejects.toThrow("larger");
    expect(await run(blobs.get("larger"))).toBeNull();
  });

  test("stores all puts of one tick", async ({ blobs, run, now }) => {
    const keys = Array.from({ length: 200 }, (_, index) => `k${index}`);
    await run(Promise.all(keys.map((key, index) => blobs.put(key, bytesOf(50, index), now() + HOUR_MS))));
    const found = await run(Promise.all(keys.map((key) => blobs.get(key))));
    for (const [index, bytes] of found.entries()) expect([...bytes!]).toEqual([...bytesOf(50, index)]);
  });

  test("keeps blobs across a restart", async ({ blobs, run, now, reopen }, skip) => {
    if (!reopen) return skip("the harness cannot restart these blobs");
    await run(blobs.put("a", bytesOf(1_000), now() + HOUR_MS));
    const again = await reopen();
    expect([...(await run(again.get("a")))!]).toEqual([...bytesOf(1_000)]);
  });
}

function expiryCases(test: BlobsCase): void {
  test("returns null for an expired blob, and allows its key to be used again", async ({ blobs, run, now, pass }) => {
    await run(blobs.put("short", bytesOf(10), now() + 100));
    await run(blobs.put("long", bytesOf(10), now() + HOUR_MS));
    expect(await run(blobs.get("short"))).not.toBeNull();
    await pass(150);
    expect(await run(blobs.get("short"))).toBeNull();
    expect(await run(blobs.get("long"))).not.toBeNull();
    await run(blobs.put("short", bytesOf(20), now() + HOUR_MS));
    expect(await run(blobs.get("short"))).toHaveLength(20);
  });

  test("adopts a later expiry of equal bytes, and no earlier one", async ({ blobs, run, now, pass }) => {
    await run(blobs.put("a", bytesOf(10), now() + 300));
    await run(blobs.put("a", bytesOf(10), now() + HOUR_MS));
    await run(blobs.put("a", bytesOf(10), now() + 300));
    await pass(400);
    expect([...(await run(blobs.get("a")))!]).toEqual([...bytesOf(10)]);
  });

  test("returns null for a blob that was already expired when put", async ({ blobs, run, now }) => {
    await run(blobs.put("late", bytesOf(10), now() - 1_000));
    expect(await run(blobs.get("late"))).toBeNull();
  });
}
