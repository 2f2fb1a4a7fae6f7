import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { UpProcess } from "../../cli/run.ts";
import { Api } from "../api.ts";
import type { Program } from "../program.ts";

/** A process of the program that is killed, stopped and started again on the same port, with a wall clock of its own. */
export class Service {
  readonly #start: () => UpProcess;
  readonly #clockFile: string;
  #running: UpProcess | null = null;
  #exitCode: number | null = null;
  #url = "";

  constructor(program: Program, argv: readonly string[], env: Readonly<Record<string, string>>, clockFile: string) {
    this.#clockFile = clockFile;
    const clock = { NODE_OPTIONS: `--import ${STEP_CLOCK}`, TEST_CLOCK_FILE: clockFile };
    this.#start = () => program.up(argv, { ...SHORT_WAITS, ...env, ...clock });
  }

  /** Starts it unless it runs. Rejects with its output if it exits before it is ready. `offsetMs`: of its wall clock. */
  async start(offsetMs = 0): Promise<void> {
    if (this.#running !== null && this.#exitCode === null) return;
    this.stepClock(offsetMs);
    const started = this.#start();
    this.#exitCode = null;
    this.#running = started;
    void started.ended.then(({ exitCode }) => {
      if (this.#running === started) this.#exitCode = exitCode;
    });
    this.#url = await started.url;
  }

  /** Creates an admin key with the start-up token, which may be lost with the power. */
  async createKey(): Promise<string> {
    const { status, body } = await new Api(this.#url).post("/keys", { tenant: "*", role: "admin" });
    if (status !== 200) throw new Error(`no key: ${status} ${JSON.stringify(body)}`);
    return body.key;
  }

  signal(signal: NodeJS.Signals): void {
    this.#running?.child.kill(signal);
  }

  /** Ends it with the signal and returns its exit code; -1 after a kill. */
  async end(signal: NodeJS.Signals): Promise<number> {
    this.signal(signal);
    const ran = await this.#running?.ended;
    return signal === "SIGKILL" ? -1 : (ran?.exitCode ?? 0);
  }

  /** The wall clock of the process differs by this from the real one. */
  stepClock(offsetMs: number): void {
    writeFileSync(this.#clockFile, String(offsetMs));
    if (this.#running !== null && this.#exitCode === null) this.signal("SIGUSR2");
  }
}

const STEP_CLOCK = fileURLToPath(new URL("../fixtures/step-clock.mjs", import.meta.url));
/** Short waits, so that the claims and leases of a killed process expire soon; attempts may be lost many times. */
const SHORT_WAITS = {
  CORDUM_LOG_LEVEL: "error",
  CORDUM_HTTP_RATE_PER_S: "100000",
  CORDUM_DISPATCH_DEADLINE_MS: "2000",
  CORDUM_SWEEP_EVERY_MS: "100",
  CORDUM_SWEEP_HORIZON_MS: "200",
  CORDUM_SWEEP_LEASE_MS: "1000",
  CORDUM_SWEEP_OUTBOX_AGE_MS: "300",
  CORDUM_BUS_ACK_WAIT_MS: "2000",
  CORDUM_RETRY_NO_WORKER_POLICY: "full:50ms:500ms",
  CORDUM_RETRY_UNCLASSIFIED_POLICY: "full:50ms:500ms",
  CORDUM_RETRY_UNCLASSIFIED_BUDGET: "1000",
};
