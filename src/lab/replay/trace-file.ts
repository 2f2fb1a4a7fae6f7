/** Exported contention records: `cordum trace export` writes a file, `cordum lab replay --from` reads it. */
import type { ContentionRecord } from "../../core/contention/acquisition.ts";
import { DamagedRecordError, readRecordDocument } from "../../core/contention/codec.ts";

export const TRACE_FORMAT = "cordum-contention";

export interface TraceFile {
  readonly format: typeof TRACE_FORMAT;
  /** As in responses of the gateway. */
  readonly records: readonly unknown[];
}

export const traceFileText = (records: readonly unknown[]): string =>
  `${JSON.stringify({ format: TRACE_FORMAT, records } satisfies TraceFile)}\n`;

/** Throws with what is wrong with the text. */
export function readTraceFile(text: string): readonly ContentionRecord[] {
  let file: Partial<TraceFile> | null;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON, or it was cut off");
  }
  if (typeof file !== "object" || file?.format !== TRACE_FORMAT || !Array.isArray(file.records)) {
    throw new Error(`it is not a file of \`cordum trace export\` (\`format\` is not \`${TRACE_FORMAT}\`)`);
  }
  return readRecords(file.records);
}

export function readRecords(documents: readonly unknown[]): readonly ContentionRecord[] {
  return documents.map((document, at) => {
    try {
      return readRecordDocument(document);
    } catch (error) {
      if (error instanceof DamagedRecordError) throw new Error(`record ${at + 1}: ${error.message}`);
      throw error;
    }
  });
}
