import type { Command } from "commander";
import type { Demo } from "../../client/schema.ts";
import { addCommand, addGroup, type CommandContext } from "../context.ts";
import { EXIT } from "../exit.ts";
import { printJson } from "../io.ts";
import { textFields } from "../table.ts";

/** The incidents of a control plane that was started with `--demo`. */
export function addDemo(program: Command, { io, client, exit }: CommandContext): void {
  const demo = addGroup(program, "demo", "cause incidents on a control plane that runs with --demo");
  const add = (name: string, description: string, send: () => Promise<Demo>) =>
    addCommand(demo, name, description).action(async ({ json }: { readonly json?: boolean }) => {
      const state = await send();
      if (json) printJson(io, state);
      else io.out(textFields(factsOf(state)));
      exit(EXIT.ok);
    });
  const setKernel = (stopped: boolean) => client().request("POST /demo/kernel", { body: { stopped } });
  add("status", "show the incidents that the demo causes now", () => client().request("GET /demo", {}));
  add("stop-kernel", "stop the answers of the safety kernel", () => setKernel(true));
  add("start-kernel", "start the answers of the safety kernel", () => setKernel(false));
  add("hot-lock", "hold a run lock for 20 s while 400 results wait for it", () =>
    client().request("POST /demo/lock", {}),
  );
}

const factsOf = ({ kernel_stopped: isStopped, hot_lock: hot }: Demo): readonly (readonly [string, string])[] => [
  ["safety kernel", isStopped ? "stopped" : "answers"],
  ["hot lock", hot === null ? "none" : `run ${hot.run_id}, until ${hot.until}`],
];
