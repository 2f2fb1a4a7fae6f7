/**
 * Fences drawn ahead, for `Locks.moment`: what is needed at once cannot be asked for.
 *
 * 1. Each is given once, in growing order, and is larger than `above`. A record that was given a larger one since has to
 *    wait for a later block: until then its lock is acquired.
 * 2. The next block is drawn while half of the last is left. Without one there is none to give; drawing that failed is
 *    tried again with the next wish.
 * 3. It is kept for so many orgs: beyond these the one that was met first begins anew.
 */
export class FenceAllocator {
  readonly #draw: Draw;
  readonly #shelves = new Map<string, DiskQueue>();

  constructor(draw: Draw) {
    this.#draw = draw;
  }

  take(org: string, above: number): number | null {
    const diskQueue = this.#shelfOf(org);
    const following = diskQueue.following;
    if (following !== null && (diskQueue.next > diskQueue.last || diskQueue.last <= above)) {
      diskQueue.next = following - BLOCK + 1;
      diskQueue.last = following;
      diskQueue.following = null;
    }
    if (diskQueue.following === null && diskQueue.last - diskQueue.next < BLOCK / 2) this.#refill(org, diskQueue);
    return diskQueue.next <= diskQueue.last && diskQueue.next > above ? diskQueue.next++ : null;
  }

  #refill(org: string, diskQueue: DiskQueue): void {
    if (diskQueue.isDrawing) return;
    diskQueue.isDrawing = true;
    this.#draw(org, BLOCK).then(
      (last) => {
        diskQueue.isDrawing = false;
        diskQueue.following = last;
      },
      () => {
        diskQueue.isDrawing = false;
      },
    );
  }

  #shelfOf(org: string): DiskQueue {
    let diskQueue = this.#shelves.get(org);
    if (diskQueue === undefined) {
      for (const oldest of this.#shelves.keys()) {
        if (this.#shelves.size < ORGS_MAX) break;
        this.#shelves.delete(oldest);
      }
      diskQueue = { next: 1, last: 0, following: null, isDrawing: false };
      this.#shelves.set(org, diskQueue);
    }
    return diskQueue;
  }
}

/** Moves the org's counter on by `count`; the last of them, which are all this caller's. */
export type Draw = (org: string, count: number) => Promise<number>;

interface DiskQueue {
  next: number;
  last: number;
  /** The last of the block after this one, once it is drawn. */
  following: number | null;
  isDrawing: boolean;
}

/** More than one tick of a busy process asks for. */
const BLOCK = 1_024;
const ORGS_MAX = 1_000;
