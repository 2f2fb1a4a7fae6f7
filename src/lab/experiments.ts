import { ADMISSION } from "./admission.ts";
import type { Experiment } from "./experiment.ts";
import { LOCK_BUSY } from "./lock-busy.ts";
import { OCC } from "./occ.ts";
import { SAFETY_OUTAGE } from "./safety-outage.ts";

/** Every experiment there is, in the order of `cordum lab --help`. */
export const EXPERIMENTS: readonly Experiment[] = [LOCK_BUSY, ADMISSION, SAFETY_OUTAGE, OCC];
