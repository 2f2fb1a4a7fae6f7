import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { clientTypes, operationsOf } from "../../scripts/client-types.mjs";
import { KEYED } from "../../src/client/operations.ts";

const document = JSON.parse(readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8")) as {
  readonly components: { readonly schemas: Readonly<Record<string, { readonly properties?: object }>> };
};

/** Update it with `npx vitest run test/scripts/client-types.test.ts -u`. */
test("src/client/schema.ts has the types of docs/openapi.json", async () => {
  await expect(clientTypes(document)).toMatchFileSnapshot("../../src/client/schema.ts");
});

test("the client sends a key with every operation that accepts one", () => {
  const accepts = ({ operation }: ReturnType<typeof operationsOf>[number]): boolean => {
    const name = operation.requestBody?.content["application/json"]?.schema.$ref?.split("/").at(-1) ?? "";
    return "idempotency_key" in (document.components.schemas[name]?.properties ?? {});
  };
  const names = operationsOf(document)
    .filter(accepts)
    .map(({ name }) => name);
  expect([...KEYED].sort()).toEqual(names.sort());
});

test("rejects a type without a translation", () => {
  const odd = { paths: {}, components: { schemas: { Odd: { type: "tuple" } } } };
  expect(() => clientTypes(odd)).toThrow("type `tuple` has no TypeScript type");
});
