import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { placesIn } from "../../../src/cli/commands/completion.ts";
import { newContext } from "../../../src/cli/context.ts";
import { buildProgram } from "../../../src/cli/program.ts";
import { cordum, ioFor } from "../run.ts";

const { out: SCRIPT } = await cordum(["completion", "bash"]);

/** Bash completions for these words; the last one is incomplete. */
function completionsFor(words: readonly string[]): readonly string[] {
  const array = ["cordum", ...words].map((word) => `'${word}'`).join(" ");
  const ask = `COMP_WORDS=(${array}); COMP_CWORD=${words.length}; _cordum; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", `${SCRIPT}\n${ask}`], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout.split("\n").filter(Boolean);
}

describe("in bash", () => {
  test.each<[readonly string[], readonly string[]]>([
    [["fai"], ["failopen"]],
    [
      ["job", ""],
      ["submit", "get", "list", "cancel", "retry", "explain", "--help"],
    ],
    [["job", "submit", "demo.echo", "--pri"], ["--priority"]],
    [
      ["job", "submit", "demo.echo", "--priority", ""],
      ["interactive", "batch", "critical"],
    ],
    [["key", "create", "--role", "v"], ["viewer"]],
    [
      ["workflow", ""],
      ["apply", "get", "list", "delete", "--help"],
    ],
    [
      ["run", "re"],
      ["resume", "rerun"],
    ],
    [["run", "list", "--state", "E"], ["ENDING"]],
    [
      ["run", "start", "photos", "--w"],
      ["--wait", "--watch"],
    ],
    [["completion", "z"], ["zsh"]],
    // Files are completed by the shell.
    [["policy", "explain", "a.b", "--policy", ""], []],
    // An argument that equals a command name is not a command.
    [["job", "get", "list", "--js"], ["--json"]],
  ])("cordum %j", (words, expected) => {
    expect(completionsFor(words)).toEqual(expected);
  });
});

test.each(["bash", "zsh", "fish"])("%s: contains every command and flag", async (shell) => {
  const ran = await cordum(["completion", shell, "--json"]);
  const { script } = JSON.parse(ran.out) as { script: string };
  expect(ran.exitCode).toBe(0);
  const places = placesIn(buildProgram(newContext(ioFor({}).io, "1.2.3", () => {})));
  const flag = (long: string) => (shell === "fish" ? `-l ${long.slice(2)} ` : long);
  const expected = places.flatMap(({ path, options }) => [path, ...options.map(({ long }) => flag(long ?? ""))]);
  expect(expected.filter((text) => !script.includes(text))).toEqual([]);
  // Quotes must be balanced on every line.
  for (const line of script.split("\n")) {
    const quotes = line.replaceAll("\\\\", "").replaceAll("\\'", "").split("'").length - 1;
    expect(line.startsWith("#") || quotes % 2 === 0 || line).toBe(true);
  }
});
