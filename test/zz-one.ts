import { simulate } from "../src/sim/simulate.ts";
import { drawPlan } from "../src/sim/plan.ts";
import { SeededRandom } from "../src/sim/random.ts";
import { documentOf } from "../src/sim/run-document.ts";
const [seed, faults, runs, id, wf] = [Number(process.argv[2]), process.argv[3] as any, Number(process.argv[4]), process.argv[5]!, process.argv[6]!];
const plan = drawPlan(new SeededRandom(seed).fork("plan"), runs, faults);
console.log(JSON.stringify(documentOf(plan.runs.workflows.find((w) => w.id === wf)!)));
const r = await simulate({ seed, runs, faults, keepsTrace: true });
console.log(r.trace.filter((l) => l.includes(id)).slice(-60).join("\n"));
