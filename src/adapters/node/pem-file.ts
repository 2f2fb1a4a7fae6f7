import { readFileSync } from "node:fs";

/** The settings do not establish a trusted connection. `setting` is the one to fix first. */
export class TrustError extends Error {
  override readonly name = "TrustError";
  readonly setting: string;

  constructor(setting: string, message: string) {
    super(message);
    this.setting = setting;
  }
}

/** Reads the file named by a setting. Errors say how to fix it. */
export function readPemFile(setting: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const detail = READ_ERRORS[code ?? ""] ?? `cannot read it: ${message}`;
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: ${detail}`);
  }
}

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: "no such file: set the path of a PEM file",
  EISDIR: "this is a directory: set the path of a PEM file",
  EACCES: "permission denied: allow the user of this process to read it",
};
