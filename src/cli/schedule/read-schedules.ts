import { parseYaml } from "../../core/yaml/parse.ts";

export type ReadSchedules =
  | { readonly kind: "ok"; readonly documents: readonly object[] }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** The documents of a YAML or JSON file: one schedule, or a list of schedules. Their fields are checked when they are applied. */
export function readSchedules(text: string, file: string): ReadSchedules {
  if (text.length > LENGTH_MAX) return { kind: "bad", problems: [`${file}: longer than ${LENGTH_MAX} characters`] };
  const { yaml, lines, faults } = parseYaml(text);
  if (faults.length > 0) {
    const problems = faults.map(({ offset, why }) => `${file}:${lines.linePos(offset).line}: ${why}`);
    return { kind: "bad", problems };
  }
  const value: unknown = yaml.toJS();
  const documents = Array.isArray(value) ? value : [value];
  const isRead = documents.length > 0 && documents.every((one) => typeof one === "object" && one !== null);
  if (isRead) return { kind: "ok", documents };
  return {
    kind: "bad",
    problems: [`${file}: a file has one schedule or a list of schedules, each a mapping with \`id\``],
  };
}

const LENGTH_MAX = 1024 * 1024;
