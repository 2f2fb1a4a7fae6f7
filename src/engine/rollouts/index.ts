/** Rollouts of retry policies and run-lock settings: the settings of each unit, actions of operators, the judgement. */
export {
  endRollout,
  loadRollout,
  pauseRollout,
  promoteRollout,
  type RolloutAction,
  type RolloutOutcome,
  resumeRollout,
  rollbackRollout,
  type StartRolloutOutcome,
  startRollout,
} from "./control-rollout.ts";
export { RolloutJudge } from "./judge-rollouts.ts";
export { RolloutRegistry, type UnitSettings } from "./rollout-registry.ts";
