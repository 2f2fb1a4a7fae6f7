import { describe, expect, test } from "vitest";
import { FenceAllocator } from "../../src/ports/fence-allocator.ts";

describe("fences drawn ahead", () => {
  test("are each given once, growing, from block to block, whoever else draws meanwhile", async () => {
    const counter = new Counter();
    const stock = new FenceAllocator(counter.draw);
    const fences = await takeSome(stock, 3_000, () => counter.acquire());
    expect(new Set(fences).size).toBe(3_000);
    expect(fences).toEqual([...fences].sort((a, b) => a - b));
    for (const fence of counter.elsewhere) expect(fences).not.toContain(fence);
  });

  test("of two processes are never the same", async () => {
    const counter = new Counter();
    const stocks = [new FenceAllocator(counter.draw), new FenceAllocator(counter.draw)];
    const fences = await Promise.all(stocks.map((stock) => takeSome(stock, 2_000)));
    expect(new Set(fences.flat()).size).toBe(4_000);
  });

  test("are none until a block is there, and the wish for one is made once", async () => {
    const counter = new Counter();
    const stock = new FenceAllocator(counter.draw);
    expect([stock.take("acme", 0), stock.take("acme", 0)]).toEqual([null, null]);
    await drawn();
    expect(stock.take("acme", 0)).toBe(1);
    expect(counter.draws).toBe(1);
  });

  test("are larger than what stands on the record: a later block serves it, those before it are not given any more", async () => {
    const counter = new Counter();
    const stock = new FenceAllocator(counter.draw);
    stock.take("acme", 0);
    await drawn();
    const first = stock.take("acme", 0) ?? 0;
    // Somebody acquired the lock after the block was drawn, and wrote.
    const above = counter.acquire();
    expect(stock.take("acme", above)).toBeNull();
    expect(stock.take("acme", 0)).toBe(first + 1);
    // Half of the block is used: the next one is drawn, behind that fence.
    let last = first + 1;
    while (counter.draws < 2) last = stock.take("acme", 0) ?? 0;
    await drawn();
    const later = stock.take("acme", above) ?? 0;
    expect(later).toBeGreaterThan(above);
    expect(last).toBeLessThan(above);
    expect(stock.take("acme", 0)).toBe(later + 1);
  });

  test("come from the next block without a gap: it is drawn while half of the last is left", async () => {
    const counter = new Counter();
    const stock = new FenceAllocator(counter.draw);
    stock.take("acme", 0);
    await drawn();
    for (let given = 1; given <= 10_000; given += 1) {
      expect(stock.take("acme", 0)).not.toBeNull();
      if (given % 256 === 0) await drawn();
    }
    expect(counter.draws).toBeLessThanOrEqual(11);
  });

  test("are drawn again with the next wish where drawing failed", async () => {
    const counter = new Counter();
    const stock = new FenceAllocator(counter.draw);
    counter.isAway = true;
    stock.take("acme", 0);
    await drawn();
    expect(stock.take("acme", 0)).toBeNull();
    await drawn();
    counter.isAway = false;
    expect(stock.take("acme", 0)).toBeNull();
    await drawn();
    expect(stock.take("acme", 0)).toBe(1);
  });

  test("are counted by org, for so many of them: the oldest begins anew, with larger ones", async () => {
    const counters = new Map<string, Counter>();
    const counterOf = (org: string): Counter => {
      const counter = counters.get(org) ?? new Counter();
      counters.set(org, counter);
      return counter;
    };
    const stock = new FenceAllocator((org, count) => counterOf(org).draw(org, count));
    const orgs = Array.from({ length: 1_001 }, (_, at) => `org-${at}`);
    for (const org of orgs) stock.take(org, 0);
    await drawn();
    expect(stock.take("org-1", 0)).toBe(1);
    expect(stock.take("org-1000", 0)).toBe(1);
    expect(stock.take("org-0", 0)).toBeNull();
    await drawn();
    expect(stock.take("org-0", 0)).toBeGreaterThan(1);
    expect(counterOf("org-0").draws).toBe(2);
  });
});

/** The counter of an org, on a server that many draw from. */
class Counter {
  draws = 0;
  isAway = false;
  readonly elsewhere: number[] = [];
  #last = 0;

  readonly draw = async (_org: string, count: number): Promise<number> => {
    this.draws += 1;
    if (this.isAway) throw new Error("away");
    this.#last += count;
    return this.#last;
  };

  /** By somebody else who takes a lock. */
  acquire(): number {
    this.#last += 1;
    this.elsewhere.push(this.#last);
    return this.#last;
  }
}

const drawn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function takeSome(stock: FenceAllocator, count: number, between: () => void = () => {}): Promise<number[]> {
  const fences: number[] = [];
  while (fences.length < count) {
    const fence = stock.take("acme", 0);
    if (fence !== null) fences.push(fence);
    if (fence === null || fences.length % 100 === 0) {
      between();
      await drawn();
    }
  }
  return fences;
}
