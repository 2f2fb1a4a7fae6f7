import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const CORDUM = fileURLToPath(new URL("bin/cordum.mjs", import.meta.resolve("cordum/package.json")));

/** A control plane with this project's policy and workflows, on a free port and with empty data. */
export class ControlPlane {
  readonly url: string;
  readonly apiKey: string;
  readonly #stop: () => Promise<void>;

  private constructor(url: string, apiKey: string, stop: () => Promise<void>) {
    this.url = url;
    this.apiKey = apiKey;
    this.#stop = stop;
  }

  static async start(): Promise<ControlPlane> {
    const data = await mkdtemp(join(tmpdir(), "control-plane-"));
    const args = ["up", "--json", "--port", "0", "--data", data, "--policy", "policy.yaml", "--workflows", "workflows"];
    const child = spawn(process.execPath, [CORDUM, ...args], { cwd: PROJECT, stdio: ["ignore", "pipe", "pipe"] });
    const closed = once(child, "close");
    const stop = async () => {
      child.kill();
      await closed;
      await rm(data, { recursive: true, force: true });
    };
    let [out, err] = ["", ""];
    child.stderr.on("data", (chunk) => {
      err += chunk;
    });
    const isListening = new Promise<boolean>((resolve) => {
      child.stdout.on("data", (chunk) => {
        out += chunk;
        if (out.endsWith("}\n")) resolve(true);
      });
      child.once("close", () => resolve(false));
    });
    if (!(await isListening)) {
      await stop();
      throw new Error(`the control plane did not start:\n${out}${err}`);
    }
    const { url } = JSON.parse(out) as { url: string };
    return new ControlPlane(url, (await readFile(join(data, "token"), "utf8")).trim(), stop);
  }

  stop(): Promise<void> {
    return this.#stop();
  }

  async send(path: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
    const request = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { "x-api-key": this.apiKey, "content-type": "application/json" };
    const response = await fetch(`${this.url}/api/v1${path}`, { headers, ...request });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  /** Starts a run and returns it once it has ended. */
  async run(workflow: string, input: unknown): Promise<Record<string, unknown>> {
    const started = await this.send(`/workflows/${workflow}/runs`, { input });
    if (started.status >= 300) throw new Error(`cannot start \`${workflow}\`: ${JSON.stringify(started.body)}`);
    for (let polls = 0; polls < 300; polls++) {
      const { body } = await this.send(`/workflow-runs/${String(started.body.run_id)}`);
      if (["SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"].includes(String(body.state))) return body;
      await sleep(50);
    }
    throw new Error(`the run of \`${workflow}\` has not ended`);
  }
}
