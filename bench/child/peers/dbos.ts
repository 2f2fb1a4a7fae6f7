import { type Input, STEP_TOPICS } from "../ours/payload.ts";
import type { Events, Side } from "../side.ts";
import type { SideSpec } from "../task.ts";

/**
 * A run of three steps as a workflow of DBOS, whose steps are checkpoints in PostgreSQL.
 *
 * 1. The run has ended when its handle has its result: the result is in PostgreSQL by then.
 * 2. Its steps are function calls in the process that runs the workflow; nothing is dispatched to a worker.
 * 3. It is no dependency: it is loaded if it is there, and the suite says so when it is not.
 */
export async function openDbosRuns(spec: Extract<SideSpec, { kind: "dbos" }>, events: Events): Promise<Side> {
  const { DBOS } = (await import(DBOS_PACKAGE)) as DbosModule;
  const run = DBOS.registerWorkflow(
    async (input: Input) => {
      for (const [step, name] of STEP_TOPICS.entries()) {
        await DBOS.runStep(
          async () => {
            events.worked(input, 1, step);
            return { ok: true, n: input.n };
          },
          { name },
        );
      }
      return { ok: true, n: input.n };
    },
    { name: "three" },
  );
  DBOS.setConfig({
    name: "bench",
    applicationVersion: "1",
    systemDatabaseUrl: spec.postgresUrl,
    systemDatabasePoolSize: spec.concurrency,
    logLevel: "error",
  });
  await DBOS.launch();
  return {
    async submit(input) {
      const handle = await DBOS.startWorkflow(run)(input);
      void handle.getResult().then(({ n }) => events.ended(n), report);
    },
    async fill() {
      throw new Error("the backlog is measured with jobs alone");
    },
    async start() {},
    close: () => DBOS.shutdown(),
  };
}

/** Its run then never ends, which the books show. */
function report(error: unknown): void {
  process.stderr.write(`dbos: ${error instanceof Error ? error.message : error}\n`);
}

export const DBOS_PACKAGE = "@dbos-inc/dbos-sdk";

/** The part that is used. */
interface DbosModule {
  readonly DBOS: {
    setConfig(config: Readonly<Record<string, string | number>>): void;
    launch(): Promise<void>;
    shutdown(): Promise<void>;
    registerWorkflow<A, R>(run: (input: A) => Promise<R>, config: { readonly name: string }): (input: A) => Promise<R>;
    runStep<R>(step: () => Promise<R>, config: { readonly name: string }): Promise<R>;
    startWorkflow<A, R>(
      run: (input: A) => Promise<R>,
    ): (input: A) => Promise<{ readonly workflowID: string; getResult(): Promise<R> }>;
  };
}
