// A strict parser of the Prometheus text format, limited to the features that /metrics uses.

export interface PageFamily {
  readonly help: string;
  readonly type: string;
  /** Keyed by `sampleKey`. */
  readonly samples: Map<string, number>;
}

/** Independent of the order of labels. */
export function sampleKey(name: string, labels: Readonly<Record<string, string>>): string {
  return JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);
}

export function readPage(page: string): Map<string, PageFamily> {
  if (!page.endsWith("\n")) throw new Error("missing newline at the end");
  const families = new Map<string, PageFamily>();
  let current: { readonly name: string; readonly family: PageFamily } | null = null;
  const lines = page.slice(0, -1).split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (line === "") continue;
    if (!line.startsWith("#")) {
      if (current === null) throw new Error(`sample without a family: ${line}`);
      readSample(line, current.name, current.family);
      continue;
    }
    const [, name = "", help = ""] = /^# HELP (\S+) (.*)$/.exec(line) ?? [];
    at += 1;
    const [, typed, type = ""] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(lines[at] ?? "") ?? [];
    if (name === "" || typed !== name || families.has(name)) throw new Error(`invalid family header: ${line}`);
    current = { name, family: { help: unescaped(help, "\\n"), type, samples: new Map() } };
    families.set(name, current.family);
  }
  return families;
}

function readSample(line: string, family: string, { type, samples }: PageFamily): void {
  const [, name = "", labelsText = "", value = ""] = SAMPLE.exec(line) ?? [];
  const suffixes = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
  if (!suffixes.some((suffix) => name === family + suffix)) throw new Error(`not a sample of ${family}: ${line}`);
  const labels: Record<string, string> = {};
  for (const [, label = "", raw = ""] of labelsText.matchAll(LABEL)) {
    if (Object.hasOwn(labels, label)) throw new Error(`duplicate label: ${line}`);
    labels[label] = unescaped(raw, '\\n"');
  }
  const key = sampleKey(name, labels);
  if (samples.has(key)) throw new Error(`duplicate sample: ${line}`);
  samples.set(key, readNumber(value));
}

function readNumber(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  if (text === "-Inf") return Number.NEGATIVE_INFINITY;
  if (text !== "NaN" && !/^-?\d+(\.\d+)?(e[+-]\d+)?$/.test(text)) throw new Error(`not a number: ${text}`);
  return Number(text);
}

function unescaped(text: string, known: string): string {
  return text.replace(/\\(.?)/gs, (_, what: string) => {
    if (what === "" || !known.includes(what)) throw new Error(`invalid escape in ${text}`);
    return what === "n" ? "\n" : what;
  });
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:\\.|[^"\\])*"(?:,(?!\})|(?=\})))+)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"/g;
