/**
 * "What the lab says": the four experiments with fixed seeds, as a chapter for people who choose settings.
 *
 * 1. The same sources make the same chapter byte for byte: no clock, no version, nothing of the machine is in it.
 * 2. Whatever it says of a default is decided by figures, in `chapter-verdicts.ts`: a default that the lab speaks against
 *    is said to be so.
 * 3. Each part carries the command that repeats it.
 */
import { ADMISSION } from "./admission/experiment.ts";
import { type Verdict, verdictsOf } from "./chapter-verdicts.ts";
import { type Experiment, type ExperimentOptions, type Outcome, runExperiment } from "./experiment.ts";
import { LOCK_BUSY } from "./lock-busy/experiment.ts";
import { OCC } from "./occ/experiment.ts";
import type { RawParams } from "./params.ts";
import { drawChart } from "./report/chart.ts";
import { commandFor, type ReportFile } from "./report/page.ts";
import { svgFile } from "./report/svg.ts";
import { type Grid, gridsOf } from "./report/tables.ts";
import { SAFETY_OUTAGE } from "./safety-outage/experiment.ts";

export interface Part {
  readonly experiment: Experiment;
  /** Where it differs from the experiment's own defaults. */
  readonly params: RawParams;
  readonly seeds: number;
  /** Above it, when the experiment has another part before. */
  readonly heading?: string;
}

const OCC_ROWS = ["none", "exponential", "equal", "full", "decorrelated", "decorrelated_clipped"];

export const PARTS: readonly Part[] = [
  { experiment: LOCK_BUSY, params: { variant: "wide" }, seeds: 1 },
  {
    experiment: LOCK_BUSY,
    params: {
      contenders: "500",
      latencyMs: "0.2",
      policies: ["founding", "bounded:500ms:0.3", "hand_over", "default"],
    },
    seeds: 1,
    heading: "A larger crowd",
  },
  { experiment: ADMISSION, params: {}, seeds: 1 },
  { experiment: SAFETY_OUTAGE, params: {}, seeds: 1 },
  { experiment: OCC, params: { clients: "100", policies: OCC_ROWS }, seeds: 20 },
];

export const CHAPTER_FILE = "what-the-lab-says.md";

export async function runPart(part: Part, note: (share: number) => void = () => {}): Promise<Outcome> {
  return runExperiment(part.experiment, optionsOf(part), note);
}

export function optionsOf({ experiment: one, params: typed, seeds }: Part): ExperimentOptions {
  return { seed: 1, seeds, params: one.readParams(typed) };
}

/** The chapter and the pictures that it shows, by their paths below the directory of the docs. */
export function chapterFiles(parts: readonly Part[], outcomes: readonly Outcome[]): readonly ReportFile[] {
  const sections = parts.map((part, index) => sectionOf(part, outcomes[index]!));
  const text = [
    "# What the lab says",
    "",
    "<!-- Made by `npm run lab` from fixed seeds: change the code or the seeds, not this file. -->",
    "",
    "Each experiment of [the lab](lab.md) in its usual size, run on the shipped code under virtual time, and what follows from",
    "it for the defaults. Figures are the same on every machine; times are virtual, and the code itself takes none.",
    "",
    "## The defaults",
    "",
    ...verdictLines(verdictsOf(outcomes)),
    "",
    ...sections.flatMap(({ lines }) => lines),
  ].join("\n");
  return [{ name: CHAPTER_FILE, text }, ...sections.flatMap(({ pictures }) => pictures)];
}

/** One experiment: its text is the same whatever else is in the chapter. */
export function sectionOf(
  { experiment: one, heading }: Part,
  outcome: Outcome,
): { readonly lines: readonly string[]; readonly pictures: readonly ReportFile[] } {
  const [picture] = heading === undefined ? one.charts(outcome) : [];
  const file = picture === undefined ? "" : `lab/${one.name}-${picture.name}.svg`;
  const said = one.findings(outcome);
  const lines = [
    heading === undefined ? `## \`cordum lab ${one.name}\`` : `### ${heading}`,
    "",
    ...(heading === undefined ? [one.description, ""] : []),
    ...(picture === undefined
      ? []
      : [`![${picture.title}](${file})`, "", `*${picture.title}.* ${picture.caption}`, ""]),
    ...said.map((sentence) => `- ${sentence}`),
    ...(said.length === 0 ? [] : [""]),
    ...gridsOf(one.tables, outcome).flatMap((grid) => [`**${capital(grid.title)}**`, "", ...tableLines(grid), ""]),
    `${figuresNote(outcome)} Repeat it with`,
    "",
    `    ${commandFor(one, outcome)}`,
    "",
  ];
  return { lines, pictures: picture === undefined ? [] : [{ name: file, text: svgFile(drawChart(picture)) }] };
}

function verdictLines(verdicts: readonly Verdict[]): readonly string[] {
  return [
    "| setting | default | the lab | because |",
    "|---|---|---|---|",
    ...verdicts.map(({ setting, value, isSupported, reason: why }) => {
      return `| \`${setting}\` | \`${value}\` | ${isSupported ? "supports it" : "**speaks against it**"} | ${why} |`;
    }),
  ];
}

/** The best of its column (or line, in a table of one figure) is bold. */
function tableLines({ headers, lines, keys }: Grid): readonly string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(headers),
    line(headers.map((_, column) => (column < keys ? "---" : "---:"))),
    ...lines.map((cells) =>
      line(cells.map(({ text, isBest }, column) => (column < keys ? `\`${text}\`` : isBest ? `**${text}**` : text))),
    ),
  ];
}

function figuresNote({ seeds, centre, seed }: Outcome): string {
  if (seeds === 1) return `One history, of seed ${seed}.`;
  return `Figures are the ${centre} of ${seeds} histories (seeds ${seed} to ${seed + seeds - 1}).`;
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
