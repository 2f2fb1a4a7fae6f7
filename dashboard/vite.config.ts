// Builds to dist/dashboard of the package. `npm run dashboard` serves it with reload on change and proxies the API to
// `CORDUM_URL`.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const target = process.env.CORDUM_URL ?? "http://127.0.0.1:8081";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  publicDir: false,
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("../dist/dashboard", import.meta.url)),
    emptyOutDir: true,
    target: ["chrome111", "firefox114", "safari16.4"],
    // The content security policy allows no inline scripts and no data: addresses of scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // The gateway accepts sessions of its own origin only.
  server: { port: 5173, proxy: { "/api": { target, changeOrigin: true, headers: { origin: target } } } },
});
