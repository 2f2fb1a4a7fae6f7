/** A binary heap of numbered events by time; events of one time are in the order of their insertion. */
export class EventQueue {
  #times = new Float64Array(1_024);
  #orders = new Float64Array(1_024);
  #events = new Int32Array(1_024);
  #size = 0;
  #order = 0;

  get size(): number {
    return this.#size;
  }

  /** Infinity if empty. */
  get nextMs(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#times[0]!;
  }

  push(timeMs: number, event: number): void {
    if (this.#size === this.#times.length) this.#grow();
    const [times, orders, events] = [this.#times, this.#orders, this.#events];
    this.#order += 1;
    let at = this.#size;
    this.#size += 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      // A new event comes after those of its time.
      if (times[parent]! <= timeMs) break;
      times[at] = times[parent]!;
      orders[at] = orders[parent]!;
      events[at] = events[parent]!;
      at = parent;
    }
    times[at] = timeMs;
    orders[at] = this.#order;
    events[at] = event;
  }

  /** Removes the next event. The queue must not be empty. */
  pop(): number {
    const [times, orders, events] = [this.#times, this.#orders, this.#events];
    const next = events[0]!;
    this.#size -= 1;
    const size = this.#size;
    const [timeMs, order, event] = [times[size]!, orders[size]!, events[size]!];
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && isBefore(times, orders, child + 1, times[child]!, orders[child]!)) child += 1;
      if (!isBefore(times, orders, child, timeMs, order)) break;
      times[at] = times[child]!;
      orders[at] = orders[child]!;
      events[at] = events[child]!;
      at = child;
    }
    times[at] = timeMs;
    orders[at] = order;
    events[at] = event;
    return next;
  }

  #grow(): void {
    const length = 2 * this.#times.length;
    const [times, orders, events] = [this.#times, this.#orders, this.#events];
    this.#times = new Float64Array(length);
    this.#orders = new Float64Array(length);
    this.#events = new Int32Array(length);
    this.#times.set(times);
    this.#orders.set(orders);
    this.#events.set(events);
  }
}

function isBefore(times: Float64Array, orders: Float64Array, at: number, timeMs: number, order: number): boolean {
  const time = times[at]!;
  return time < timeMs || (time === timeMs && orders[at]! < order);
}
