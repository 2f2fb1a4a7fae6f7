import type { OpenSide } from "../side.ts";
import type { ServeFigures, ServeTask } from "../task.ts";

/** One station in a process of its own, until it is told to stop. */
export async function serve(
  task: ServeTask,
  open: OpenSide,
  ready: () => void,
  stopped: Promise<void>,
): Promise<ServeFigures> {
  const seen = new Set<number>();
  let again = 0;
  const side = await open(task.side, task.role, {
    worked({ n }) {
      if (seen.has(n)) again++;
      seen.add(n);
    },
    ended() {},
  });
  await side.start();
  ready();
  await stopped;
  await side.close();
  return { worked: seen.size, again };
}
