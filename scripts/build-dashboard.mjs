// Bundles the dashboard with Vite. Returns the files by name, with gzip and brotli variants of each.

import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { root } from "./run.mjs";

export async function bundleDashboard() {
  // Loaded on demand to keep starts without a build fast.
  const { build } = await import("vite");
  const configFile = join(root, "dashboard", "vite.config.ts");
  const { output } = await build({ configFile, logLevel: "silent", build: { write: false } });
  const files = new Map();
  for (const file of output) {
    const contents = Buffer.from(file.type === "chunk" ? file.code : file.source);
    files.set(`${file.fileName}.br`, brotliCompressSync(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
    files.set(`${file.fileName}.gz`, gzipSync(contents, { level: 9 }));
    files.set(file.fileName, contents);
  }
  // The page is written last: what it names exists by then.
  const page = files.get("index.html");
  for (const name of ["index.html.br", "index.html.gz", "index.html"]) {
    const contents = files.get(name);
    files.delete(name);
    files.set(name, contents);
  }
  if (page === undefined) throw new Error("the build of the dashboard has no index.html");
  return files;
}
