/** What is wrong with a definition, each with its place in it. */

/** From the top of the document: `["steps", "fetch", "topic"]`. */
export type Path = readonly (string | number)[];

export interface Problem {
  readonly path: Path;
  readonly text: string;
  /** It is about the last name of the path, and not about what stands there. */
  readonly isAboutName: boolean;
}

export const PROBLEMS_MAX = 100;

export class Problems {
  readonly #all: Problem[] = [];

  add(path: Path, text: string, isAboutName = false): void {
    if (this.#all.length < PROBLEMS_MAX) this.#all.push({ path, text, isAboutName });
  }

  get all(): readonly Problem[] {
    return this.#all;
  }
}

/** `steps.fetch.topic`, `steps.fetch.depends_on[2]`, `input["a b"]`. */
export function pathText(path: Path): string {
  return path.map(partText).join("");
}

export function problemText({ path, text }: Problem): string {
  return path.length === 0 ? text : `${pathText(path)}: ${text}`;
}

export function partText(part: string | number, index: number): string {
  if (typeof part === "number") return `[${part}]`;
  if (/^[A-Za-z_$][\w$-]*$/.test(part)) return index === 0 ? part : `.${part}`;
  return `[${JSON.stringify(part.length > 64 ? `${part.slice(0, 61)}…` : part)}]`;
}
