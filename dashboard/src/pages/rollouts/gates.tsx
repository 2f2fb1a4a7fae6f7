/** The evidence for each gate: for a breach, and for a proof, each on its way to the limit. */
import type { RolloutDetail, RolloutGate } from "../../../../src/client/schema.ts";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Meter, Section } from "../../kit/layout.tsx";
import { count, decimal } from "../../kit/numbers.ts";
import { evidenceShare, type GateResult, gateResult, gateText } from "./verdict.ts";

const TONES: Readonly<Record<GateResult, Tone>> = { breached: "bad", proved: "good", undecided: "quiet" };

export function Gates({ rollout }: { readonly rollout: RolloutDetail }) {
  const { judged_gates: gates, e_value, e_value_limit: limit } = rollout;
  return (
    <Section
      title="Gates"
      about={`e-values: the rollout is rolled back when the mean of the first column reaches ${decimal(limit)}, a gate is proved when the second does`}
    >
      <div class="scroll-x" tabIndex={0} role="region" aria-label="gates, evidence">
        <table class="plain gates">
          <thead>
            <tr>
              <th scope="col">Gate</th>
              <th scope="col">Result</th>
              <th scope="col">Evidence for a breach</th>
              <th scope="col">Evidence that it holds</th>
              <th scope="col" class="end">
                Difference
              </th>
              <th scope="col" class="end">
                Blocks
              </th>
            </tr>
          </thead>
          <tbody>
            {gates.map((gate) => (
              <GateRow key={gate.gate} gate={gate} rollout={rollout} />
            ))}
            <tr class="total">
              <th scope="row">all gates</th>
              <td />
              <td>
                <Evidence value={e_value} limit={limit} tone="bad" />
              </td>
              <td colSpan={3} />
            </tr>
          </tbody>
        </table>
      </div>
      <p class="soft">
        The difference is the mean score of the treatment minus that of the control, from −1 to 1; above 0 is worse than
        the gate allows. It is shown with its interval, and decides nothing.
      </p>
    </Section>
  );
}

function GateRow({ gate, rollout }: { readonly gate: RolloutGate; readonly rollout: RolloutDetail }) {
  const { e_value_limit: limit } = rollout;
  const result = gateResult(gate, rollout);
  const { difference } = gate;
  return (
    <tr>
      <th scope="row" title={gate.gate}>
        {gateText(gate.gate)}
      </th>
      <td>
        <Badge tone={TONES[result]}>{result}</Badge>
      </td>
      <td>
        <Evidence value={gate.e_value} limit={limit} tone="bad" />
      </td>
      <td>
        <Evidence value={gate.proof_e_value} limit={limit} tone="good" />
      </td>
      <td class="end">
        {difference === null ? <span class="soft">–</span> : signed(difference.mean)}
        {difference !== null && (
          <span class="soft interval">
            {signed(difference.low)} to {signed(difference.high)}
          </span>
        )}
      </td>
      <td class="end">{count(gate.blocks)}</td>
    </tr>
  );
}

interface EvidenceProps {
  readonly value: number;
  readonly limit: number;
  readonly tone: Tone;
}

function Evidence({ value, limit, tone }: EvidenceProps) {
  const text = `${decimal(value)} of ${decimal(limit)}`;
  return (
    <span class="evidence">
      {text}
      <Meter share={evidenceShare(value, limit)} tone={tone} label={`e-value ${text}`} />
    </span>
  );
}

const signed = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
