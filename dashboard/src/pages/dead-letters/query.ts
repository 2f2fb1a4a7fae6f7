/** Filters and bulk operations of dead letters. */
import type { DeadLetter } from "../../../../src/client/schema.ts";
import type { BulkQuery, BulkTarget } from "../../kit/bulk/dialog.tsx";
import { describeFilter } from "../../kit/bulk/filter.ts";
import { type BulkFilter, BulkRunner } from "../../kit/bulk/operation.ts";
import type { Column } from "../../kit/table.tsx";

const TEXTS = {
  topic: "topic",
  reason: "reason",
  error: "error",
  fingerprint: "group",
  newer_than: "younger than",
  older_than: "older than",
};

export const FILTERS = Object.keys(TEXTS);

export const bulkQuery = (filter: BulkFilter): BulkQuery => ({
  filter,
  text: describeFilter(filter, TEXTS, "all dead letters"),
});

export const bulkTarget = (columns: readonly Column<DeadLetter>[]): BulkTarget<DeadLetter> => ({
  runner,
  what: "dead letters",
  command: "dlq",
  columns,
  keyOf: ({ id }) => id,
});

export const runner = new BulkRunner("POST /dlq/bulk");
