import type { JobDetails } from "../core/model/job-details.ts";
import { camelCase } from "./schema.ts";

/** The optional request fields in JSON, with the field names of the wire protocol. Only fields that are present. */
export function detailsToJson(details: JobDetails): Readonly<Record<string, unknown>> {
  return renamed(details, snakeCase);
}

/** Reads the fields that `detailsToJson` wrote; other fields are ignored. */
export function detailsFromJson(json: object): JobDetails {
  const own = Object.entries(json).filter(([name]) => DETAIL_FIELDS.includes(name));
  return renamed(Object.fromEntries(own), camelCase);
}

export const DETAIL_FIELDS: readonly string[] = [
  "adapter_id",
  "env",
  "parent_job_id",
  "workflow_id",
  "step_index",
  "memory_id",
  "context_hints",
  "budget",
  "compensation",
  "principal_id",
];

function renamed(value: object, rename: (name: string) => string): Readonly<Record<string, unknown>> {
  const entries = Object.entries(value).map(([name, inner]) => {
    const isMessage = typeof inner === "object" && inner !== null && !Array.isArray(inner) && !MAPS.has(name);
    return [rename(name), isMessage ? renamed(inner, rename) : inner];
  });
  return Object.fromEntries(entries);
}

export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Their keys belong to the client. */
const MAPS: ReadonlySet<string> = new Set(["env", "labels"]);
