// TypeScript types of the HTTP API, from docs/openapi.json. `src/client/schema.ts` is their output; test/scripts/client-types.test.ts
// compares and updates it.
//
// 1. A schema is a type of its name. An operation is an entry of `Operations`, named `METHOD /path` without `/api/v1`.
// 2. Operations with a JSON response are included; pages, metrics and the event stream are not.

const PREFIX = "/api/v1";
const HEADER =
  "// Generated from docs/openapi.json. Update it with `npx vitest run test/scripts/client-types.test.ts -u`.\n\n" +
  "export type NoFields = Readonly<Record<never, never>>;\n";

/** The source text of `src/client/schema.ts`. */
export function clientTypes(document) {
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => declarationOf(name, schema));
  const operations = operationsOf(document).map(({ name, operation }) => entryOf(name, operation));
  const table = `/** Every operation with a JSON response. */\nexport interface Operations {\n${operations.join("\n")}\n}\n`;
  return [HEADER, ...schemas, table].join("\n");
}

/** The operations that are in `Operations`. */
export function operationsOf(document) {
  return Object.entries(document.paths)
    .filter(([path]) => path.startsWith(`${PREFIX}/`))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path.slice(PREFIX.length)}`,
        operation,
      })),
    )
    .filter(({ operation }) => jsonOf(operation.responses[200]) !== undefined);
}

function declarationOf(name, schema) {
  const isInterface = schema.type === "object" && schema.properties !== undefined;
  const body = isInterface ? `interface ${name} ${typeOf(schema, "")}` : `type ${name} = ${typeOf(schema, "")};`;
  return `${commentOf(schema, "")}export ${body}\n`;
}

function entryOf(name, { summary, parameters = [], requestBody, responses }) {
  const group = (place) => {
    const fields = parameters.filter((parameter) => parameter.in === place);
    const schema = Object.fromEntries(
      fields.map((field) => [field.name, { description: field.description, ...field.schema }]),
    );
    const required = fields.filter((field) => field.required).map((field) => field.name);
    return fields.length === 0 ? "NoFields" : typeOf({ type: "object", properties: schema, required }, "    ");
  };
  const body = jsonOf(requestBody) === undefined ? "undefined" : typeOf(jsonOf(requestBody), "    ");
  const empty = responses[204] === undefined ? "" : " | null";
  return [
    `${commentOf({ description: summary }, "  ")}  readonly ${JSON.stringify(name)}: {`,
    `    readonly path: ${group("path")};`,
    `    readonly query: ${group("query")};`,
    `    readonly body: ${body}${requestBody?.required === false ? " | undefined" : ""};`,
    `    readonly response: ${typeOf(jsonOf(responses[200]), "    ")}${empty};`,
    "  };",
  ].join("\n");
}

function typeOf(schema, indent) {
  if (schema.$ref !== undefined) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map((one) => typeOf(one, indent)))].join(" | ");
  switch (schema.type) {
    case "object":
      return objectOf(schema, indent);
    case "array":
      return `ReadonlyArray<${typeOf(schema.items ?? {}, indent)}>`;
    case "integer":
      return "number";
    case "string":
    case "number":
    case "boolean":
    case "null":
      return schema.type;
    case undefined:
      return "unknown";
    default:
      throw new Error(`type \`${schema.type}\` has no TypeScript type; add it to scripts/client-types.mjs`);
  }
}

function objectOf({ properties = {}, required = [], patternProperties, additionalProperties }, indent) {
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, field]) => {
    const isRequired = required.includes(name);
    const key = /^[a-z_]\w*$/i.test(name) ? name : JSON.stringify(name);
    const type = typeOf(field, inner);
    return `${commentOf(field, inner)}${inner}readonly ${key}${isRequired ? "" : "?"}: ${type}${isRequired ? "" : " | undefined"};`;
  });
  const [values] = Object.values(patternProperties ?? {});
  if (fields.length === 0)
    return `Readonly<Record<string, ${values === undefined ? "unknown" : typeOf(values, indent)}>>`;
  if (additionalProperties === true) fields.push(`${inner}readonly [field: string]: unknown;`);
  return `{\n${fields.join("\n")}\n${indent}}`;
}

function jsonOf(content) {
  return content?.content?.["application/json"]?.schema;
}

function commentOf({ description }, indent) {
  return description === undefined ? "" : `${indent}/** ${description.replaceAll("*/", "*\\/")} */\n`;
}
