import { ADMISSION } from "./admission/experiment.ts";
import type { Experiment } from "./experiment.ts";
import { LOCK_BUSY } from "./lock-busy/experiment.ts";
import { OCC } from "./occ/experiment.ts";
import { ROLLOUT } from "./rollout/experiment.ts";
import { SAFETY_OUTAGE } from "./safety-outage/experiment.ts";

/** In the order of `cordum lab --help`. */
export const EXPERIMENTS: readonly Experiment[] = [LOCK_BUSY, ADMISSION, SAFETY_OUTAGE, OCC, ROLLOUT];
