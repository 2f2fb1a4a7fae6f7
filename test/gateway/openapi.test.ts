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
  readonly tags: readonly string[];
  readonly requestBody?: Content;
  readonly responses: { readonly 200: Content };
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: { readonly $ref?: string; readonly type?: string } }>>;
}

const all = [...ROUTES, documentRoute(ROUTES, VERSION)];
const document = openapiDocument(all, VERSION) as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
};

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

test("names every body and response, and describes every value of any type", () => {
  const problems: string[] = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const { requestBody, responses, tags } = operation;
      const contents = [...Object.values(requestBody?.content ?? {}), ...Object.values(responses[200].content ?? {})];
      const isNamed = contents.length > 0 && contents.every(({ schema }) => schema.$ref ?? schema.type === "string");
      if (!isNamed || tags.length !== 1) problems.push(`${method} ${path}`);
    }
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) untyped(schema, name, problems);
  expect(problems).toEqual([]);
});

/** Collects the schemas that allow anything without a description. */
function untyped(schema: unknown, at: string, found: string[]): void {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return;
  const { properties, patternProperties, items, anyOf, ...rest } = schema as Readonly<Record<string, object>>;
  const isTyped = ["type", "enum", "const", "$ref", "description"].some((key) => key in rest) || anyOf !== undefined;
  if (!isTyped) found.push(at);
  for (const [name, inner] of Object.entries({ ...properties, ...patternProperties })) {
    untyped(inner, `${at}.${name}`, found);
  }
  untyped(items, `${at}[]`, found);
  for (const inner of Object.values(anyOf ?? {})) untyped(inner, at, found);
}
