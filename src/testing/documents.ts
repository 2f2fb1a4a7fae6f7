import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { PlaneError } from "./plane-error.ts";

/** A YAML or JSON text, a file, or the parsed document with the key names of the file. */
export type Source = string | { readonly file: string } | Readonly<Record<string, unknown>>;

/** The text of a source, and the name that diagnostics show. */
export interface SourceText {
  readonly name: string;
  readonly text: string;
}

export function readSource(source: Source, name: string): SourceText {
  if (typeof source === "string") return { name, text: source };
  if (!isFile(source)) return { name, text: JSON.stringify(source, null, 2) };
  try {
    return { name: basename(source.file), text: readFileSync(source.file, "utf8") };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PlaneError("invalid_options", `${name}: cannot read \`${source.file}\`: ${reason}`, { cause: error });
  }
}

/** No policy, workflow or configuration consists of a `file` only. */
function isFile(source: object): source is { readonly file: string } {
  return Object.keys(source).length === 1 && "file" in source && typeof source.file === "string";
}
