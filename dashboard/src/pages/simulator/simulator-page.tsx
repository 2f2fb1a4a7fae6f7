/** Plays a seed of the simulator: the shipped engine in virtual time, with injected faults. */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { LabCatalogue, Simulation } from "../../../../src/client/schema.ts";
import { param, setParams } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api, may, patientApi } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Facts, Id, Page, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { count, duration } from "../../kit/numbers.ts";
import { Elapsed, Failed, Show } from "../../kit/state.tsx";
import { before, entryOf } from "./history.ts";
import { Player } from "./player.tsx";
import { Violations } from "./violations.tsx";
import "./simulator.css";

export function SimulatorPage() {
  const catalogue = useResource("lab", (signal) => api.value.request("GET /lab", {}, { signal }));
  return (
    <Page title="Simulator">
      <p class="lead">
        The engine of this version on a virtual clock. The seed decides every fault; the same seed gives the same
        history.
      </p>
      {may("operate") ? (
        <Show of={catalogue} what="the simulator">
          {({ simulator }) => <Simulator options={simulator} />}
        </Show>
      ) : (
        <Note>To play a seed, use a key of role operator. It takes a processor of the control plane.</Note>
      )}
    </Page>
  );
}

interface Chosen {
  readonly seed: string;
  readonly runs: string;
  readonly faults: string;
  readonly mutant: string;
}

type Options = LabCatalogue["simulator"];

function Simulator({ options }: { readonly options: Options }) {
  const chosen: Chosen = {
    seed: param("seed") || "1",
    runs: param("runs") || String(RUNS_DEFAULT),
    faults: param("faults") || "swarm",
    mutant: param("mutant"),
  };
  const key = JSON.stringify(chosen);
  return (
    <>
      <ChooseSeed key={`form ${key}`} {...{ chosen, options }} />
      {param("seed") !== "" && <Play key={key} {...{ chosen, options }} />}
    </>
  );
}

const requestOf = ({ seed, runs, faults, mutant }: Chosen) =>
  ({
    name: "POST /simulations",
    body: { seed: Number(seed), runs: Number(runs), faults, ...(mutant === "" ? {} : { mutant }) },
  }) as const;

const commandOf = ({ seed, runs, faults, mutant }: Chosen): readonly [string, ...string[]] => {
  const flags = ["--seed", seed, "--runs", runs, "--faults", faults];
  return ["sim", ...flags, ...(mutant === "" ? [] : ["--mutant", mutant])];
};

function ChooseSeed({ chosen, options }: { readonly chosen: Chosen; readonly options: Options }) {
  const edited = useSignal(chosen);
  const edit = (change: Partial<Chosen>) => {
    edited.value = { ...edited.value, ...change };
  };
  const { seed, runs, faults, mutant } = edited.value;
  const wrong = { seed: problemOf(seed, 0, Number.MAX_SAFE_INTEGER), runs: problemOf(runs, 1, RUNS_MAX) };
  const isWrong = wrong.seed !== null || wrong.runs !== null;
  const play = (next: Chosen) => setParams({ ...next, at: null });
  return (
    <form
      class="choose-seed"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isWrong) play(edited.value);
      }}
    >
      <NumberField label="Seed" value={seed} problem={wrong.seed} onEdit={(text) => edit({ seed: text })} />
      <NumberField label="Jobs and runs" value={runs} problem={wrong.runs} onEdit={(text) => edit({ runs: text })} />
      <SelectField label="Faults" value={faults} options={options.faults} onEdit={(name) => edit({ faults: name })} />
      <SelectField
        label="Injected bug"
        value={mutant}
        none="none: the shipped engine"
        options={options.mutants.map(({ name }) => name)}
        onEdit={(name) => edit({ mutant: name })}
      />
      <span class="buttons">
        <span class="action">
          <button type="submit" class="button main" disabled={isWrong}>
            Run the seed
          </button>
          <RequestMenu label="run the seed" request={requestOf(edited.value)} cli={commandOf(edited.value)} />
        </span>
        <button
          type="button"
          class="button"
          disabled={isWrong}
          onClick={() => play({ ...edited.value, seed: `${Number(seed) + 1}` })}
        >
          Next seed
        </button>
      </span>
      <About mutant={options.mutants.find(({ name }) => name === mutant)} />
    </form>
  );
}

function About({ mutant }: { readonly mutant: Options["mutants"][number] | undefined }) {
  if (mutant === undefined) return null;
  return (
    <p class="about soft">
      {mutant.about}. Found by: {mutant.caught_by.join(", ")}; not every seed leads to it.
    </p>
  );
}

interface SelectFieldProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly string[];
  /** The text of the empty value. */
  readonly none?: string;
  readonly onEdit: (value: string) => void;
}

function SelectField({ label, value, options, none, onEdit }: SelectFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onEdit(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {options.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

interface NumberFieldProps {
  readonly label: string;
  readonly value: string;
  readonly problem: string | null;
  readonly onEdit: (text: string) => void;
}

function NumberField({ label, value, problem, onEdit }: NumberFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        value={value}
        inputMode="numeric"
        size={8}
        autoComplete="off"
        aria-invalid={problem !== null}
        onInput={(event) => onEdit(event.currentTarget.value)}
      />
      {problem !== null && (
        <span class="tone-bad" role="alert">
          {problem}
        </span>
      )}
    </label>
  );
}

function problemOf(text: string, min: number, max: number): string | null {
  const value = /^\d{1,16}$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return null;
  return `give a whole number from ${min}${max > RUNS_MAX ? "" : ` to ${max}`}`;
}

function Play({ chosen, options }: { readonly chosen: Chosen; readonly options: Options }) {
  const { name, body } = requestOf(chosen);
  const simulation = useResource(`simulation ${JSON.stringify(body)}`, (signal) =>
    patientApi.value.request(name, { body }, { signal }),
  );
  const shown = simulation.shown.value;
  if (shown.kind === "loading") return <Elapsed what={`running seed ${chosen.seed}`} />;
  if (shown.kind === "failed") {
    return <Failed what="the history" error={shown.error} retry={() => void simulation.reload()} />;
  }
  const mutant = options.mutants.find(({ name }) => name === chosen.mutant);
  return <Played of={shown.value} mutant={mutant} />;
}

interface PlayedProps {
  readonly of: Simulation;
  readonly mutant: Options["mutants"][number] | undefined;
}

function Played({ of, mutant }: PlayedProps) {
  const chosen = of.violations[Number(param("violation")) || 0] ?? of.violations[0] ?? null;
  const led = useMemo(() => new Set(chosen === null ? [] : before(of.trace, chosen)), [of, chosen]);
  const states = (counts: Simulation["jobs"]) =>
    Object.entries(counts)
      .map(([state, number]) => `${number} ${state.toLowerCase().replaceAll("_", " ")}`)
      .join(", ");
  return (
    <>
      <Violations {...{ of, chosen, led, mutant }} />
      <Player {...{ of, led }} start={chosen === null ? 0 : entryOf(of.trace, chosen)} />
      <Section title="Summary">
        <Facts
          of={[
            ["hash", <Id key="hash" id={of.hash} />],
            ["reproduce", <code key="command">{of.command}</code>],
            ["simulated", `${duration(of.virtual_ms)}, ${count(of.events)} steps, ${count(of.crashes)} crashes`],
            ["jobs", states(of.jobs)],
            ["runs", states(of.runs)],
          ]}
        />
      </Section>
    </>
  );
}

const RUNS_DEFAULT = 20;
const RUNS_MAX = 200;
