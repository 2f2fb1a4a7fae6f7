/** The experiments of the lab, for the dashboard. They run in virtual time, in a thread (decision 38). */
import { Type } from "typebox";
import { readContention } from "../../../engine/observe/index.ts";
import type { Lab, LabOutcome, LabRequest } from "../../lab.ts";
import { evaluationProblem, Problem } from "../../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../../route.ts";
import { orNull } from "../../views/schemas.ts";

const PARAM = Type.Object({
  name: Type.String(),
  kind: Type.String({ description: "`number`, `numbers` (comma-separated), `rows` (several values) or `choice`." }),
  help: Type.String(),
  unit: Type.String(),
  default: Type.Array(Type.String()),
  min: orNull(Type.Number()),
  max: orNull(Type.Number()),
  choices: Type.Array(Type.Object({ value: Type.String(), about: Type.String() })),
});

const CATALOGUE = Type.Object(
  {
    experiments: Type.Array(
      Type.Object({
        name: Type.String(),
        summary: Type.String(),
        needs_record: Type.Boolean({ description: "Replays recorded contention: requires a key of `*`." }),
        params: Type.Array(PARAM),
      }),
    ),
    simulator: Type.Object({
      faults: Type.Array(Type.String()),
      mutants: Type.Array(
        Type.Object({
          name: Type.String(),
          about: Type.String(),
          caught_by: Type.Array(Type.String(), { description: "The checkers that can find it." }),
        }),
      ),
    }),
  },
  { title: "LabCatalogue" },
);

const AXIS = Type.Object({ label: Type.String(), unit: Type.String(), is_log: Type.Boolean() });
const POINT = Type.Array(Type.Number(), { minItems: 2, maxItems: 2 });

const CHART = Type.Object(
  {
    name: Type.String(),
    title: Type.String(),
    caption: Type.String(),
    x: AXIS,
    y: AXIS,
    bin: orNull(Type.Number({ description: "The width of bars, one plot per series; null: lines in one plot." })),
    until: orNull(Type.Number({ description: "Where the axis of bars ends." })),
    series: Type.Array(
      Type.Object({
        name: Type.String(),
        note: Type.String(),
        description: Type.String(),
        points: Type.Array(POINT, { description: "Bars of height 0 are left out." }),
      }),
    ),
    bands: Type.Array(Type.Object({ from: Type.Number(), to: Type.Number(), label: Type.String() })),
  },
  { title: "LabChart" },
);

const CELL = Type.Object({ text: Type.String(), spread: Type.String(), is_best: Type.Boolean() });

const TABLE = Type.Object(
  {
    title: Type.String(),
    headers: Type.Array(Type.String()),
    key_columns: Type.Integer(),
    best_of: Type.String(),
    rows: Type.Array(Type.Array(CELL)),
  },
  { title: "LabTable" },
);

const REPORT = Type.Object(
  {
    experiment: Type.String(),
    description: Type.String(),
    command: Type.String({ description: "Reproduces the figures." }),
    note: Type.String(),
    findings: Type.Array(Type.String()),
    charts: Type.Array(CHART),
    tables: Type.Array(TABLE),
  },
  { title: "LabReport" },
);

const SIMULATION_BODY = Type.Object({
  seed: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  runs: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, description: "Jobs and runs; 20 by default." })),
  faults: Type.Optional(Type.String({ maxLength: 20, description: "`swarm` by default." })),
  mutant: Type.Optional(orNull(Type.String({ maxLength: 60, description: "A known bug." }))),
});

const COUNTS = Type.Record(Type.String(), Type.Integer());

const SIMULATION = Type.Object(
  {
    hash: Type.String({ description: "As `cordum sim` shows it: the same history has the same hash." }),
    command: Type.String(),
    events: Type.Integer(),
    virtual_ms: Type.Number(),
    crashes: Type.Integer(),
    jobs: COUNTS,
    runs: COUNTS,
    violations: Type.Array(
      Type.Object({
        checker: Type.String(),
        invariant: Type.String(),
        id: Type.String({ description: "The record, message or lock concerned." }),
        hint: Type.String(),
        at_ms: Type.Number(),
      }),
    ),
    trace_total: Type.Integer(),
    trace: Type.Array(
      Type.Object({
        at_ms: Type.Number(),
        source: Type.String({ description: "A process, or `job`, `run`, `kernel`, `server`." }),
        action: Type.String(),
        subject: Type.String(),
      }),
      { description: "The first 10,000 entries." },
    ),
    messages: Type.Array(
      Type.Object({
        from: Type.String({ description: "A process; `bus` for a redelivery." }),
        to: Type.String(),
        subject: Type.String(),
        id: Type.String(),
        sent_ms: Type.Number(),
        ended_ms: orNull(Type.Number({ description: "When it was delivered or lost." })),
        entry: orNull(Type.Integer({ description: "The index of the trace entry that is its delivery." })),
        lost: orNull(Type.String({ description: "Why it was lost." })),
      }),
      { description: "Sent before the last entry of the trace." },
    ),
    holds: Type.Array(
      Type.Object({
        key: Type.String(),
        holder: Type.String(),
        fence: Type.Integer(),
        from_ms: Type.Number(),
        to_ms: orNull(Type.Number()),
        expired: Type.Boolean(),
      }),
      { description: "Locks held, begun before the last entry of the trace." },
    ),
  },
  { title: "Simulation" },
);

