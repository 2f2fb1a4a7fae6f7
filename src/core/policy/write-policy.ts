/** Writes a policy document as the text of a policy file that reads back as the same document. */
import { stringify } from "yaml";
import { formatDuration } from "../retry/duration.ts";
import type { ApprovalTerms } from "./decision.ts";
import type { PolicyDocument, Rule } from "./document.ts";

export function writePolicy({ version, defaultDecision, rules }: PolicyDocument): string {
  const file = {
    ...(version === null ? {} : { version }),
    default_decision: defaultDecision,
    rules: rules.map(writeRule),
  };
  return stringify(file, { lineWidth: 120, aliasDuplicateObjects: false });
}

function writeRule({ approval, ...rule }: Rule): object {
  const written = toFileKeys(rule) as object;
  return approval === undefined ? written : { ...written, approval: writeApproval(approval) };
}

const writeApproval = ({ expiresMs, bySubmitter }: ApprovalTerms): object => ({
  ...(expiresMs === null ? {} : { expires: formatDuration(expiresMs) }),
  by_submitter: bySubmitter,
});

/** Converts keys to those of the file (snake case), except label names. */
export function toFileKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toFileKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      key === "labels" || key === "addLabels" ? inner : toFileKeys(inner),
    ]),
  );
}
