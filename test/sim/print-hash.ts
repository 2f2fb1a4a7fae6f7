import { simulate } from "../../src/sim/simulate.ts";

/** Prints the trace hash of one seed. */
const seed = Number(process.argv[2]);
const { hash } = await simulate({ seed, runs: 60, faults: "swarm" });
process.stdout.write(hash);
