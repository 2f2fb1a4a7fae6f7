/** What a step's job says about itself: what policies, pools and people look at. */
import { RESERVED_LABELS } from "../../model/job.ts";
import { type Fields, isOf } from "./fields.ts";
import type { StepMeta } from "./plan.ts";

const PRIORITIES = ["interactive", "batch", "critical"] as const;
const ACTOR_TYPES = ["human", "service"] as const;
const LABELS_MAX = 60;
const TEXT_LENGTH_MAX = 256;
const NAME = /^[A-Za-z0-9_.:@-]+$/;

export function readMeta(fields: Fields): StepMeta {
  return {
    priority: fields.choice("priority", PRIORITIES) ?? null,
    labels: readLabels(fields),
    riskTags: fields.texts("risk_tags", LABELS_MAX, TEXT_LENGTH_MAX) ?? [],
    requires: fields.texts("requires", LABELS_MAX, TEXT_LENGTH_MAX) ?? [],
    capability: readName(fields, "capability"),
    actorId: readName(fields, "actor_id"),
    actorType: fields.choice("actor_type", ACTOR_TYPES) ?? null,
    packId: readName(fields, "pack_id"),
  };
}

function readName(fields: Fields, key: string): string | null {
  const value = fields.get(key);
  if (value === undefined) return null;
  if (typeof value === "string" && value.length <= TEXT_LENGTH_MAX && NAME.test(value)) return value;
  fields.problem(key, `must be 1 to ${TEXT_LENGTH_MAX} letters, digits or any of \`_ . : @ -\`${isOf(value)}`);
  return null;
}

function readLabels(fields: Fields): Readonly<Record<string, string>> {
  const source = fields.map("labels", "must be a mapping from names to texts, such as `{env: prod}`");
  const entries = Object.entries(source ?? {});
  if (entries.length > LABELS_MAX) fields.problem("labels", `must be at most ${LABELS_MAX}, are ${entries.length}`);
  const labels = new Map<string, string>();
  for (const [name, value] of entries.slice(0, LABELS_MAX)) {
    const path = [...fields.at("labels"), name];
    const text = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
    if (RESERVED_LABELS.includes(name)) {
      fields.problems.add(path, "is written by the control plane alone; leave it out", true);
    } else if (name in {} || name.length > TEXT_LENGTH_MAX) {
      fields.problems.add(path, "cannot be the name of a label", true);
    } else if (typeof text !== "string" || text.length > TEXT_LENGTH_MAX) {
      fields.problems.add(path, `must be a text of up to ${TEXT_LENGTH_MAX} characters${isOf(value)}`);
    } else if (text.includes("${")) {
      fields.problems.add(path, "has `${` in it, and labels are not templates; put it into `input`");
    } else labels.set(name, text);
  }
  return Object.fromEntries(labels);
}
