import type { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import type { Checkpointer } from "./commit-executor.ts";
import type { Database, Statement } from "./database.ts";
import type { BatchStatement } from "./write-batch.ts";

/**
 * A thread that writes sheets into the tables, over a connection of its own.
 *
 * 1. It is started when it is first needed, and again if it died. It keeps the process alive only while somebody waits for it.
 * 2. Its program travels as text: it is small, and needs no file of its own beside whatever this ends up bundled in. So it
 *    may use nothing but what it is given.
 */
export class FoldingThread implements Checkpointer {
  readonly #given: ThreadGiven;
  #thread: Worker | null = null;

  constructor(file: string, pragmas: string) {
    this.#given = { file, pragmas, from: import.meta.url };
  }

  async checkpoint(passages: readonly BatchStatement[]): Promise<void> {
    this.#thread ??= this.#start();
    const thread = this.#thread;
    const [failure] = await new Promise<[string | null]>((resolve) => {
      const answered = (failure: string | null) => {
        thread.off("exit", gone);
        resolve([failure]);
      };
      const gone = () => {
        thread.off("message", answered);
        resolve(["the thread that folds has gone"]);
      };
      thread.once("message", answered);
      thread.once("exit", gone);
      thread.ref();
      thread.postMessage(passages);
    });
    thread.unref();
    if (failure !== null) throw new Error(failure);
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    this.#thread = null;
    await new Promise<void>((resolve) => {
      thread.once("exit", () => resolve());
      thread.ref();
      thread.postMessage(null);
    });
  }

  #start(): Worker {
    const thread = new Worker(`(${program})(require)`, { eval: true, execArgv: [], workerData: this.#given });
    thread.unref();
    const forget = () => {
      if (this.#thread === thread) this.#thread = null;
    };
    thread.once("exit", forget);
    thread.on("error", forget); // Whoever waits hears of the end.
    return thread;
  }
}

interface ThreadGiven {
  readonly file: string;
  readonly pragmas: string;
  /** Where packages are looked for. */
  readonly from: string;
}

/** Runs in the thread. A sheet is answered with null, or with what went wrong; null ends it. */
function program(require: ReturnType<typeof createRequire>): void {
  const { parentPort, workerData } = require("node:worker_threads") as typeof import("node:worker_threads");
  const modules = require("node:module") as typeof import("node:module");
  const { file, pragmas, from } = workerData as ThreadGiven;
  const sqlite = process.getBuiltinModule("node:sqlite") ?? modules.createRequire(from)("@photostructure/sqlite");
  const db: Database = new (sqlite as unknown as { DatabaseSync: new (file: string) => Database }).DatabaseSync(file);
  db.exec(pragmas);
  const statements = new Map<string, Statement>();
  const write = ({ sql, width, values }: BatchStatement) => {
    const statement = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, statement);
    for (let at = 0; at < values.length; at += width) statement.run(...values.slice(at, at + width));
  };
  const writeAll = (passages: readonly BatchStatement[]): string | null => {
    try {
      db.exec("begin immediate");
      for (const passage of passages) write(passage);
      db.exec("commit");
      return null;
    } catch (error) {
      try {
        db.exec("rollback");
      } catch {
        // Some errors have rolled back already.
      }
      return error instanceof Error ? error.message : String(error);
    }
  };
  parentPort?.on("message", (passages: readonly BatchStatement[] | null) => {
    if (passages !== null) return parentPort.postMessage(writeAll(passages));
    db.close();
    parentPort.close();
  });
}
