/**
 * In-memory metrics in the Prometheus text format 0.0.4. A family is a metric with all its series; a series belongs to one
 * set of label values.
 *
 * 1. Recording costs one lookup per label and allocates nothing. Label text and cumulative buckets are computed when a
 *    series is created or the page is rendered.
 * 2. A family has at most `SERIES_MAX` series, and one more whose labels are all `other`, which receives everything
 *    beyond the limit. Sums over all series stay correct; the `other` series of a gauge shows the last value set.
 * 3. Unknown labels are ignored, missing labels are empty. Non-finite values and negative increments are ignored. Nothing
 *    here throws.
 * 4. A family without labels has its series from the start; other series appear with their first value.
 */
import type { Labels, MetricSpec } from "../../ports/metrics.ts";

export interface Family {
  /** Its part of the page, without a final newline. */
  text(): string;
}

/** Maps a label value to the value shown, to bound the number of values. */
export type Bound = (label: string, value: string) => string;

export class Counter implements Family {
  readonly #values: Values;

  constructor(name: string, spec: MetricSpec, bound: Bound) {
    this.#values = new Values(name, spec, bound);
  }

  add(labels: Labels, amount: number): void {
    if (amount >= 0 && amount < Number.POSITIVE_INFINITY) this.#values.series.at(labels).value += amount;
  }

  /** Sum over all series. */
  total(): number {
    return this.#values.series.all.reduce((sum, { value }) => sum + value, 0);
  }

  text(): string {
    return this.#values.text();
  }
}

export class Gauge implements Family {
  readonly #values: Values;

  constructor(name: string, spec: MetricSpec, bound: Bound) {
    this.#values = new Values(name, spec, bound);
  }

  set(labels: Labels, value: number): void {
    this.#values.series.at(labels).value = value;
  }

  text(): string {
    return this.#values.text();
  }
}

export class Histogram implements Family {
  readonly #head: string;
  readonly #name: string;
  readonly #bounds: readonly number[];
  readonly #series: SeriesTree<Buckets>;

  /** Bounds ascend and are inclusive. */
  constructor(name: string, spec: MetricSpec, bound: Bound, bounds: readonly number[]) {
    this.#head = headOf(name, spec);
    this.#name = name;
    this.#bounds = bounds;
    this.#series = new SeriesTree(spec.labels, bound, (labels) => ({
      labels,
      sum: 0,
      // The last bucket is for values above all bounds.
      counts: new Array<number>(bounds.length + 1).fill(0),
    }));
  }

  observe(labels: Labels, value: number): void {
    if (!Number.isFinite(value)) return;
    const series = this.#series.at(labels);
    const bounds = this.#bounds;
    // Linear search: there are few buckets, and most values are small.
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1;
    series.counts[bucket] = (series.counts[bucket] as number) + 1;
    series.sum += value;
  }

  text(): string {
    let text = this.#head;
    for (const { labels, counts, sum } of this.#series.all) {
      const rest = labels === "" ? "" : `,${labels}`;
      let count = 0;
      for (const [at, inBucket] of counts.entries()) {
        count += inBucket;
        text += `\n${this.#name}_bucket{le="${numberText(this.#bounds[at] ?? Number.POSITIVE_INFINITY)}"${rest}} ${count}`;
      }
      text += `\n${this.#name}_sum${inBraces(labels)} ${numberText(sum)}`;
      text += `\n${this.#name}_count${inBraces(labels)} ${count}`;
    }
    return text;
  }
}

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function pageOf(families: Iterable<Family>): string {
  return `${Array.from(families, (family) => family.text()).join("\n\n")}\n`;
}

/** Without the `other` series. 100 tenants times all endpoints are well below it. */
export const SERIES_MAX = 1_000;
/** Label value of everything beyond a limit. */
export const OTHER = "other";

interface Series {
  /** As rendered, without braces. */
  readonly labels: string;
}

interface Value extends Series {
  value: number;
}

interface Buckets extends Series {
  sum: number;
  readonly counts: number[];
}

interface Branch<S> {
  readonly next: Map<string, Branch<S>>;
  series: S | null;
}

/** Series by label values: a trie with one level per label, so a lookup builds no key. */
class SeriesTree<S extends Series> {
  /** In order of creation. */
  readonly all: S[] = [];
  readonly #names: readonly string[];
  readonly #bound: Bound;
  readonly #open: (labels: string) => S;
  readonly #root: Branch<S> = { next: new Map(), series: null };

  constructor(names: readonly string[], bound: Bound, open: (labels: string) => S) {
    this.#names = names;
    this.#bound = bound;
    this.#open = open;
    if (names.length === 0) this.#create([]);
  }

  at(labels: Labels): S {
    const names = this.#names;
    let branch = this.#root;
    for (let at = 0; at < names.length; at += 1) {
      const next = branch.next.get(labels[names[at] as string] ?? "");
      if (next === undefined) return this.#findOrCreate(labels);
      branch = next;
    }
    return branch.series as S;
  }

  /** The raw values are unknown; the bounded values may be known. */
  #findOrCreate(labels: Labels): S {
    const values = this.#names.map((name) => this.#bound(name, labels[name] ?? ""));
    const known = this.#find(values);
    if (known) return known;
    if (this.all.length < SERIES_MAX) return this.#create(values);
    const others = values.fill(OTHER);
    return this.#find(others) ?? this.#create(others);
  }

  #find(values: readonly string[]): S | null {
    let branch: Branch<S> | undefined = this.#root;
    for (const value of values) branch = branch?.next.get(value);
    return branch?.series ?? null;
  }

  #create(values: readonly string[]): S {
    let branch = this.#root;
    for (const value of values) {
      let next = branch.next.get(value);
      if (next === undefined) {
        next = { next: new Map(), series: null };
        branch.next.set(value, next);
      }
      branch = next;
    }
    const series = this.#open(this.#names.map((name, at) => `${name}="${escapedLabel(values[at] ?? "")}"`).join(","));
    branch.series = series;
    this.all.push(series);
    return series;
  }
}

/** Series with a single value each. */
class Values {
  readonly series: SeriesTree<Value>;
  readonly #head: string;
  readonly #name: string;

  constructor(name: string, spec: MetricSpec, bound: Bound) {
    this.#head = headOf(name, spec);
    this.#name = name;
    this.series = new SeriesTree(spec.labels, bound, (labels) => ({ labels, value: 0 }));
  }

  text(): string {
    const lines = this.series.all.map(({ labels, value }) => `\n${this.#name}${inBraces(labels)} ${numberText(value)}`);
    return this.#head + lines.join("");
  }
}

function headOf(name: string, { type, help }: MetricSpec): string {
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}`;
}

function inBraces(labels: string): string {
  return labels === "" ? "" : `{${labels}}`;
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : `${value}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapedLabel(text: string): string {
  return escaped(text).replaceAll('"', '\\"');
}
