// `npm start`: installs and builds if needed, then runs `cordum up --demo` with the example workflows and the given
// arguments, in this process.

import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { launch } from "./launch.mjs";
import { root } from "./run.mjs";

const given = process.argv.slice(2);
const examples = join(root, "examples", "workflows");
const isChosen = given.some((arg) => /^--workflows(=|$)/.test(arg)) || process.env.CORDUM_WORKFLOWS_DIR;
const workflows = isChosen || !existsSync(examples) ? [] : ["--workflows", relative(process.cwd(), examples)];

await launch(["up", "--demo", ...workflows, ...given]);
