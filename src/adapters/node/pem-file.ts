import { readFileSync } from "node:fs";
import { TrustError } from "../grpc/trust.ts";

/** The bytes of the file that a setting names; what keeps it from being read is told with what to do about it. */
export function readPemFile(setting: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = WHY_NOT_READ[code ?? ""] ?? `it cannot be read: ${message}`;
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: ${why}`);
  }
}

const WHY_NOT_READ: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file; give the path of a PEM file",
  EISDIR: "it is a directory; give the path of a PEM file",
  EACCES: "this process may not read it; give its user or its group the right to",
};
