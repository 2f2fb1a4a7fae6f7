/** The OpenAPI document, generated from the route table that also drives routing and validation. */
import { ERRORS } from "../core/model/errors.ts";
import { ok, type Route } from "./route.ts";

export type Document = Readonly<Record<string, unknown>>;

/** Serves the document, which includes this route. */
export function documentRoute(routes: readonly Route[], version: string): Route {
  const route: Route = {
    method: "GET",
    path: "/api/v1/openapi.json",
    summary: "Get this OpenAPI document",
    access: "open",
    handle: async () => ok(document),
  };
  const document = openapiDocument([...routes, route], version);
  return route;
}

export function openapiDocument(routes: readonly Route[], version: string): Document {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Cordum", version, summary: "A control plane for AI agents", license: { name: "Apache-2.0" } },
    servers: [{ url: "/", description: "The gateway that serves this document; by default http://127.0.0.1:8081" }],
    security: [{ key: [] }, { bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        key: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer" },
      },
      schemas: { Problem: PROBLEM },
      responses: {
        Problem: {
          description: "An error, as an RFC 9457 problem document",
          content: { [PROBLEM_TYPE]: { schema: { $ref: PROBLEM_REF } } },
        },
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
    ...(route.allTenants ? { "x-every-tenant": true } : {}),
    ...(route.longLived ? { "x-long": true } : {}),
    ...(isOpen ? { security: [] } : {}),
    parameters: [...pathParameters(route), ...queryParameters(route), ...(isOpen ? [] : [TENANT])],
    ...(route.body ? { requestBody: { content: bodyOf(route.body, route.acceptsYaml) } } : {}),
    responses: {
      200: { description: "OK", ...(route.response ? { content: jsonOf(route.response) } : {}) },
      ...(route.emptyWhen ? { 204: { description: route.emptyWhen } } : {}),
      default: { $ref: "#/components/responses/Problem" },
    },
  };
}

/** `GET /api/v1/jobs/:id` → `get_jobs_id`. */
function operationId({ method, path }: Route): string {
  const segments = path.replace(/^\/api\/v1/, "").match(/\w+/g) ?? ["page"];
  return [method.toLowerCase(), ...segments].join("_");
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

/** Strips the symbols that TypeBox adds to schemas. */
const plain = (schema: object): unknown => JSON.parse(JSON.stringify(schema));

const TENANT = {
  name: "X-Tenant-ID",
  in: "header",
  description:
    "The tenant to act for; only keys of tenant `*` can name another than their own. Alias: `X-Cordum-Tenant`.",
  required: false,
  schema: { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" },
};
const PROBLEM_TYPE = "application/problem+json";
const PROBLEM_REF = "#/components/schemas/Problem";
const PROBLEM = {
  type: "object",
  description:
    "RFC 9457 problem document with `error`, `code`, `status`, `retryable` and, for 429 and 503, `retry_after_ms`.",
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
