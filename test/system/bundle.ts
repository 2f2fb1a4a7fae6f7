import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/** Bundles a fixture, which makes repeated starts ten times faster. */
export async function bundle(fixture: string): Promise<string> {
  // Inside `node_modules`, so that packages resolve and git ignores it.
  const dir = mkdtempSync(join(import.meta.dirname, "..", "..", "node_modules", ".cordum-fixture-"));
  const outfile = join(dir, fixture.replace(/\.ts$/, ".mjs"));
  await build({
    entryPoints: {
      [fixture.replace(/\.ts$/, "")]: join(import.meta.dirname, "fixtures", fixture),
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
  return outfile;
}
