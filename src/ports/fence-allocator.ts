/**
 * Allocates fences from blocks that are drawn ahead, so that `Locks.reserveFence` needs no round trip.
 *
 * 1. Each fence is allocated once, in ascending order, and is larger than `above`. If `above` is past the current block,
 *    `take` returns `null` until a later block has arrived.
 * 2. The next block is requested when half of the current one is used. A failed request is retried by the next `take`.
 * 3. Blocks are cached for `ORGS_MAX` orgs; beyond that the oldest entry is evicted.
 */
export class FenceAllocator {
  readonly #draw: DrawFences;
  readonly #blocks = new Map<string, FenceBlock>();

  constructor(draw: DrawFences) {
    this.#draw = draw;
  }

  take(org: string, above: number): number | null {
    const block = this.#blockOf(org);
    const following = block.following;
    if (following !== null && (block.next > block.last || block.last <= above)) {
      block.next = following - BLOCK_SIZE + 1;
      block.last = following;
      block.following = null;
    }
    if (block.following === null && block.last - block.next < BLOCK_SIZE / 2) this.#refill(org, block);
    return block.next <= block.last && block.next > above ? block.next++ : null;
  }

  #refill(org: string, block: FenceBlock): void {
    if (block.isDrawing) return;
    block.isDrawing = true;
    this.#draw(org, BLOCK_SIZE).then(
      (last) => {
        block.isDrawing = false;
        block.following = last;
      },
      () => {
        block.isDrawing = false;
      },
    );
  }

  #blockOf(org: string): FenceBlock {
    let block = this.#blocks.get(org);
    if (block === undefined) {
      for (const oldest of this.#blocks.keys()) {
        if (this.#blocks.size < ORGS_MAX) break;
        this.#blocks.delete(oldest);
      }
      block = { next: 1, last: 0, following: null, isDrawing: false };
      this.#blocks.set(org, block);
    }
    return block;
  }
}

/** Advances the org's fence counter by `count` and returns its new value, the last fence of the block. */
export type DrawFences = (org: string, count: number) => Promise<number>;

interface FenceBlock {
  next: number;
  last: number;
  /** The last fence of the block after this one, once drawn. */
  following: number | null;
  isDrawing: boolean;
}

/** More than a busy process uses in one tick. */
const BLOCK_SIZE = 1_024;
const ORGS_MAX = 1_000;
