// Calls every route of the OpenAPI document with keys of another tenant and without a key.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROLES } from "../../../src/core/model/api-key.ts";
import { documentRoute, openapiDocument } from "../../../src/gateway/openapi.ts";
import { ROUTES } from "../../../src/gateway/server.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { createTenantRecords, stateOf, type TenantRecords } from "./tenant-records.ts";

type Method = "GET" | "POST" | "PUT" | "DELETE";

interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly $ref?: string;
}

interface Operation {
  readonly "x-access": string;
  readonly "x-long"?: true;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}

const document = openapiDocument([...ROUTES, documentRoute(ROUTES, "0")], "0") as {
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  components: { readonly schemas: Readonly<Record<string, Schema>> };
};
const OPERATIONS = Object.entries(document.paths)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([name, operation]) => ({ method: name.toUpperCase() as Method, path, operation })),
  )
  .filter(({ operation }) => operation["x-access"] !== "open")
  .map((one) => [`${one.method} ${one.path}`, one] as const);

const OPEN = ["/health", "/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/session"];

let gateway: TestGateway;
let acme: TenantRecords;
let keys: readonly { readonly role: string; readonly key: string }[];

beforeAll(async () => {
  gateway = await openTestGateway();
  acme = await createTenantRecords(gateway);
  // Created through the gateway, which then knows that a key exists.
  await gateway.call("POST", "/api/v1/keys", { body: { tenant: "*", role: "admin" } });
  keys = await Promise.all(ROLES.map(async (role) => ({ role, key: (await gateway.keyOf("intruder", role)).key })));
});

afterAll(() => gateway.close());

/** The URLs of a route, one for each record of the other tenant. */
function addresses(path: string, { parameters }: Operation): readonly string[] {
  const asked = parameters.some(({ name, in: place }) => place === "query" && name === "ptr");
  if (asked) return acme.ids.flatMap((id) => [`${path}?ptr=ctx:${id}`, `${path}?ptr=redis://res:${id}`]);
  const places = path.match(/\{\w+\}/g)?.length ?? 0;
  if (places === 0) return [path];
  const { workflow, run } = acme.named;
  const sets = [
    ...acme.ids.map((id) => [id, id]),
    ...(places === 2
      ? [
          [workflow, run],
          [run, "work"],
        ]
      : []),
  ];
  return sets.map(([first = "", second = ""]) => path.replace(/\{\w+\}/, first).replace(/\{\w+\}/, second));
}

/** A valid body that names the other tenant wherever it can. */
function bodyFor({ requestBody }: Operation): object | undefined {
  const schema = requestBody?.content["application/json"]?.schema;
  return schema === undefined ? undefined : (example(schema) as object);
}

const NAMED: Readonly<Record<string, () => unknown>> = {
  tenant: () => "acme",
  tenant_id: () => "acme",
  scope: () => "acme",
  topics: () => ["shared.work"],
  topic: () => "shared.work",
  wait_ms: () => 0,
};

function example(schema: Schema): unknown {
  if (schema.$ref !== undefined) return example(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0] ?? {});
  switch (schema.type) {
    case "object": {
      const wanted = Object.entries(schema.properties ?? {}).filter(
        ([name]) => name in NAMED || schema.required?.includes(name),
      );
      return Object.fromEntries(wanted.map(([name, inner]) => [name, NAMED[name]?.() ?? example(inner)]));
    }
    case "array":
      return Array.from({ length: schema.minItems ?? 1 }, () => example(schema.items ?? {}));
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return true;
    default:
      return schema.format === "date-time" ? "2026-01-01T00:00:00Z" : "something";
  }
}

describe("without a key", () => {
  test("only the routes without tenant data are open", () => {
    const open = Object.entries(document.paths).filter(([, methods]) =>
      Object.values(methods).some((operation) => operation["x-access"] === "open"),
    );
    expect(open.map(([path]) => path).toSorted()).toEqual(OPEN.toSorted());
  });

  test.each(OPERATIONS)("%s is 401", async (_, { method, path, operation }) => {
    for (const url of addresses(path, operation)) {
      const answer = await gateway.call(method, url, { body: bodyFor(operation) });
      expect(answer.json()).toMatchObject({ status: 401, code: "key_missing" });
    }
  });
});

