import { expect, test } from "vitest";
import {
  type AuditCheckpoint,
  CHECKPOINT_FORMAT,
  checkpointText,
  readCheckpoint,
} from "../../../src/core/model/audit.ts";

const checkpoint: AuditCheckpoint = {
  format: CHECKPOINT_FORMAT,
  tenant: "acme",
  entries: 3,
  head: "abc",
  at: "2026-01-01T00:00:00.000Z",
  signature: "sig",
  public_key: "key",
};

test("signs JSON with sorted keys and without spaces", () => {
  expect(checkpointText(checkpoint)).toBe(
    `{"at":"2026-01-01T00:00:00.000Z","entries":3,"format":"${CHECKPOINT_FORMAT}","head":"abc","tenant":"acme"}`,
  );
});

test("reads a checkpoint", () => {
  expect(readCheckpoint(checkpoint)).toEqual(checkpoint);
});

test.each<{ name: string; document: unknown }>([
  ...[null, undefined, "text", 1].map((document) => ({ name: String(document), document })),
  { name: "another format", document: { ...checkpoint, format: "cordum-audit-checkpoint/2" } },
  { name: "entries as text", document: { ...checkpoint, entries: "3" } },
  { name: "half an entry", document: { ...checkpoint, entries: 0.5 } },
  ...["tenant", "head", "at", "signature", "public_key"].flatMap((field) => [
    { name: `${field} of another type`, document: { ...checkpoint, [field]: 1 } },
    { name: `no ${field}`, document: { ...checkpoint, [field]: undefined } },
  ]),
])("is no checkpoint: $name", ({ document }) => {
  expect(readCheckpoint(document)).toBeNull();
});
