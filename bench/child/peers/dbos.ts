import type { Backend, Events } from "../backend.ts";
import { type Input, STEP_TOPICS } from "../payload.ts";
import type { BackendSpec } from "../task.ts";

/**
 * A run of three steps as a DBOS workflow, with checkpoints in PostgreSQL.
 *
 * 1. The run ends when its handle has the result, which is in PostgreSQL by then.
 * 2. Steps are function calls in the process of the workflow; they are not dispatched to a worker.
 * 3. The package is optional. Without it, the suite reports the peer as not run.
 */
export async function openDbosRuns(spec: Extract<BackendSpec, { kind: "dbos" }>, events: Events): Promise<Backend> {
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
      throw new Error("the backlog is measured with jobs only");
    },
    async start() {},
    close: () => DBOS.shutdown(),
  };
}

/** The run then never ends, which the ledger reports. */
function report(error: unknown): void {
  process.stderr.write(`dbos: ${error instanceof Error ? error.message : error}\n`);
}

export const DBOS_PACKAGE = "@dbos-inc/dbos-sdk";

/** The used part of the API. */
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
