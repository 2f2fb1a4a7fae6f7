/** The shipped program, bundled once and started any number of times. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { startUp, type UpProcess } from "../cli/run.ts";

export class Program {
  readonly #dir: string;
  readonly #started = new Set<UpProcess>();

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static async build(): Promise<Program> {
    const root = join(import.meta.dirname, "..", "..");
    // Inside `node_modules`, so that packages resolve and git ignores it.
    const dir = mkdtempSync(join(root, "node_modules", ".cordum-program-"));
    const src = join(root, "src");
    mkdirSync(join(dir, "dist"));
    // The program reads its version from the parent directory.
    writeFileSync(join(dir, "package.json"), '{"version": "1.2.3", "type": "module"}');
    const built = build({
      entryPoints: {
        main: join(src, "main.ts"),
        "evaluation-thread": join(src, "adapters", "node", "evaluation-thread.ts"),
      },
      outdir: join(dir, "dist"),
      bundle: true,
      splitting: true,
      platform: "node",
      format: "esm",
      packages: "external",
      logLevel: "error",
    });
    await built.catch((error: unknown) => {
      rmSync(dir, { recursive: true, force: true });
      throw error;
    });
    return new Program(dir);
  }

  get file(): string {
    return join(this.#dir, "dist", "main.js");
  }

  /** Starts `cordum up`. */
  up(argv: readonly string[], env: Readonly<Record<string, string>> = {}): UpProcess {
    const started = startUp(argv, env, [this.file]);
    this.#started.add(started);
    void started.ended.then(() => this.#started.delete(started));
    return started;
  }

  /** Kills the running processes and removes the bundle. */
  async remove(): Promise<void> {
    await Promise.all(
      [...this.#started].map(({ child, ended }) => {
        child.kill("SIGKILL");
        return ended;
      }),
    );
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
