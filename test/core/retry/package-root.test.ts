import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as contract from "../../../src/core/retry/intent.ts";
import * as root from "../../../src/index.ts";

test("the package root exports retryAfter, retryDelay and permanent", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
  expect(manifest.exports["."].default).toBe("./dist/index.js");
  expect(root.retryAfter).toBe(contract.retryAfter);
  expect(root.retryDelay).toBe(contract.retryDelay);
  expect(root.permanent).toBe(contract.permanent);
});
