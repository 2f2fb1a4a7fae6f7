import { simulate } from "../src/sim/simulate.ts";
const [from, to, faults, runs] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4] as any, Number(process.argv[5] ?? 150)];
const seen: Record<string, number> = {};
for (let seed = from; seed <= to; seed++) {
  const c = process.cpuUsage();
  try {
    const r = await simulate({ seed, runs, faults });
    const cpu = process.cpuUsage(c).user / 1000;
    console.log(seed, r.events, `${Math.round(cpu)}ms`, JSON.stringify(r.runs), JSON.stringify(r.jobs));
    for (const v of r.violations.slice(0, 6)) console.log("   ", v.atMs, v.checker, v.id, v.hint.slice(0, 600));
    for (const v of r.violations) seen[v.checker] = (seen[v.checker] ?? 0) + 1;
  } catch (e) { console.log(seed, "THROWN", (e as Error).stack?.slice(0, 600)); }
}
console.log(seen);
