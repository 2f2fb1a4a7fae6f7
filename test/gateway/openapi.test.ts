import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { ROLE_ACCESS } from "../../src/gateway/auth/access.ts";
import { documentRoute, openapiDocument } from "../../src/gateway/openapi.ts";
import { ROUTES } from "../../src/gateway/server.ts";

const VERSION = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version as string;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly "x-access": string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
}

const all = [...ROUTES, documentRoute(ROUTES, VERSION)];
const document = openapiDocument(all, VERSION) as { paths: Record<string, Record<string, Operation>> };

/** Regenerate the document with `npx vitest run test/gateway/openapi.test.ts -u`. */
test("docs/openapi.json is current", async () => {
  const written = readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8");
  // Formatting differences are ignored.
  const isSame = isDeepStrictEqual(JSON.parse(written), document);
  const fresh = `${JSON.stringify(document, null, 2)}\n`;
  await expect(isSame ? written : fresh).toMatchFileSnapshot("../../docs/openapi.json");
});

test("has every route once, with access and summary", () => {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, operation })),
  );
  const routes = all.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`);
  expect(operations.map(({ route }) => route).toSorted()).toEqual(routes.toSorted());
  expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
  const accesses = new Set<string>([...Object.values(ROLE_ACCESS).flat(), "system"]);
  for (const { route, operation } of operations) {
    expect({ route, known: accesses.has(operation["x-access"]) }).toEqual({ route, known: true });
    expect(operation.summary.length).toBeGreaterThan(5);
    for (const [, name] of route.matchAll(/\{(\w+)\}/g)) {
      expect(operation.parameters).toContainEqual(expect.objectContaining({ name, in: "path" }));
    }
  }
});
