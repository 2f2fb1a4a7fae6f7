// Takes the pictures: each scene at 1440 and 390 px, light and dark. Arguments select scenes by name.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Dashboard } from "./harness.ts";
import { smallPng } from "./png.ts";
import { SCENES } from "./scenes.ts";

const folder = join(import.meta.dirname, "..", "..", "docs", "dashboard");
const names = process.argv.slice(2);
const dashboard = await Dashboard.start({ argv: ["--workflows", "examples/workflows"] });
try {
  mkdirSync(folder, { recursive: true });
  const scenes = SCENES.filter(({ name }) => names.length === 0 || names.includes(name));
  for (const { data } of SCENES) await data?.(dashboard);
  for (const scene of scenes) {
    for (const width of [1440, 390]) {
      for (const scheme of ["light", "dark"] as const) {
        const height = width === 390 ? 844 : 900;
        const page = await dashboard.open(scene.path, { width, height, scheme, expected: scene.expected ?? [] });
        await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {});
        await scene.prepare?.(page, dashboard);
        const png = smallPng(await page.screenshot());
        writeFileSync(join(folder, `${scene.name}-${width}-${scheme}.png`), png);
        await page.context().close();
      }
    }
  }
} finally {
  await dashboard.close();
}
