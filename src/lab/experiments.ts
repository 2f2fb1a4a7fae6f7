import type { Experiment } from "./experiment.ts";
import { OCC } from "./occ.ts";

/** Every experiment there is, in the order of `cordum lab --help`. */
export const EXPERIMENTS: readonly Experiment[] = [OCC];
