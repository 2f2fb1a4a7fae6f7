// Data directories with acknowledged jobs, and every kind of damage to their files.
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openFile, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { openStorage, type StorageOptions } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import type { LogFields } from "../../../src/ports/log.ts";
import { SeededRandom } from "../../../src/sim/random.ts";
import { ManualClock } from "../../contract/manual-clock.ts";
import { bundle } from "../bundle.ts";

export interface Damage {
  readonly kind: "flip" | "truncate" | "zero" | "remove";
  readonly file: string;
  /** First damaged byte. */
  readonly at: number;
}

export class DamageLab {
  readonly root = mkdtempSync(join(tmpdir(), "cordum-damage-"));
  readonly acknowledged = new Set<string>();
  #copies = 0;

  /** A directory as several killed processes left it: rows in the tables, in the WAL and in the journal. */
  async crashed(kills: number, linesPerBoot: number): Promise<string> {
    const dir = join(this.root, "crashed");
    const script = await bundle("embedded-load.ts");
    for (let boot = 1; boot <= kills; boot++) {
      const child = spawn(process.execPath, [script, dir, String(boot)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let lines = 0;
      for await (const line of createInterface({ input: child.stdout })) {
        if (line.startsWith("ack ")) this.acknowledged.add(line.slice(4));
        if (++lines >= linesPerBoot) child.kill("SIGKILL");
      }
    }
    return dir;
  }

  copy(dir: string): string {
    const target = join(this.root, `copy-${this.#copies++}`);
    mkdirSync(target);
    for (const name of readdirSync(dir)) cpSync(join(dir, name), join(target, name));
    return target;
  }

  close(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** Damage to every file: removed, zeroed, truncated at a random place and by one byte, and `flips` random bits. */
export function damagesOf(dir: string, flips: number, seed: number): Damage[] {
  const random = new SeededRandom(seed);
  return readdirSync(dir).flatMap((file): Damage[] => {
    const { size } = statSync(join(dir, file));
    if (size === 0) return [{ kind: "remove", file, at: 0 }];
    const anywhere = () => Math.floor(random.next() * size);
    return [
      { kind: "remove", file, at: 0 },
      { kind: "zero", file, at: 0 },
      { kind: "truncate", file, at: 0 },
      { kind: "truncate", file, at: size - 1 },
      { kind: "truncate", file, at: anywhere() },
      { kind: "zero", file, at: anywhere() },
      ...Array.from({ length: flips }, (): Damage => ({ kind: "flip", file, at: anywhere() })),
      // Most of the journal is unused.
      ...Array.from({ length: flips }, (): Damage => ({ kind: "flip", file, at: usedByte(join(dir, file), random) })),
    ];
  });
}

/** The offset of a random byte that is not zero. */
function usedByte(file: string, random: SeededRandom): number {
  const bytes = readFileSync(file);
  const used: number[] = [];
  for (let at = 0; at < bytes.length; at++) if (bytes[at] !== 0) used.push(at);
  return used[Math.floor(random.next() * used.length)] ?? 0;
}

export function inflict(dir: string, { kind, file, at }: Damage): void {
  const path = join(dir, file);
  if (kind === "remove") {
    rmSync(path);
    return;
  }
  const bytes = readFileSync(path);
  if (kind === "flip") bytes[at]! ^= 1 << (at % 8);
  writeFileSync(path, kind === "truncate" ? bytes.subarray(0, at) : kind === "zero" ? bytes.fill(0, at) : bytes);
}

export type Outcome =
  /** Everything is as it was. */
  | { readonly kind: "intact" }
  /** The start, a read or the check of the pages failed. */
  | { readonly kind: "refused"; readonly error: string }
  | { readonly kind: "silent"; readonly what: string };

/** What a start and reads of all acknowledged jobs observe. `expected` has their records as text. */
export async function observe(
  dir: string,
  expected: ReadonlyMap<string, string>,
  options: Partial<StorageOptions> = {},
): Promise<Outcome> {
  const logged: { readonly event: string; readonly fields: LogFields }[] = [];
  let onCheck: (error: string) => void = () => {};
  const checked = new Promise<string>((resolve) => {
    onCheck = resolve;
  });
  const log = {
    write: (_level: string, event: string, fields: LogFields = {}) => {
      logged.push({ event, fields });
      if (event === "store_damage_found") onCheck(String(fields.error));
    },
  };
  try {
    const { writer, tables } = await openStorage(dir, { clock: new ManualClock(), log, ...options });
    const store = new SqliteStore(writer, tables);
    const wrong: string[] = [];
    try {
      for (const [id, text] of expected) {
        const found = await store.load(JOBS, id);
        if (JSON.stringify(found) !== text) wrong.push(`${id}: ${found === null ? "missing" : "changed"}`);
      }
    } finally {
      // Reads before the end of the page check may miss what it finds.
      if (wrong.length > 0 && options.startCheckBytesMax === 0) {
        const late = setTimeout(() => onCheck(""), 10_000);
        const error = await checked;
        clearTimeout(late);
        if (error !== "") wrong.splice(0, wrong.length, error);
      }
      await writer.close().catch(() => {});
    }
    if (wrong[0]?.startsWith("damaged data")) return { kind: "refused", error: wrong[0] };
    return wrong.length === 0 ? { kind: "intact" } : { kind: "silent", what: wrong.slice(0, 3).join("; ") };
  } catch (error) {
    return { kind: "refused", error: (error as Error).message };
  }
}

/** The records of the jobs as an undamaged directory has them. */
export async function recordsOf(dir: string, ids: Iterable<string>): Promise<Map<string, string>> {
  const { writer, tables } = await openStorage(dir, { clock: new ManualClock(), log: { write: () => {} } });
  const store = new SqliteStore(writer, tables);
  const records = new Map<string, string>();
  for (const id of ids) records.set(id, JSON.stringify(await store.load(JOBS, id)));
  await writer.close();
  return records;
}

/** Everything in the tables, without checksums and epoch. */
export async function rowsOf(dir: string): Promise<string> {
  const db = openFile(await sqliteModule(), join(dir, "cordum.db"));
  const columns: Readonly<Record<string, string>> = {
    records: "tbl, id, version, value, due_ms, queue, score",
    lists: "tbl, name, score, id",
    counters: "grp, name, value",
    fences: "tbl, id, fence",
    outbox: "id, subject, packet",
    blobs: "key, bytes",
    sequences: "name, next",
  };
  const rows = Object.entries(columns).map(([table, names]) =>
    db.prepare(`select ${names} from ${table} order by ${names}`).all(),
  );
  db.close();
  return JSON.stringify(rows);
}
