/** Shell completion scripts, generated from the command tree. */
import { Argument, type Command, type Option } from "commander";
import { addCommand, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

export function addCompletion(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "completion", "print a shell completion script")
    .addArgument(new Argument("<shell>", "shell").choices(SHELLS))
    .action((shell: Shell, options: { json?: boolean }) =>
      exit(printCompletion(io, program, shell, options.json === true)),
    );
}

function printCompletion(io: Io, program: Command, shell: Shell, json: boolean): ExitCode {
  const script = SCRIPTS[shell](placesIn(program));
  if (json) printJson(io, { shell, script });
  else io.out(script);
  if (io.isInteractive && !json) io.err(`to enable: ${HOW[shell]}\n`);
  return EXIT.ok;
}

/** A command with its completions. */
interface Place {
  /** `job submit`; empty for the program itself. */
  readonly path: string;
  readonly description: string;
  readonly commands: readonly Command[];
  readonly options: readonly Option[];
  /** Choices of its arguments. */
  readonly args: readonly string[];
  /** `<id>`, `[input]`. */
  readonly usage: readonly string[];
}

/** All commands in depth-first order. */
export function placesIn(command: Command, path = ""): readonly Place[] {
  const { commands, options } = command;
  const given = command.registeredArguments;
  const args = given.flatMap(({ argChoices }) => argChoices ?? []);
  const usage = given.map((one) => {
    const name = `${one.name()}${one.variadic ? "..." : ""}`;
    return one.required ? `<${name}>` : `[${name}]`;
  });
  const inner = commands.flatMap((one) => placesIn(one, `${path} ${one.name()}`.trim()));
  return [{ path, description: command.description(), commands, options, args, usage }, ...inner];
}

const HOW: Readonly<Record<Shell, string>> = {
  bash: "source <(cordum completion bash)",
  zsh: "source <(cordum completion zsh)",
  fish: "cordum completion fish | source",
};

const SCRIPTS: Readonly<Record<Shell, (places: readonly Place[]) => string>> = { bash, zsh, fish };

const known = (places: readonly Place[]): readonly string[] => places.map(({ path }) => path).filter(Boolean);
const flags = ({ options }: Place): readonly string[] => [...options.map((option) => option.long ?? ""), "--help"];
const takesValue = (option: Option): boolean => !option.isBoolean();
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(places: readonly Place[]): string {
  const values = places.flatMap((place) =>
    place.options
      .filter(takesValue)
      .map(
        ({ long, argChoices = [] }) =>
          `    ${quoted(`${place.path}:${long}`)}) words=${quoted(argChoices.join(" "))} ;;`,
      ),
  );
  const words = places.map((place) => {
    const all = [...place.commands.map((command) => command.name()), ...place.args, ...flags(place)];
    return `      ${quoted(place.path)}) words=${quoted(all.join(" "))} ;;`;
  });
  return `# Completion of cordum for bash: ${HOW.bash}
_cordum() {
  local at='' words='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${at:+$at }$word" in
      ${known(places).map(quoted).join("|")}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:\${COMP_WORDS[COMP_CWORD-1]}" in
${values.join("\n")}
    *) case "$at" in
${words.join("\n")}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _cordum cordum
`;
}

function zsh(places: readonly Place[]): string {
  const named = (name: string, what: string) => quoted(`${name.replaceAll(":", "\\:")}:${what}`);
  const values = places.flatMap((place) =>
    place.options.filter(takesValue).map(({ long, argChoices }) => {
      const then = argChoices === undefined ? "_files" : `compadd -- ${argChoices.map(quoted).join(" ")}`;
      return `    ${quoted(`${place.path}:${long}`)}) ${then}; return ;;`;
    }),
  );
  const words = places.map((place) => {
    const all = [
      ...place.commands.map((command) => named(command.name(), command.description())),
      ...place.args.map((choice) => named(choice, "")),
      ...place.options.map((option) => named(option.long ?? "", option.description)),
      named("--help", "display help for command"),
    ];
    return `    ${quoted(place.path)}) names=(${all.join(" ")}) ;;`;
  });
  return `#compdef cordum
# Completion of cordum for zsh: ${HOW.zsh}
_cordum() {
  local at='' word
  local -a names
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${at:+$at }$word" in
      ${known(places).map(quoted).join("|")}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:\${words[CURRENT-1]}" in
${values.join("\n")}
  esac
  case "$at" in
${words.join("\n")}
  esac
  _describe cordum names || _files
}
if [ "\${funcstack[1]}" = _cordum ]; then _cordum "$@"; else compdef _cordum cordum; fi
`;
}

function fish(places: readonly Place[]): string {
  // Inside single quotes fish knows only the escapes \' and \\.
  const text = (value: string) => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = places.flatMap((place) => {
    const when = `complete -c cordum -n ${text(`__cordum_at "${place.path}"`)}`;
    return [
      ...place.commands.map((command) => `${when} -f -a ${command.name()} -d ${text(command.description())}`),
      ...place.args.map((choice) => `${when} -f -a ${text(choice)}`),
      ...place.options.map(({ long, description, argChoices, ...option }) => {
        const value = argChoices ? ` -x -a ${text(argChoices.join(" "))}` : option.required ? " -r" : "";
        return `${when} -l ${(long ?? "").replace(/^--/, "")}${value} -d ${text(description)}`;
      }),
      `${when} -l help -d 'display help for command'`,
    ];
  });
  return `# Completion of cordum for fish: ${HOW.fish}
function __cordum_at
    set -l at ""
    for word in (commandline -opc)[2..-1]
        set -l longer (string trim -- "$at $word")
        if contains -- $longer ${known(places).map(text).join(" ")}
            set at $longer
        end
    end
    test "$at" = "$argv[1]"
end
${lines.join("\n")}
`;
}
