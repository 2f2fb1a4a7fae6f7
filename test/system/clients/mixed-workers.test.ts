/** One run whose steps are served by a Python worker and a TypeScript worker. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { http, nats, retryAfter, worker } from "../../../src/worlds/worker-sdk.ts";
import { Api } from "../api.ts";
import { type Backend, type BackendKind, withBackend } from "../backends.ts";
import { Program } from "../program.ts";
import { PythonProcess, requirePython } from "./python-process.ts";

const WORKFLOWS = join(import.meta.dirname, "..", "..", "..", "examples", "workflows");
let program: Program;

beforeAll(async () => {
  requirePython();
  program = await Program.build();
});

afterAll(() => program?.stop());

test.each<BackendKind>(["embedded", "NATS + Redis"])(
  "a run with Python and TypeScript workers succeeds, %s",
  async (kind) => {
    await withBackend(kind, async (backend) => {
      const up = program.up(["--port", "0", ...storageOf(backend)], { CORDUM_LOG_LEVEL: "warn" });
      const api = new Api(await up.url);
      const python = new PythonProcess([join(import.meta.dirname, "step_worker.py")], {
        CORDUM_URL: api.url,
        CORDUM_API_KEY: api.apiKey.apiKey ?? "",
      });
      const stop = await worker({
        id: "typescript-worker",
        topics: ["demo.flaky"],
        transport: "dir" in backend ? http({ url: api.url, ...api.apiKey }) : nats(backend),
        handle: async ({ attempt, input }) => {
          if (attempt < 3) throw retryAfter(new Error(`attempt ${attempt} failed`), 50);
          return { attempts: attempt, input };
        },
      });
      try {
        for (const file of ["greet.yaml", "every-step.yaml"]) {
          const source = readFileSync(join(WORKFLOWS, file), "utf8");
          expect(await api.post("/workflows", { source, file })).toMatchObject({ status: 200 });
        }
        const items = [1, 2, 3].map((count) => ({ sku: `a-${count}`, count }));
        const input = { customer: "Ann", region: "eu", items };
        const started = await api.post("/workflows/every-step/runs", { input });
        const { body: run } = await api.until(
          `/workflow-runs/${started.body.run_id}`,
          ({ body }) => body.state !== "RUNNING" && body.state !== "PENDING",
        );
        expect(run).toMatchObject({
          state: "SUCCEEDED",
          output: { greeting: "hello Ann", paid: true },
          steps: {
            reserve: { state: "SUCCEEDED" },
            quote_fast: { state: "SUCCEEDED", worker_id: "python-worker", output: { price: 10 } },
            quote_slow: { state: "CANCELLED", worker_id: "python-worker" },
            pay: { state: "SUCCEEDED", worker_id: "typescript-worker", attempt: 3 },
          },
        });
        expect(await python.printed("cancelled")).toBe(run.steps.quote_slow.job_id);
        expect(await python.stop("SIGTERM"), (await python.ended).output).toBe(0);
      } finally {
        await python.stop("SIGKILL");
        await stop();
        up.child.kill("SIGTERM");
        await up.ended;
      }
    });
  },
);

const storageOf = (backend: Backend): readonly string[] =>
  "dir" in backend ? ["--data", join(backend.dir, "data")] : ["--nats", backend.nats, "--redis", backend.redis];
