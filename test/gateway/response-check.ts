/** Validates every JSON response of a gateway against the OpenAPI document. Fields that the document lacks are violations. */
import type { FastifyInstance } from "fastify";
import type { TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { openapiDocument } from "../../src/gateway/openapi.ts";
import { ROUTES } from "../../src/gateway/server.ts";

const SCHEMAS = "#/components/schemas/";

interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, TSchema>> };
}

interface Operation {
  readonly responses: { readonly 200: { readonly content?: Readonly<Record<string, { readonly schema: TSchema }>> } };
}

const validators = new Map<string, Validator>();
let strictDocument: ApiDocument | undefined;

/** The violations found so far; filled while requests are served. */
export function checkResponses(app: FastifyInstance): readonly string[] {
  const violations: string[] = [];
  app.addHook("preSerialization", async ({ method, routeOptions: { url = "" } }, { statusCode }, payload) => {
    if (statusCode === 200) violations.push(...violationsIn(method, url, payload));
    return payload;
  });
  return violations;
}

function violationsIn(method: string, path: string, payload: unknown): string[] {
  const validator = validatorOf(method, path);
  if (validator === null) return [];
  const body: unknown = JSON.parse(JSON.stringify(payload));
  if (validator.Check(body)) return [];
  return validator
    .Errors(body)
    .slice(0, 5)
    .map(({ instancePath, message }) => {
      const value = JSON.stringify(instancePath.split("/").slice(1).reduce(member, body))?.slice(0, 300);
      return `response of ${method} ${path}, at \`${instancePath}\`: ${message}; got ${value}`;
    });
}

function validatorOf(method: string, path: string): Validator | null {
  const key = `${method} ${path}`;
  const known = validators.get(key);
  if (known !== undefined) return known;
  strictDocument ??= strict(openapiDocument(ROUTES, "0.0.0")) as ApiDocument;
  const operation = strictDocument.paths[path.replace(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()];
  const schema = operation?.responses[200].content?.["application/json"]?.schema;
  if (schema === undefined) return null;
  const validator = Compile({ ...strictDocument.components.schemas }, schema);
  validators.set(key, validator);
  return validator;
}

/** References by name, as TypeBox resolves them, and no fields beyond those of the schema unless it declares itself open. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== "object" || schema === null) return schema;
  const parts = Object.entries(schema).map(([key, part]) => [
    key,
    key === "$ref" && typeof part === "string" ? part.replace(SCHEMAS, "") : strict(part),
  ]);
  const isClosed = "properties" in schema && "type" in schema && schema.type === "object";
  return { ...(isClosed ? { additionalProperties: false } : {}), ...Object.fromEntries(parts) };
}

const member = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
