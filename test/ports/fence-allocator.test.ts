import { describe, expect, test } from "vitest";
import { FenceAllocator } from "../../src/ports/fence-allocator.ts";

describe("FenceAllocator", () => {
  test("allocates each fence once and in ascending order across blocks, with concurrent draws", async () => {
    const counter = new Counter();
    const allocator = new FenceAllocator(counter.draw);
    const fences = await takeSome(allocator, 3_000, () => counter.acquire());
    expect(new Set(fences).size).toBe(3_000);
    expect(fences).toEqual([...fences].sort((a, b) => a - b));
    for (const fence of counter.acquired) expect(fences).not.toContain(fence);
  });

  test("never allocates the same fence in two processes", async () => {
    const counter = new Counter();
    const allocators = [new FenceAllocator(counter.draw), new FenceAllocator(counter.draw)];
    const fences = await Promise.all(allocators.map((allocator) => takeSome(allocator, 2_000)));
    expect(new Set(fences.flat()).size).toBe(4_000);
  });

  test("returns null until the first block has arrived, and draws it once", async () => {
    const counter = new Counter();
    const allocator = new FenceAllocator(counter.draw);
    expect([allocator.take("acme", 0), allocator.take("acme", 0)]).toEqual([null, null]);
    await drawn();
    expect(allocator.take("acme", 0)).toBe(1);
    expect(counter.draws).toBe(1);
  });

  test("skips to a later block if the record has a larger fence, and abandons the earlier fences", async () => {
    const counter = new Counter();
    const allocator = new FenceAllocator(counter.draw);
    allocator.take("acme", 0);
    await drawn();
    const first = allocator.take("acme", 0) ?? 0;
    // Another process acquired the lock after the block was drawn.
    const above = counter.acquire();
    expect(allocator.take("acme", above)).toBeNull();
    expect(allocator.take("acme", 0)).toBe(first + 1);
    // Half of the block is used, so the next block is drawn past that fence.
    let last = first + 1;
    while (counter.draws < 2) last = allocator.take("acme", 0) ?? 0;
    await drawn();
    const later = allocator.take("acme", above) ?? 0;
    expect(later).toBeGreaterThan(above);
    expect(last).toBeLessThan(above);
    expect(allocator.take("acme", 0)).toBe(later + 1);
  });

  test("draws the next block before the current one is used up", async () => {
    const counter = new Counter();
    const allocator = new FenceAllocator(counter.draw);
    allocator.take("acme", 0);
    await drawn();
    for (let given = 1; given <= 10_000; given += 1) {
      expect(allocator.take("acme", 0)).not.toBeNull();
      if (given % 256 === 0) await drawn();
    }
    expect(counter.draws).toBeLessThanOrEqual(11);
  });

  test("retries a failed draw with the next take", async () => {
    const counter = new Counter();
    const allocator = new FenceAllocator(counter.draw);
    counter.isDown = true;
    allocator.take("acme", 0);
    await drawn();
    expect(allocator.take("acme", 0)).toBeNull();
    await drawn();
    counter.isDown = false;
    expect(allocator.take("acme", 0)).toBeNull();
    await drawn();
    expect(allocator.take("acme", 0)).toBe(1);
  });

  test("keeps blocks for 1,000 orgs; an evicted org draws a new block with larger fences", async () => {
    const counters = new Map<string, Counter>();
    const counterOf = (org: string): Counter => {
      const counter = counters.get(org) ?? new Counter();
      counters.set(org, counter);
      return counter;
    };
    const allocator = new FenceAllocator((org, count) => counterOf(org).draw(org, count));
    const orgs = Array.from({ length: 1_001 }, (_, at) => `org-${at}`);
    for (const org of orgs) allocator.take(org, 0);
    await drawn();
    expect(allocator.take("org-1", 0)).toBe(1);
    expect(allocator.take("org-1000", 0)).toBe(1);
    expect(allocator.take("org-0", 0)).toBeNull();
    await drawn();
    expect(allocator.take("org-0", 0)).toBeGreaterThan(1);
    expect(counterOf("org-0").draws).toBe(2);
  });
});

/** The fence counter of an org, shared by all processes. */
class Counter {
  draws = 0;
  isDown = false;
  readonly acquired: number[] = [];
  #last = 0;

  readonly draw = async (_org: string, count: number): Promise<number> => {
    this.draws += 1;
    if (this.isDown) throw new Error("down");
    this.#last += count;
    return this.#last;
  };

  /** A lock acquisition by another process. */
  acquire(): number {
    this.#last += 1;
    this.acquired.push(this.#last);
    return this.#last;
  }
}

const drawn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function takeSome(allocator: FenceAllocator, count: number, between: () => void = () => {}): Promise<number[]> {
  const fences: number[] = [];
  while (fences.length < count) {
    const fence = allocator.take("acme", 0);
    if (fence !== null) fences.push(fence);
    if (fence === null || fences.length % 100 === 0) {
      between();
      await drawn();
    }
  }
  return fences;
}
