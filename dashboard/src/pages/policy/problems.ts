export interface Problem {
  /** From 1; null: about the text as a whole. */
  readonly line: number | null;
  readonly text: string;
}

/** Problems of a policy text, such as `policy:12: unknown key`, in the order of their lines. */
export function problemsOf(problems: unknown): readonly Problem[] {
  if (!Array.isArray(problems)) return [];
  const read = problems.map((problem) => {
    const [, line, text] = /^[^\s:]+:(\d+): (.*)$/s.exec(String(problem)) ?? [];
    return line === undefined || text === undefined
      ? { line: null, text: String(problem) }
      : { line: Number(line), text };
  });
  return read.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}
