import { POLICY_PEERS, type PolicyFigures, type PolicyPeer } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { atLeast, atMost, type Bench, type Suite } from "../frame/suite.ts";

/** Cost of a policy check, with few and with many rules. */
export const POLICY_SUITE: Suite = {
  title: "policy: sequential policy checks in one process (name, rules)",
  notes: [
    "of ten rules, eight match a topic of a tenant, one a topic suffix, one has a condition",
    "a quarter of the requests match no rule; Cedar has the same rules, parsed before, and must give the same decisions",
  ],
  columns: [
    { key: "checks_per_s", title: "checks/s", digits: 0 },
    { key: "cpu_us_per_check", title: "CPU µs/check", digits: 2 },
    { key: "cost", title: "× CPU at 50", digits: 2 },
    { key: "ratio", title: "× Cedar's checks/s", digits: 1 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const rules of RULES) {
        const decisions = new Map<PolicyPeer, readonly string[]>();
        for (const peer of POLICY_PEERS) {
          const figures = await measure(bench, peer, rules);
          decisions.set(peer, figures.answers);
          const perSecond = figures.checks / figures.seconds;
          bench.logProgress(`policy, round ${round}: ${peer}, ${rules} rules: ${Math.round(perSecond)} checks/s`);
          series.add(peer, rules, { checks_per_s: perSecond, cpu_us_per_check: figures.cpuUs / figures.checks });
        }
        const differing = differences(decisions.get("cordum") ?? [], decisions.get("cedar") ?? []);
        if (differing > 0) faults.push(`${rules} rules: ${differing} decisions differ from Cedar`);
      }
    }
    for (const rules of RULES) {
      for (const name of POLICY_PEERS) {
        series.compare("cpu_us_per_check", "cost", { name, inFlight: rules }, { name, inFlight: FEW });
      }
      series.compare("checks_per_s", "ratio", { name: "cordum", inFlight: rules }, { name: "cedar", inFlight: rules });
    }
    const targets = [
      atLeast("≥ 300,000 checks/s with 1,000 rules", series.median("cordum", MANY, "checks_per_s"), 300_000),
      atMost("CPU per check with 1,000 rules ≤ 2 × 50 rules", series.median("cordum", MANY, "cost"), 2),
      atLeast("≥ 10 × Cedar with 1,000 rules", series.median("cordum", MANY, "ratio"), 10),
    ];
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, peer: PolicyPeer, rules: number): Promise<PolicyFigures> {
  const times = isQuick ? { warmMs: 200, measureMs: 300 } : { warmMs: 500, measureMs: 1_000 };
  return children.run<PolicyFigures>({ kind: "policy", peer, rules, ...times });
}

function differences(a: readonly string[], b: readonly string[]): number {
  return a.filter((decision, index) => decision !== b[index]).length + Math.abs(a.length - b.length);
}

const FEW = 50;
const MANY = 1_000;
const RULES = [FEW, MANY];