const TEXT = Type.String({ maxLength: 200 });
const BODY = Type.Object({
  params: Type.Optional(
    Type.Record(Type.String({ maxLength: 40 }), Type.Union([TEXT, Type.Array(TEXT, { maxItems: 20 })]), {
      maxProperties: 30,
      description: "In the syntax of the command line. A missing parameter has its default.",
    }),
  ),
});

/** An aborted request ends its experiment. */
const EXPERIMENT = { method: "POST", access: "operate", body: BODY, response: REPORT, longLived: true } as const;

export const LAB_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/lab",
    summary: "List the experiments of the lab with their parameters",
    access: "read",
    response: CATALOGUE,
    handle: async (gateway) => ok(await labOf(gateway).catalogue()),
  },
  {
    ...EXPERIMENT,
    path: "/api/v1/lab/replay",
    summary: "Replay the recorded lock contention under other retry policies",
    allTenants: true,
    handle: replay,
  },
  {
    ...EXPERIMENT,
    path: "/api/v1/lab/:experiment",
    summary: "Run an experiment in virtual time, for at most a minute",
    handle: run,
  },
  {
    ...{ method: "POST", path: "/api/v1/simulations", access: "operate", longLived: true },
    summary: "Run one seed of the simulator and return its history",
    body: SIMULATION_BODY,
    response: SIMULATION,
    handle: simulate,
  },
];

function labOf({ lab }: Gateway): Lab {
  if (lab === null) throw new Problem("route_not_found", "this process runs no experiments");
  return lab;
}

async function run(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { experiment: name = "" } = request.params;
  const { experiments } = (await labOf(gateway).catalogue()) as { experiments: readonly { readonly name: string }[] };
  const names = experiments.map((one) => one.name);
  if (!names.includes(name)) {
    throw new Problem("experiment_not_found", `\`${name}\` is none of ${names.join(", ")}`);
  }
  return answer(gateway, request, { kind: "experiment", name, params: paramsOf(request), records: [] });
}

async function replay(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const records = await readContention(gateway.engine, 0, RECORD_CHARS_MAX);
  return answer(gateway, request, { kind: "experiment", name: "replay", params: paramsOf(request), records });
}

async function simulate(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { seed, runs = 20, faults = "swarm", mutant = null } = request.body as SimulationBody;
  return answer(gateway, request, { kind: "simulation", seed, runs, faults, mutant });
}

interface SimulationBody {
  readonly seed: number;
  readonly runs?: number;
  readonly faults?: string;
  readonly mutant?: string | null;
}

type Params = Extract<LabRequest, { readonly kind: "experiment" }>["params"];

const paramsOf = ({ body }: GatewayRequest): Params => (body as { readonly params?: Params } | undefined)?.params ?? {};

async function answer(
  gateway: Gateway,
  { org, signal }: GatewayRequest,
  request: LabRequest,
): Promise<GatewayResponse> {
  const outcome: LabOutcome = await labOf(gateway).run(org, request, signal);
  switch (outcome.kind) {
    case "answered":
      return ok(outcome.answer);
    case "rejected":
      throw new Problem("invalid_request", outcome.detail, { param: outcome.param });
    case "over":
      throw new Problem("evaluation_limit", `${outcome.why}; ${SMALLER}`);
    case "busy":
      throw evaluationProblem(outcome);
    default:
      return outcome satisfies never;
  }
}

const SMALLER = "choose fewer rows, seeds or clients, or use the command line, which has no limit";
/** Some ten million acquisitions take minutes; these take seconds. */
const RECORD_CHARS_MAX = 6_000_000;
