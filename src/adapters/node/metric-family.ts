/**
 * Metrics in memory, and the page that Prometheus reads (text format 0.0.4). A family is one metric with all its series, a
 * series is what was counted under one set of label values.
 *
 * 1. Counting costs a lookup for each label and makes no garbage; what is costly (the text of the labels, running totals
 *    of buckets) is done when a series is opened or the page is asked for.
 * 2. A family has at most `SERIES_MAX` series and one more, in which every label is `other`: it takes what would have
 *    opened others. Sums over all series stay right. A gauge there shows what was set last.
 * 3. A label that a family does not have is left out, one that is missing is empty. What is no finite number is neither
 *    added nor observed, nor is added what would make a counter smaller. Nothing here throws: the work goes on.
 * 4. A family without labels shows its only series from the start, others show a series once it was counted in.
 */
import type { Labels, MetricSpec } from "../../ports/metrics.ts";

export interface Family {
  /** Its part of the page, without the newline at the end. */
  text(): string;
}

/** What a label's value is shown as: whoever knows that a label has too many values gives them one in common. */
export type Bound = (label: string, value: string) => string;

export class Counter implements Family {
  readonly #values: Values;

  constructor(name: string, spec: MetricSpec, bound: Bound) {
    this.#values = new Values(name, spec, bound);
  }

  add(labels: Labels, amount: number): void {
    if (amount >= 0 && amount < Number.POSITIVE_INFINITY) this.#values.series.at(labels).value += amount;
  }

  /** Over all series. */
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

  /** Bounds ascend; a value that is equal to one is within it. */
  constructor(name: string, spec: MetricSpec, bound: Bound, bounds: readonly number[]) {
    this.#head = headOf(name, spec);
    this.#name = name;
    this.#bounds = bounds;
    this.#series = new SeriesTree(spec.labels, bound, (labels) => ({
      labels,
      sum: 0,
      // The last one is for what lies above all bounds.
      counts: new Array<number>(bounds.length + 1).fill(0),
    }));
  }

  observe(labels: Labels, value: number): void {
    if (!Number.isFinite(value)) return;
    const series = this.#series.at(labels);
    const bounds = this.#bounds;
    // From the lowest on: most of what is measured is short, and there are few buckets.
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

/** Without the one that takes what is too much. A hundred tenants at all endpoints are far below it. */
export const SERIES_MAX = 1_000;
/** The value of a label that stands for all those that are not shown. */
export const OTHER = "other";

interface Series {
  /** As they are printed, without the braces. */
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

/** Series by the values of their labels, one level for each label: values are looked up as they are, never joined. */
class SeriesTree<S extends Series> {
  /** In the order in which they were opened. */
  readonly all: S[] = [];
  readonly #names: readonly string[];
  readonly #bound: Bound;
  readonly #open: (labels: string) => S;
  readonly #root: Branch<S> = { next: new Map(), series: null };

  constructor(names: readonly string[], bound: Bound, open: (labels: string) => S) {
    this.#names = names;
    this.#bound = bound;
    this.#open = open;
    if (names.length === 0) this.#opened([]);
  }

  at(labels: Labels): S {
    const names = this.#names;
    let branch = this.#root;
    for (let at = 0; at < names.length; at += 1) {
      const next = branch.next.get(labels[names[at] as string] ?? "");
      if (next === undefined) return this.#unknown(labels);
      branch = next;
    }
    return branch.series as S;
  }

  /** Values as they came are not known together: as they are shown they may be. */
  #unknown(labels: Labels): S {
    const values = this.#names.map((name) => this.#bound(name, labels[name] ?? ""));
    const known = this.#find(values);
    if (known) return known;
    if (this.all.length < SERIES_MAX) return this.#opened(values);
    const others = values.fill(OTHER);
    return this.#find(others) ?? this.#opened(others);
  }

  #find(values: readonly string[]): S | null {
    let branch: Branch<S> | undefined = this.#root;
    for (const value of values) branch = branch?.next.get(value);
    return branch?.series ?? null;
  }

  #opened(values: readonly string[]): S {
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

/** Series of one figure each. */
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
