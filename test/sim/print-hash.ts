import { simulate } from "../../src/sim/simulate.ts";

/** Prints the hash of one seed: run as a process of its own, to see that nothing depends on the process. */
const seed = Number(process.argv[2]);
const { hash } = await simulate({ seed, runs: 60, faults: "swarm" });
process.stdout.write(hash);
