/** The OpenAPI document, made from the same table that requests are routed and checked by: it cannot say anything else. */
import { ERRORS } from "../core/model/errors.ts";
import { ok, type Route } from "./route.ts";

export type Document = Readonly<Record<string, unknown>>;

/** Where the document is read; it has itself in it. */
export function documentRoute(routes: readonly Route[], version: string): Route {
  const route: Route = {
    method: "GET",
    path: "/api/v1/openapi.json",
    summary: "This document",
    access: "open",
    always: true,
    handle: async () => ok(document),
  };
  const document = openapiOf([...routes, route], version);
  return route;
}

export function openapiOf(routes: readonly Route[], version: string): Document {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Cordum", version, summary: "A control plane for AI agents", license: { name: "Apache-2.0" } },
    security: [{ key: [] }, { bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        key: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer" },
      },
      schemas: { Problem: PROBLEM },
      responses: {
        Problem: { description: "What went wrong", content: { [PROBLEM_TYPE]: { schema: { $ref: PROBLEM_REF } } } },
      },
    },
  };
}

function operationOf(route: Route): Document {
  const isOpen = route.access === "open";
  return {
    summary: route.summary,
    operationId: operationId(route),
    "x-access": route.access,
    ...(route.orAccess ? { "x-or-access": route.orAccess } : {}),
    ...(route.everyTenant ? { "x-every-tenant": true } : {}),
    ...(route.long ? { "x-long": true } : {}),
    ...(isOpen ? { security: [] } : {}),
    parameters: [...pathParameters(route), ...queryParameters(route), ...(isOpen ? [] : [TENANT])],
    ...(route.body ? { requestBody: { content: bodyOf(route.body, route.yaml) } } : {}),
    responses: {
      200: { description: "Fine", ...(route.answer ? { content: jsonOf(route.answer) } : {}) },
      default: { $ref: "#/components/responses/Problem" },
    },
  };
}

/** `GET /api/v1/jobs/:id` → `get_jobs_id`. */
function operationId({ method, path }: Route): string {
  const words = path.replace(/^\/api\/v1/, "").match(/\w+/g) ?? ["page"];
  return [method.toLowerCase(), ...words].join("_");
}

function pathParameters({ path }: Route): Document[] {
  const names = [...path.matchAll(/:(\w+)/g)].map((match) => match[1]);
  return names.map((name) => ({ name, in: "path", required: true, schema: { type: "string", maxLength: 300 } }));
}

function queryParameters({ query }: Route): Document[] {
  const { properties = {}, required = [] } = (query ? plain(query) : {}) as {
    properties?: Readonly<Record<string, { description?: string }>>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: "query",
    ...(description ? { description } : {}),
    required: required.includes(name),
    schema,
  }));
}

const bodyOf = (schema: object, takesYaml = false): Document => ({
  ...jsonOf(schema),
  ...(takesYaml ? { "application/yaml": { schema: { type: "string" } } } : {}),
});
const jsonOf = (schema: object): Document => ({ "application/json": { schema: plain(schema) } });

/** Without what the library keeps in a schema for itself. */
const plain = (schema: object): unknown => JSON.parse(JSON.stringify(schema));

const TENANT = {
  name: "X-Tenant-ID",
  in: "header",
  description: "The tenant, for keys of tenant `*`; other keys speak for their own. Also `X-Cordum-Tenant`.",
  required: false,
  schema: { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" },
};
const PROBLEM_TYPE = "application/problem+json";
const PROBLEM_REF = "#/components/schemas/Problem";
const PROBLEM = {
  type: "object",
  description: "RFC 9457, with `error`, `code`, `status`, and whether and when trying again can help.",
  required: ["type", "title", "status", "detail", "error", "code", "retryable"],
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    error: { type: "string" },
    code: { type: "string", enum: Object.keys(ERRORS) },
    retryable: { type: "boolean" },
    retry_after_ms: { type: "integer" },
    current: { type: "integer" },
    limit: { type: "integer" },
  },
};
