/** The package as npm packs it, installed into empty projects. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const QUIET = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];

export interface Packed {
  readonly file: string;
  readonly sizeBytes: number;
  readonly paths: readonly string[];
}

export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** `npm pack`, with its `prepack` script. */
export async function pack(into: string): Promise<Packed> {
  const { out } = await succeed("npm", ["pack", "--json", "--pack-destination", into], ROOT);
  const [packed] = Object.values(JSON.parse(out) as Record<string, PackReport>);
  const { filename, size, files } = packed!;
  return { file: join(into, filename), sizeBytes: size, paths: files.map(({ path }) => path) };
}

interface PackReport {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

export class Project {
  readonly dir: string;
  /** The folder of the `node` that runs commands; by default the one of the PATH. */
  readonly #node: string | null;

  constructor(dir: string = mkdtempSync(join(tmpdir(), "cordum-project-")), node: string | null = null) {
    this.dir = dir;
    this.#node = node;
  }

  /** The same folder with another version of Node. */
  with(node: string | null): Project {
    return new Project(this.dir, node);
  }

  write(name: string, content: string | object): void {
    const file = join(this.dir, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content, null, 2));
  }

  /** Install scripts are not run: the package must work without. */
  install(...packages: string[]): Promise<Output> {
    return this.succeed("npm", "install", "--ignore-scripts", ...QUIET, ...packages);
  }

  succeed(command: string, ...args: string[]): Promise<Output> {
    return succeed(command, args, this.dir, this.#node);
  }

  run(command: string, ...args: string[]): Promise<Output> {
    return run(command, args, this.dir, this.#node);
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  node: string | null = null,
): Promise<Output> {
  const child = spawn(command, args, { cwd, env: environment(node), stdio: ["ignore", "pipe", "pipe"] });
  const [[code], out, err] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  return { code: code as number, out, err };
}

async function succeed(
  command: string,
  args: readonly string[],
  cwd: string,
  node: string | null = null,
): Promise<Output> {
  const output = await run(command, args, cwd, node);
  if (output.code === 0) return output;
  throw new Error(`\`${command} ${args.join(" ")}\` ended with ${output.code}:\n${output.out}${output.err}`);
}

/** Without the variables of the test run and of the npm process that started it. */
function environment(node: string | null): NodeJS.ProcessEnv {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(
      ([key]) => !/^(CORDUM_|POLICY_|npm_|VITEST|NODE_OPTIONS|NODE_TEST|TEST$)/.test(key),
    ),
  );
  return node === null ? inherited : { ...inherited, PATH: `${node}${delimiter}${process.env.PATH}` };
}
