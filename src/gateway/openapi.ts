/** The OpenAPI document, generated from the route table that also drives routing and validation. */
import { Type } from "typebox";
import { ERRORS } from "../core/model/errors.ts";
import { ok, type Route } from "./route.ts";

export type Document = Readonly<Record<string, unknown>>;

/** Serves the document, which includes this route. */
export function documentRoute(routes: readonly Route[], version: string): Route {
  let document: Document | undefined;
  const route: Route = {
    method: "GET",
    path: "/api/v1/openapi.json",
    summary: "Get this OpenAPI document",
    access: "open",
    response: Type.Record(Type.String(), Type.Unknown({ description: "See the OpenAPI specification, version 3.1." }), {
      title: "OpenapiDocument",
    }),
    handle: async () => {
      document ??= openapiDocument([...routes, route], version);
      return ok(document);
    },
  };
  return route;
}

export function openapiDocument(routes: readonly Route[], version: string): Document {
  const paths: Record<string, Record<string, unknown>> = {};
  const components = new Components();
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, components) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Cordum", version, summary: "A control plane for AI agents", license: { name: "Apache-2.0" } },
    servers: [{ url: "/", description: "The gateway that serves this document; by default http://127.0.0.1:8081" }],
    security: [{ key: [] }, { bearer: [] }],
    tags: [...new Set(routes.map(tagOf))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        key: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer" },
      },
      schemas: components.sorted(),
      responses: {
        Problem: {
          description: "An error, as an RFC 9457 problem document",
          content: { [PROBLEM_TYPE]: { schema: components.refTo(PROBLEM, "Problem") } },
        },
      },
    },
  };
}

function operationOf(route: Route, components: Components): Document {
  const isOpen = route.access === "open";
  const id = operationId(route);
  return {
    summary: route.summary,
    operationId: id,
    tags: [tagOf(route)],
    "x-access": route.access,
    ...(route.orAccess ? { "x-or-access": route.orAccess } : {}),
    ...(route.allTenants ? { "x-every-tenant": true } : {}),
    ...(route.longLived ? { "x-long": true } : {}),
    ...(isOpen ? { security: [] } : {}),
    parameters: [...pathParameters(route), ...queryParameters(route), ...(isOpen ? [] : [TENANT])],
    ...(route.body
      ? { requestBody: bodyOf(route.body, components.refTo(route.body, `${pascal(id)}Request`), route) }
      : {}),
    responses: {
      200: { description: "OK", ...(route.response ? { content: contentOf(route, components, id) } : {}) },
      ...(route.emptyWhen ? { 204: { description: route.emptyWhen } } : {}),
      default: { $ref: "#/components/responses/Problem" },
    },
  };
}

/** The named schemas: those with a `title`, and bodies and responses without one, which are named after their operation. */
class Components {
  readonly #schemas = new Map<string, unknown>();

  refTo(schema: object, fallbackName: string): unknown {
    const hoisted = this.#hoist(plain(schema)) as { readonly $ref?: string; readonly type?: string };
    const isPlain = hoisted.$ref !== undefined || hoisted.type === "string";
    return isPlain ? hoisted : this.#add(fallbackName, hoisted);
  }

  sorted(): Document {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Replaces named schemas by references, inner ones first. */
  #hoist(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((part) => this.#hoist(part));
    if (typeof schema !== "object" || schema === null) return schema;
    const { title, $ref, ...rest } = schema as { readonly title?: unknown; readonly $ref?: unknown };
    if (typeof $ref === "string") return { $ref: `${SCHEMAS}${$ref}` };
    // A property can have the name `title`; then it is a schema.
    const isNamed = typeof title === "string";
    const parts = Object.entries(isNamed ? rest : schema).map(([key, part]) => [key, this.#hoist(part)] as const);
    const hoisted = Object.fromEntries(parts);
    return isNamed ? this.#add(title, hoisted) : hoisted;
  }

  #add(name: string, schema: unknown): unknown {
    const known = this.#schemas.get(name);
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema)) {
      throw new Error(`two schemas are named \`${name}\`; give one of them another \`title\``);
    }
    this.#schemas.set(name, schema);
    return { $ref: `${SCHEMAS}${name}` };
  }
}

/** `get_jobs_id` → `GetJobsId`. */
const pascal = (id: string): string => id.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());

/** From the path: `/api/v1/workflows/:id/runs` → `Runs`. */
function tagOf({ path }: Route): string {
  const segments = path.replace(/^\/api\/v1\//, "").split("/");
  const [first = ""] = segments;
  const noun = segments.includes("runs") ? "runs" : (TAGS[first] ?? first);
  return `${noun.charAt(0).toUpperCase()}${noun.slice(1)}`;
}

const TAGS: Readonly<Record<string, string>> = {
  "": "process",
  contention: "locks",
  dlq: "dead letters",
  failopen: "fail-open",
  health: "process",
  healthz: "process",
  keys: "API keys",
  kill: "kill switch",
  memory: "payloads",
  metrics: "process",
  "openapi.json": "process",
  pools: "workers",
  readyz: "process",
  schemas: "workflows",
  status: "process",
  stream: "events",
  topics: "workers",
  worker: "worker API",
  "workflow-runs": "runs",
};

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

/** The body can be omitted if no field of it is required. */
function bodyOf(body: object, schema: unknown, { acceptsYaml }: Route): Document {
  const { required = [] } = body as { readonly required?: readonly string[] };
  const yaml = acceptsYaml ? { "application/yaml": { schema: { type: "string" } } } : {};
  return { required: required.length > 0, content: { "application/json": { schema }, ...yaml } };
}

function contentOf({ response, produces = "application/json" }: Route, components: Components, id: string): Document {
  return response === undefined ? {} : { [produces]: { schema: components.refTo(response, `${pascal(id)}Response`) } };
}

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
const SCHEMAS = "#/components/schemas/";
const PROBLEM = {
  type: "object",
  description:
    "RFC 9457 problem document with `error`, `code`, `status`, `retryable` and, for 429 and 503, `retry_after_ms`.",
  additionalProperties: true,
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
