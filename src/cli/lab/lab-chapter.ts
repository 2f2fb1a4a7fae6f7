/** `cordum lab chapter`: writes "What the lab says" and its pictures, from fixed seeds. It takes a minute or two. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import type { Verdict } from "../../lab/chapter-verdicts.ts";
import type { Outcome } from "../../lab/experiment.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT } from "../exit.ts";
import { ProgressLine, printJson } from "../io.ts";

export function addChapter(lab: Command, { io, exit }: CommandContext): void {
  addCommand(
    lab,
    "chapter",
    "write what the experiments say of the defaults, from fixed seeds, as a chapter of the docs",
  )
    .requiredOption("--out <dir>", "where the chapter and its pictures go")
    .action(async ({ out, json }: { readonly out: string; readonly json?: boolean }) => {
      const [{ PARTS, chapterFiles, runPart }, { verdictsOf }] = await Promise.all([
        import("../../lab/chapter.ts"),
        import("../../lab/chapter-verdicts.ts"),
      ]);
      const line = new ProgressLine(io);
      const outcomes: Outcome[] = [];
      for (const [index, part] of PARTS.entries()) {
        const note = (share: number): void =>
          line.show(`lab ${part.experiment.name}: part ${index + 1} of ${PARTS.length}, ${Math.floor(100 * share)} %`);
        outcomes.push(await runPart(part, note));
      }
      line.clear();
      const files = chapterFiles(PARTS, outcomes);
      for (const { name, text } of files) {
        write(join(out, name), text);
        io.err(`wrote ${join(out, name)}\n`);
      }
      if (json === true)
        printJson(io, { files: files.map(({ name }) => name), defaults: verdictsDocument(verdictsOf(outcomes)) });
      exit(EXIT.ok);
    });
}

function verdictsDocument(verdicts: readonly Verdict[]): readonly object[] {
  return verdicts.map(({ setting, value, isSupported, reason: why }) => ({
    setting,
    value,
    is_supported: isSupported,
    why,
  }));
}

function write(file: string, text: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } catch (error) {
    throw new CliError(
      EXIT.error,
      `cannot write \`${file}\`: ${(error as Error).message}`,
      "cordum lab chapter --help",
    );
  }
}
