/** The parameters of an experiment in the address: only those that differ from the default. */
import type { LabCatalogue } from "../../../../src/client/schema.ts";

export type Experiment = LabCatalogue["experiments"][number];
export type Param = Experiment["params"][number];

/** By parameter; several values of `rows` are lines. */
export type Draft = Readonly<Record<string, string>>;

export const usual = ({ default: values }: Param): string => values.join("\n");

/** `query` is the address; rows are separated by commas there. */
export function draftFrom(params: readonly Param[], query: URLSearchParams): Draft {
  return Object.fromEntries(
    params.map((param) => {
      const given = query.get(param.name);
      if (given === null) return [param.name, usual(param)];
      return [param.name, param.kind === "rows" ? given.split(",").join("\n") : given];
    }),
  );
}

/** The changes of the address that make it say what the draft says. */
export function addressOf(params: readonly Param[], draft: Draft): Record<string, string | null> {
  return Object.fromEntries(
    params.map((param) => {
      const text = textOf(param, draft);
      return [param.name, text === usual(param) ? null : text.replaceAll("\n", ",")];
    }),
  );
}

/** The body of the request. */
export function requestOf(params: readonly Param[], draft: Draft): Record<string, string | string[]> {
  const changed = params.filter((param) => textOf(param, draft) !== usual(param));
  return Object.fromEntries(
    changed.map((param) => {
      const text = textOf(param, draft);
      return [param.name, param.kind === "rows" ? text.split("\n") : text];
    }),
  );
}

/** The same as a command of the CLI. */
export function commandOf({ name, params }: Experiment, draft: Draft): readonly [string, ...string[]] {
  const flags = params.flatMap((param) => {
    const text = textOf(param, draft);
    if (text === usual(param)) return [];
    if (param.kind === "rows") return text.split("\n").flatMap((row) => ["--policy", row]);
    return [`--${param.name.replaceAll(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)}`, text];
  });
  return [`lab ${name}`, ...flags];
}

function textOf(param: Param, draft: Draft): string {
  const text = (draft[param.name] ?? "").trim();
  if (text === "") return usual(param);
  return param.kind === "rows"
    ? text
        .split(/[\n,]/)
        .map((row) => row.trim())
        .filter((row) => row !== "")
        .join("\n")
    : text;
}
