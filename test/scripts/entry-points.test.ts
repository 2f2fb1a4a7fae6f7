import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { entryPointsIn, exportsOf } from "../../scripts/entry-points.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Update it with `npx vitest run test/scripts/entry-points.test.ts -u`. */
test("package.json exports every entry point", async () => {
  const written = JSON.parse(readFileSync(`${root}/package.json`, "utf8")) as object;
  const fresh = { ...written, exports: exportsOf(entryPointsIn(root)) };
  await expect(`${JSON.stringify(fresh, null, 2)}\n`).toMatchFileSnapshot("../../package.json");
});
