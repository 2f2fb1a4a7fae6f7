// `npm start`: installs and builds what is missing, then runs `cordum up --demo` with the arguments given.
// It runs in this process, so a signal reaches the program itself and its exit code is ours.

import { launch } from "./launch.mjs";

await launch(["up", "--demo", ...process.argv.slice(2)]);
