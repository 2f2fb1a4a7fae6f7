/**
 * Schemas shared by the views. A schema with a `title` is a named schema of the OpenAPI document: it is written once, under
 * `components/schemas`, and referenced elsewhere.
 */
import { type TObject, type TSchema, Type } from "typebox";
import { RETRY_CLASSES } from "../../core/retry/retry-classes.ts";

export const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()]);
export const instant = (description: string) => Type.String({ format: "date-time", description });
export const TEXT_OR_NULL = orNull(Type.String());

export const RECORD_VERSION = Type.Integer({
  description: "Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer.",
});

/** `input`, `result` and other payloads. */
export const json = (description: string) => Type.Unknown({ description: `Any JSON value. ${description}`.trim() });

/** A reference by name, for schemas that contain themselves. */
const ERROR_REF = Type.Unsafe<unknown>({ $ref: "ErrorInfo" });
export const ERROR_INFO = Type.Object(
  {
    name: Type.String(),
    message: Type.String(),
    code: Type.Optional(Type.Union([Type.String(), Type.Number()])),
    cause: Type.Optional(ERROR_REF),
    errors: Type.Optional(Type.Array(ERROR_REF, { description: "The errors of an aggregate." })),
    retryDelayMs: Type.Optional(Type.Number({ description: "The delay that the worker asked for." })),
    retryClass: Type.Optional(Type.Enum([...RETRY_CLASSES])),
    retryNever: Type.Optional(Type.Literal(true, { description: "The error is permanent." })),
  },
  { title: "ErrorInfo", description: "The error of an attempt, a job or a run, with its causes; redacted." },
);

const count = Type.Optional(Type.Integer());
const names = Type.Optional(Type.Array(Type.String()));
const CONSTRAINT_FIELDS = {
  budgets: Type.Optional(
    Type.Object({
      max_runtime_ms: count,
      max_retries: count,
      max_artifact_bytes: count,
      max_concurrent_jobs: count,
    }),
  ),
  sandbox: Type.Optional(
    Type.Object({
      isolated: Type.Optional(Type.Boolean()),
      network_allowlist: names,
      fs_read_only: names,
      fs_read_write: names,
    }),
  ),
  toolchain: Type.Optional(Type.Object({ allowed_tools: names, allowed_commands: names })),
  diff: Type.Optional(Type.Object({ max_files: count, max_lines: count, deny_path_globs: names })),
  redaction_level: Type.Optional(Type.String()),
};
const ABOUT_CONSTRAINTS = "Budgets are enforced by the control plane, the rest by the worker.";
export const CONSTRAINTS = Type.Object(CONSTRAINT_FIELDS, { title: "Constraints", description: ABOUT_CONSTRAINTS });
/** As stored on a job. */
export const JOB_CONSTRAINTS = Type.Object(camelCased(CONSTRAINT_FIELDS), {
  title: "JobConstraints",
  description: `${ABOUT_CONSTRAINTS} The same as \`Constraints\`, with names in camel case.`,
});

function camelCased(fields: Readonly<Record<string, TSchema>>): Record<string, TSchema> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, schema]) => {
      const { properties } = schema as Partial<TObject>;
      const inner = properties === undefined ? schema : Type.Optional(Type.Object(camelCased(properties)));
      return [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), inner];
    }),
  );
}
