import { mkdtempSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";

/** Bundles a fixture, or a program by its path, which makes repeated starts ten times faster. */
export async function bundle(fixture: string): Promise<string> {
  // Inside `node_modules`, so that packages resolve and git ignores it.
  const dir = mkdtempSync(join(import.meta.dirname, "..", "..", "node_modules", ".cordum-fixture-"));
  const name = basename(fixture, ".ts");
  await build({
    entryPoints: {
      [name]: resolve(import.meta.dirname, "fixtures", fixture),
      "evaluation-thread": join(import.meta.dirname, "..", "..", "src", "adapters", "node", "evaluation-thread.ts"),
    },
    outdir: dir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    logLevel: "error",
  });
  return join(dir, `${name}.mjs`);
}
