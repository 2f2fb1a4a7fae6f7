/** Records commands and their output for a golden file. Ids, times, ports and hashes are replaced by stable names. */
import type { Io } from "../../src/cli/io.ts";
import { cordum, type Ran } from "./run.ts";

export class Transcript {
  readonly #env: Readonly<Record<string, string>>;
  readonly #names = new Map<string, string>();
  #text = "";

  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env;
  }

  async run(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const ran = await cordum(argv, { ...this.#env, ...options.env }, options.stdin ?? "", options.change);
    this.#text += this.#named(
      `$ cordum ${argv.map(quoted).join(" ")}\n${ran.out}${prefixed(ran.err)}[exit ${ran.exitCode}]\n\n`,
    );
    return ran;
  }

  /** Runs a read-only command as text and as JSON. */
  async both(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
    await this.run(argv, options);
    return this.run([...argv, "--json"], options);
  }

  /** Adds a name for a text that the patterns do not match. */
  name(text: string, name: string): void {
    this.#names.set(text, name);
  }

  get text(): string {
    return this.#text;
  }

  #named(text: string): string {
    let named = text;
    // Keeps the width of table cells.
    const fitted = (name: string, found: string, at: number, whole: string) =>
      whole.startsWith("  ", at + found.length) ? name.padEnd(found.length) : name;
    for (const [known, name] of this.#names) {
      named = named.replaceAll(known, (found, at: number, whole: string) => fitted(name, found, at, whole));
    }
    for (const [pattern, kind] of KINDS) {
      named = named.replace(pattern, (found, at: number, whole: string) =>
        fitted(this.#nameFor(found, kind), found, at, whole),
      );
    }
    return named;
  }

  #nameFor(found: string, kind: string): string {
    if (!kind.endsWith("#")) return kind;
    const known = this.#names.get(found);
    if (known !== undefined) return known;
    const count = [...this.#names.values()].filter((name) => name.startsWith(`<${kind.slice(0, -1)}-`)).length;
    const name = `<${kind.slice(0, -1)}-${count + 1}>`;
    this.#names.set(found, name);
    return name;
  }
}

export interface RunOptions {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly change?: Partial<Io>;
}

/** The first match wins; `#` numbers the names. */
const KINDS: readonly (readonly [RegExp, string])[] = [
  [/\bcordum_[0-9a-z]+_[0-9A-Za-z_-]+/g, "<key-text>"],
  [/-----BEGIN PUBLIC KEY-----[\s\S]*?-----END PUBLIC KEY-----/g, "<public-key>"],
  [/(?<="signature": ")[\w+/=]+(?=")/g, "<signature>"],
  [/(?<="idempotency_key": ")[0-9a-f-]{36}(?=")/g, "<key>"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>"],
  [/\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b/g, "hash#"],
  [/\b0[0-9a-hj-km-np-tv-z]{25}\b/g, "id#"],
  [/http:\/\/127\.0\.0\.1:\d+/g, "<url>"],
  [/127\.0\.0\.1:\d+/g, "<address>"],
  [/(?<="next_cursor": ")[\w-]+(?=")/g, "<cursor>"],
  [/(?<=--cursor )[\w-]+/g, "<cursor>"],
  [/(?<="(?:[a-z_]*_ms|p50|p95|[a-z_]+_ms_p\d\d)": )\d+(?:\.\d+)?/g, "<number>"],
  // Depends on which writes were made together.
  [/(?<="record_version": )\d+/g, "<number>"],
  // Reported by the last heartbeat, which may be older than the job.
  [/(?<="active_jobs": )\d+/g, "<number>"],
  [/(?<="(?:outbox|timers|retention|backlog|audit|kills|rollouts|fingerprints|slots|gauges)": )\d+/g, "<number>"],
  [/\b\d+(?= of 64\b)/g, "<number>"],
  [/(?<=\bp9\d )\d+(?:\.\d+)? ms/g, "<number> ms"],
  [/(?<=\b(?:for|waited|in|after|uptime|took) {1,12})\d+ (?=s\b|ms\b)/g, "<number> "],
];

const quoted = (word: string): string => (/^[\w./:=,@-]+$/.test(word) ? word : `'${word}'`);
const prefixed = (err: string): string => err.replace(/^(?=.)/gm, "! ");
