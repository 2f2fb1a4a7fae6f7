/**
 * Fences drawn ahead, for `Locks.moment`: what is needed at once cannot be asked for.
 *
 * 1. Each is given once, in growing order, and is larger than `above`. A record that was given a larger one since has to
 *    wait for a later block: until then its lock is acquired.
 * 2. The next block is drawn while half of the last is left. Without one there is none to give; drawing that failed is
 *    tried again with the next wish.
 * 3. It is kept for so many orgs: beyond these the one that was met first begins anew.
 */
export class FenceStock {
  readonly #draw: Draw;
  readonly #shelves = new Map<string, Shelf>();

  constructor(draw: Draw) {
    this.#draw = draw;
  }

  take(org: string, above: number): number | null {
    const shelf = this.#shelfOf(org);
    const following = shelf.following;
    if (following !== null && (shelf.next > shelf.last || shelf.last <= above)) {
      shelf.next = following - BLOCK + 1;
      shelf.last = following;
      shelf.following = null;
    }
    if (shelf.following === null && shelf.last - shelf.next < BLOCK / 2) this.#refill(org, shelf);
    return shelf.next <= shelf.last && shelf.next > above ? shelf.next++ : null;
  }

  #refill(org: string, shelf: Shelf): void {
    if (shelf.isDrawing) return;
    shelf.isDrawing = true;
    this.#draw(org, BLOCK).then(
      (last) => {
        shelf.isDrawing = false;
        shelf.following = last;
      },
      () => {
        shelf.isDrawing = false;
      },
    );
  }

  #shelfOf(org: string): Shelf {
    let shelf = this.#shelves.get(org);
    if (shelf === undefined) {
      for (const oldest of this.#shelves.keys()) {
        if (this.#shelves.size < ORGS_MAX) break;
        this.#shelves.delete(oldest);
      }
      shelf = { next: 1, last: 0, following: null, isDrawing: false };
      this.#shelves.set(org, shelf);
    }
    return shelf;
  }
}

/** Moves the org's counter on by `count`; the last of them, which are all this caller's. */
export type Draw = (org: string, count: number) => Promise<number>;

interface Shelf {
  next: number;
  last: number;
  /** The last of the block after this one, once it is drawn. */
  following: number | null;
  isDrawing: boolean;
}

/** More than one tick of a busy process asks for. */
const BLOCK = 1_024;
const ORGS_MAX = 1_000;
