import type { OpenBackend } from "./backend.ts";
import type { ServeFigures, ServeTask } from "./task.ts";

/** Runs a control plane or a worker in this process until it is stopped. */
export async function serve(
  task: ServeTask,
  open: OpenBackend,
  ready: () => void,
  stopped: Promise<void>,
): Promise<ServeFigures> {
  const seen = new Set<number>();
  let again = 0;
  const backend = await open(task.backend, task.role, {
    worked({ n }) {
      if (seen.has(n)) again++;
      seen.add(n);
    },
    ended() {},
  });
  await backend.start();
  ready();
  await stopped;
  await backend.close();
  return { worked: seen.size, again };
}