describe("with a key of another tenant, of each role", () => {
  test.each(OPERATIONS)("%s is refused for the other tenant", async (_, { method, path, operation }) => {
    for (const { key } of keys) {
      const [url = ""] = addresses(path, operation);
      const answer = await gateway.call(method, url, { key, tenant: "acme", body: bodyFor(operation) });
      expect(answer.statusCode).toBe(403);
    }
  });

  test.each(OPERATIONS)("%s discloses and changes nothing", async (_, { method, path, operation }) => {
    const before = await stateOf(gateway, acme);
    const isAbout = addresses(path, operation).some((url) => url !== path);
    for (const { role, key } of keys) {
      // Streams do not end by themselves; stream.test.ts covers their isolation.
      if (operation["x-long"] && method === "GET" && role !== "worker") continue;
      for (const url of addresses(path, operation)) {
        const answer = await gateway.call(method, url, { key, body: bodyFor(operation) });
        const context = { role, url, status: answer.statusCode, body: answer.body };
        if (isAbout) expect([403, 404], JSON.stringify(context)).toContain(answer.statusCode);
        expect(answer.statusCode, JSON.stringify(context)).toBeLessThan(500);
        for (const secret of acme.secrets) expect(answer.body, JSON.stringify(context)).not.toContain(secret);
        if (answer.statusCode >= 300) continue;
        // A record that the request creates can contain names from the request.
        const sent = JSON.stringify(bodyFor(operation) ?? {});
        for (const id of [...acme.ids, "acme"]) if (!sent.includes(id)) expect(answer.body).not.toContain(id);
      }
    }
    expect(await stateOf(gateway, acme)).toEqual(before);
  });

  test("a job id of another tenant is free, and discloses nothing of its job", async () => {
    const key = keys.find(({ role }) => role === "submitter")?.key;
    for (const job_id of [acme.named.queued, acme.named.waiting]) {
      const body = { topic: "elsewhere", input: { text: "own" }, job_id };
      const answer = await gateway.call("POST", "/api/v1/jobs", { key, body });
      expect(answer.json()).toMatchObject({ job_id, replayed: false });
      const reader = keys.find(({ role }) => role === "admin")?.key;
      const own = await gateway.call("GET", `/api/v1/jobs/${job_id}`, { key: reader });
      expect(own.json()).toMatchObject({ job_id, tenant_id: "intruder", topic: "elsewhere", input: { text: "own" } });
    }
  });

  test("the tenant sees its own records", async () => {
    const { key } = await gateway.keyOf("acme", "admin");
    const seen = async (url: string) => (await gateway.call("GET", url, { key })).body;
    const { waiting, queued, deadLetter, lease, leased, ownKey, workflow, run, schedule } = acme.named;
    expect(await seen("/api/v1/jobs")).toContain(queued);
    expect(await seen(`/api/v1/jobs/${queued}`)).toContain("acme-input");
    expect(await seen("/api/v1/approvals")).toContain(waiting);
    expect(await seen(`/api/v1/dlq/${deadLetter}`)).toContain("acme-error");
    expect(await seen(`/api/v1/memory?ptr=ctx:${queued}`)).toContain("acme-input");
    expect(await seen("/api/v1/keys")).toContain(ownKey);
    expect(await seen("/api/v1/failopen")).toContain(lease);
    expect(await seen("/api/v1/workflows")).toContain("acme-name");
    expect(await seen(`/api/v1/workflows/${workflow}`)).toContain("acme-label");
    expect(await seen(`/api/v1/workflows/${workflow}/runs`)).toContain(run);
    expect(await seen("/api/v1/workflow-runs")).toContain(run);
    expect(await seen(`/api/v1/schedules/${schedule}`)).toContain("acme-input");
    expect(await seen("/api/v1/workers")).toContain(leased);
    expect(await seen(`/api/v1/workflow-runs/${run}`)).toContain("acme-input");
    expect(await seen(`/api/v1/workflow-runs/${run}/timeline`)).toContain("run_started");
    expect(await seen(`/api/v1/workflow-runs/${run}/explain`)).toContain("work");
    expect(JSON.parse(await seen("/api/v1/status"))).toMatchObject({ approvals: 1, dead_letters: 1, tenant: "acme" });
  });
});
