import { type Config, configure, type Sources } from "../../src/config/config.ts";

/** Throws the problems of invalid sources. */
export function good(sources: Sources): Config {
  const configured = configure(sources);
  if (configured.kind === "bad") throw new Error(configured.problems.join("\n"));
  return configured.config;
}

export function problemsOf(sources: Sources): readonly string[] {
  const configured = configure(sources);
  return configured.kind === "bad" ? configured.problems : [];
}
